#!/usr/bin/env python3
"""The runner of `./dev bench`, without running a benchmark: its statistics on known samples, its
rows, and what it makes of canned output of Google Benchmark.
"""

import contextlib
import importlib.util
import io
import itertools
import json
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "run")
sys.path.insert(0, RUNNER)

import compare  # noqa: E402
import environment  # noqa: E402
import measure  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import rows  # noqa: E402
import statistics_of  # noqa: E402
import svg  # noqa: E402

_spec = importlib.util.spec_from_file_location("bench_main", os.path.join(RUNNER, "__main__.py"))
runner = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runner)

PROMISED = """
wheel.{schedule,cancel,reschedule}.{10k,1m,10m} wheel.expire_same.{100k,1m} wheel.expire_spread.1m
wheel.cascade_worst.1m wheel.cascade_moved.1m wheel.advance_p9999.1m
wheel.{cancel,reschedule}_batch.1m wheel.idle_tick.1m wheel.jump_1h wheel.bytes.{exact,index}
engine.submit.{1k,10k,100k,max} engine.schedule_durable.{1,32,async32}
engine.cancel.{10k,100k,1m,5m} engine.durable_ops.{disk,os,memory}
engine.order_mix.{disk,os} engine.order_mix.{disk,os}.payload100 engine.cpu_per_op
engine.lateness.{tick,exact}.{idle,10k}.{handover,start}.{p50,p99,p999}
engine.lateness.exact.10k.{hybrid,fifo}.handover.{p50,p999} engine.herd.{100k,1m} engine.herd_slow
engine.idle_cpu.{10ms,1ms,drain} engine.bytes_per_task recovery.full.{1m,10m}
recovery.full.clean.1m recovery.ready.10m log.bytes_per_task log.write_amplification
"""


def expanded(name):
    """The names that a name with braces stands for."""
    if "{" not in name:
        return [name]
    head, rest = name.split("{", 1)
    choices, tail = rest.split("}", 1)
    return [found for choice in choices.split(",") for found in expanded(head + choice + tail)]


def canned(**benchmarks):
    """What Google Benchmark prints for benchmarks of one iteration with these counters."""
    runs = [{"name": f"{name}/iterations:1/manual_time", "run_name": name, "run_type": "iteration",
             "repetitions": 1, "repetition_index": 0, "threads": 1, "iterations": 1,
             "real_time": 12.5, "cpu_time": 11.0, "time_unit": "ms", **counters}
            for name, counters in benchmarks.items()]
    return json.dumps({"context": {"host_name": "secret", "executable": "/secret/bench"},
                       "benchmarks": runs})


class CannedPrograms:
    """Programs whose output is given: program -> benchmark -> list of counters, one a run."""

    def __init__(self, given, skipped=()):
        self.given = given
        self.skipped = list(skipped)
        self.order = []

    def benchmarks(self, program):
        return frozenset(self.given.get(program, {}))

    def measure(self, program, benchmark):
        self.order.append(benchmark)
        outcome = self.given[program][benchmark]
        one = outcome[min(self.order.count(benchmark), len(outcome)) - 1]
        found, errors = programs.counters_of(canned(**{benchmark: one}))
        if errors:
            raise programs.Failed(errors[0][1])
        return found[benchmark]


QUIET = measure.Progress(io.StringIO())


def measured(given, names, wanted_set=rows.DEFAULT, repetitions=3, budget=None):
    chosen = [row for row in rows.all_rows() if row.name in names]
    canned_programs = CannedPrograms(given)
    planned = measure.measurements_for(chosen, canned_programs, wanted_set)
    measure.run_all(planned, canned_programs, repetitions, budget, QUIET)
    return results.results_of(chosen, planned), canned_programs


class StatisticsTest(unittest.TestCase):
    def test_median_of_odd_even_and_no_samples(self):
        self.assertEqual(statistics_of.median([3, 1, 2]), 2)
        self.assertEqual(statistics_of.median([4, 1, 2, 3]), 2.5)
        self.assertIsNone(statistics_of.median([]))

    def test_disjoint_samples_give_the_least_p_there_is(self):
        self.assertEqual(statistics_of.mann_whitney([1, 2, 3], [4, 5, 6]), (0, 0.1))
        u, p = statistics_of.mann_whitney([9, 10, 11, 12], [1, 2, 3, 4])
        self.assertEqual(u, 16)
        self.assertAlmostEqual(p, 2 / 70)

    def test_exact_p_is_what_counting_all_choices_gives(self):
        first, second = [1, 2, 3, 4, 5, 6, 8, 13], [8, 9, 10, 11, 12, 14]  # with a tie

        def u_of(chosen, others):
            return sum((a > b) + (a == b) / 2 for a in chosen for b in others)

        pool, far, count = first + second, 0, 0
        observed = abs(u_of(first, second) - 24)
        for places in itertools.combinations(range(len(pool)), len(first)):
            others = [pool[i] for i in range(len(pool)) if i not in places]
            far += abs(u_of([pool[i] for i in places], others) - 24) >= observed
            count += 1
        u, p = statistics_of.mann_whitney(first, second)
        self.assertEqual(u, 5.5)
        self.assertAlmostEqual(p, far / count)

    def test_equal_samples_differ_by_nothing(self):
        self.assertEqual(statistics_of.mann_whitney([64] * 5, [64] * 5)[1], 1)
        self.assertEqual(statistics_of.superiority([64] * 5, [64] * 5), 0.5)

    def test_many_samples_are_estimated_as_they_are_counted(self):
        first = [i * 1.7 % 23 for i in range(12)]
        second = [i * 2.9 % 29 for i in range(12)]
        counted = statistics_of.mann_whitney(first, second)[1]
        before = statistics_of.EXACT_MAX
        statistics_of.EXACT_MAX = 0
        try:
            estimated = statistics_of.mann_whitney(first, second)[1]
        finally:
            statistics_of.EXACT_MAX = before
        self.assertAlmostEqual(counted, estimated, delta=0.02)


class RowsTest(unittest.TestCase):
    def test_every_promised_row_exists(self):
        names = {row.name for row in rows.all_rows()}
        promised = {name for word in PROMISED.split() for name in expanded(word)}
        self.assertGreater(len(promised), 70)
        self.assertEqual(promised - names, set())

    def test_names_are_unique_and_targets_tell_what_they_test(self):
        found = rows.all_rows()
        self.assertEqual(len(found), len({row.name for row in found}))
        for row in found:
            if row.target:
                self.assertTrue(row.target.limit is not None or row.target.times is not None
                                or row.target.row is not None, row.name)
            if row.target and row.target.row:
                self.assertIn(row.target.row, {other.name for other in found})

    def test_sets_hold_each_other(self):
        found = rows.all_rows()
        counts = [sum(rows.in_set(row, name) for row in found) for name in rows.SETS]
        self.assertEqual(counts, sorted(set(counts)))
        self.assertEqual(counts[-1], len(found))


class MeasureTest(unittest.TestCase):
    def test_counters_are_told_from_fields_and_suffixes_are_stripped(self):
        found, errors = programs.counters_of(canned(**{"a.b": {"value": 2.5, "start.p99": 7}}))
        self.assertEqual(found, {"a.b": {"value": 2.5, "start.p99": 7}})
        self.assertEqual(errors, [])
        self.assertEqual(programs.bare("a.b/redis_always/iterations:1/manual_time"),
                         "a.b/redis_always")

    def test_failed_benchmark_gives_null_and_its_reason(self):
        given = {"wheel_bench": {"wheel.cancel.1m": [
            {"error_occurred": True, "error_message": "a timer was not cancelled"}]}}
        found, _ = measured(given, {"wheel.cancel.1m"})
        self.assertIsNone(found[0].value)
        self.assertIsNone(found[0].met)

    def test_ours_and_its_peers_take_turns(self):
        given = {"wheel_bench": {"wheel.cancel.1m": [{"value": 16}, {"value": 18}, {"value": 15}]},
                 "timer_peers_bench": {"wheel.cancel.1m/asio": [{"value": 400}]}}
        found, canned_programs = measured(given, {"wheel.cancel.1m"})
        self.assertEqual(canned_programs.order, ["wheel.cancel.1m", "wheel.cancel.1m/asio"] * 3)
        self.assertEqual((found[0].value, found[0].samples), (16, [16, 18, 15]))
        self.assertEqual((found[0].peer, found[0].ratio, found[0].met), ("asio", 25, True))

    def test_one_benchmark_of_several_rows_runs_once(self):
        given = {"expiry_bench": {"engine.lateness.exact.10k": [
            {"handover.p50": 28, "handover.p99": 65, "start.p99": 151}]}}
        names = {f"engine.lateness.exact.10k.{mark}"
                 for mark in ("handover.p50", "handover.p99", "start.p99")}
        found, canned_programs = measured(given, names, repetitions=1)
        self.assertEqual(len(canned_programs.order), 1)
        self.assertEqual([result.met for result in found], [True, True, False])

    def test_servers_are_measured_in_the_full_set_only(self):
        given = {"engine_bench": {"engine.order_mix.disk": [{"value": 3.1e6, "cpu_per_op": 0.4}]},
                 "server_peers_bench": {"engine.order_mix.disk/redis_always": [{"value": 2e5}]}}
        names = {"engine.order_mix.disk"}
        default, _ = measured(given, names)
        self.assertIsNone(default[0].met)  # The limit holds; whether 12x does, nobody knows.
        self.assertEqual(default[0].peers["redis_always"], None)
        full, _ = measured(given, names, wanted_set=rows.FULL)
        self.assertTrue(full[0].met)
        self.assertAlmostEqual(full[0].ratio, 15.5)

    def test_target_may_be_another_row(self):
        given = {"engine_bench": {"engine.cancel.100k": [{"value": 2.0e6}],
                                  "engine.cancel.1m": [{"value": 1.55e6}]}}
        found, _ = measured(given, {"engine.cancel.100k", "engine.cancel.1m"})
        self.assertEqual([result.met for result in found], [True, False])

    def test_what_takes_longest_gives_up_its_repetitions(self):
        items = [measure.Measurement("p", name, peer, most, seconds=seconds, named=peer == "asio")
                 for name, peer, most, seconds in (
                     ("ours", None, 0, 4), ("named", "asio", 0, 4), ("other", "libuv", 0, 4),
                     ("quick", None, 0, 1), ("counted", None, 1, 9))]
        for seconds_left, expected in ((99, [3, 3, 3, 3, 1]), (20, [3, 3, 1, 3, 1]),
                                       (14, [3, 2, 1, 3, 1]), (0, [1, 1, 1, 1, 1])):
            runs = measure.repetitions_that_fit(items, 3, seconds_left)
            self.assertEqual(list(runs.values()), expected)

    def test_peers_are_left_out_when_ours_fill_the_time(self):
        given = {"wheel_bench": {"wheel.cancel.1m": [{"value": 16}]},
                 "timer_peers_bench": {"wheel.cancel.1m/asio": [{"value": 400}]}}
        found, canned_programs = measured(given, {"wheel.cancel.1m"}, budget=-1)
        self.assertEqual(canned_programs.order, ["wheel.cancel.1m"])
        self.assertEqual((found[0].value, found[0].peer_value), (16, None))


class ReportTest(unittest.TestCase):
    def setUp(self):
        given = {"wheel_bench": {"wheel.schedule.1m": [{"value": 7.1}],
                                 "wheel.expire_same.1m": [{"value": 17.2}]},
                 "timer_peers_bench": {"wheel.schedule.1m/asio": [{"value": 245}]}}
        self.found, _ = measured(given, {"wheel.schedule.1m", "wheel.expire_same.1m",
                                         "engine.lateness.exact.10k.fifo.handover.p999"})

    def test_document_has_the_promised_fields_and_no_names_of_the_machine(self):
        document = runner.as_document(self.found, {"cpu": "x"}, {}, ["redis: not installed"],
                                      rows.DEFAULT, True)
        text = json.dumps(document)
        self.assertNotIn("secret", text)
        by_name = {row["name"]: row for row in json.loads(text)["rows"]}
        schedule = by_name["wheel.schedule.1m"]
        self.assertLessEqual({"name", "value", "unit", "samples", "peer", "peer_value", "ratio",
                              "target", "met", "peers"}, set(schedule))
        self.assertEqual((schedule["met"], schedule["peer"]), (True, "asio"))
        self.assertEqual(schedule["peers"]["libuv"], None)
        self.assertIs(by_name["wheel.expire_same.1m"]["met"], False)
        self.assertIs(by_name["engine.lateness.exact.10k.fifo.handover.p999"]["value"], None)

    def test_table_shows_ours_peer_ratio_target_and_met(self):
        lines = report.text_table(self.found).split("\n")
        self.assertEqual(lines[0].split(), list(report.HEAD))
        words = lines[2].split()
        self.assertEqual(words[:6], ["wheel.schedule.1m", "7.1", "ns", "245", "ns", "asio"])
        self.assertEqual((words[6], words[-1]), ("34.5x", "yes"))
        self.assertEqual(lines[3].split()[-1], "NO")
        self.assertIn("2 of 3 rows measured; 1 targets met, 1 not", report.summary(self.found))

    def test_markdown_has_a_line_a_row(self):
        text = report.markdown(self.found, {"cores": 2}, "./dev bench")
        self.assertIn("| `wheel.schedule.1m` | 7.1 ns | 245 ns asio | 34.5x |", text)

    def test_fingerprint_has_no_path(self):
        with tempfile.TemporaryDirectory() as directory:
            before = environment.fdatasync_us
            environment.fdatasync_us = lambda path: 100.0
            try:
                found = environment.fingerprint(RUNNER, directory, directory)
            finally:
                environment.fdatasync_us = before
        self.assertFalse([value for value in found.values()
                          if isinstance(value, str) and value.startswith("/")])
        self.assertIn("file_system", found)

    def test_short_numbers(self):
        self.assertEqual([svg.short(value) for value in (0.00312, 14.58, 9999, 1_234_567, None)],
                         ["0.00312", "14.6", "9999", "1.23 M", "-"])


class CompareTest(unittest.TestCase):
    def write(self, name, samples, better="lower", exact=False):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"rows": [{"name": "wheel.cancel.1m", "unit": "ns", "better": better,
                                 "exact": exact, "samples": samples}]}, file)
        return path

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def exit_code(self, *paths):
        out = io.StringIO()
        before = sys.argv
        sys.argv = ["bench", "--compare", *paths]
        try:
            with contextlib.redirect_stdout(out):
                return runner.main(), out.getvalue()
        finally:
            sys.argv = before

    def test_planted_regression_exits_with_4(self):
        code, text = self.exit_code(self.write("base", [16.0, 16.2, 16.1]),
                                    self.write("new", [18.0, 18.3, 17.9, 18.1, 18.2]))
        self.assertEqual(code, 4)
        self.assertIn("REGRESSION", text)
        self.assertIn("12.4 % worse", text)

    def test_small_or_doubtful_changes_exit_with_0(self):
        base = self.write("base", [16.0, 16.2, 16.1, 16.3, 16.1])
        for samples in ([16.5, 16.6, 16.4, 16.7, 16.5],   # sure, but 2.5 % only
                        [15.0, 25.0, 16.0, 15.5, 24.0],   # no more than noise
                        [10.0, 10.1, 10.2, 10.1, 10.0]):  # better
            code, text = self.exit_code(base, self.write("new", samples))
            self.assertEqual(code, 0, text)

    def test_higher_may_be_better(self):
        base = self.write("base", [3.1e6, 3.0e6, 3.2e6, 3.1e6, 3.1e6], "higher")
        worse = self.write("new", [2.1e6, 2.0e6, 2.2e6, 2.1e6, 2.1e6], "higher")
        self.assertEqual(self.exit_code(base, worse)[0], 4)
        self.assertEqual(self.exit_code(worse, base)[0], 0)

    def test_other_machine_is_warned_of(self):
        before = {"environment": {"cpu": "a", "cores": 2}}
        self.assertEqual(compare.unlike(before, {"environment": {"cpu": "a", "cores": 4}}),
                         [("cores", 2, 4)])
        self.assertEqual(compare.unlike(before, before), [])

    def test_what_is_counted_needs_no_second_sample(self):
        base = self.write("base", [64], exact=True)
        self.assertEqual(self.exit_code(base, self.write("new", [1_000_000], exact=True))[0], 4)
        self.assertEqual(self.exit_code(base, base)[0], 0)


class ChartTest(unittest.TestCase):
    def test_figure_is_well_formed_and_keeps_what_was_not_measured(self):
        text = svg.figure("A & B", [
            svg.line_chart("cost", [svg.Series("a<b", [(1e3, 5.0), (1e4, None), (1e6, 7.5)])],
                           x="pending", y="ns"),
            svg.bar_chart("rate", [svg.Bar("ours", 3e6, ours=True), svg.Bar("peer", None)], x="/s"),
            svg.percentile_strips("late", [svg.Strip("ours", {"p50": 1, "p99": 0}),
                                           svg.Strip("peer", {})], x="us")])
        drawn = "".join(tree.fromstring(text).itertext())
        self.assertIn("a<b", drawn)
        self.assertEqual(drawn.count("not measured"), 2)


if __name__ == "__main__":
    unittest.main()
