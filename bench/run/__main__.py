"""`./dev bench` without names of programs: runs the rows, prints the table, writes the files.

exit codes: 0 measured; 1 a benchmark failed; 2 usage; 3 interrupted; 4 a significant regression.
"""

import argparse
import datetime
import fnmatch
import json
import os
import shlex
import shutil
import sys
import tempfile
import time

import compare
import environment
import measure
import programs
import report
import results
import rows as rows_module
import scale

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.path.join(ROOT, "build", "release")
# Quick and default runs give up repetitions to end in time; the first run of each row is kept.
BUDGET_SECONDS = {rows_module.QUICK: 40, rows_module.DEFAULT: 340, rows_module.FULL: 1740}
FORMAT = 1


def parser():
    made = argparse.ArgumentParser(prog="./dev bench", add_help=False)
    made.add_argument("--quick", action="store_true")
    made.add_argument("--full", action="store_true")
    made.add_argument("--rows", action="append", metavar="GLOB")
    made.add_argument("--list", action="store_true")
    made.add_argument("--repetitions", type=int, metavar="N")
    made.add_argument("--json", metavar="FILE")
    made.add_argument("--markdown", metavar="FILE")
    made.add_argument("--compare", nargs="+", metavar="FILE")
    made.add_argument("--scale", action="store_true")
    return made


def chosen_rows(arguments, wanted_set):
    """The rows of the set; with --rows those that match, of any set."""
    found = rows_module.all_rows()
    if not arguments.rows:
        return [row for row in found if rows_module.in_set(row, wanted_set)]
    patterns = [pattern for given in arguments.rows for pattern in given.split(",")]
    return [row for row in found
            if any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)]


def list_rows(rows):
    for row in rows:
        target = row.target.text if row.target else ""
        print(f"{row.name:<44} {row.set:<8} {row.unit:<14} {target}".rstrip())


def as_document(found, machine, noisy, skipped, wanted_set, complete):
    return {
        "format": FORMAT,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "set": wanted_set,
        "complete": complete,
        "environment": machine,
        "noise": noisy,
        "skipped": skipped,
        "rows": [results.to_json(result) for result in found],
    }


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def say(text):
    print(text, file=sys.stderr, flush=True)


def look_at_machine(scratch):
    """(fingerprint, noise), with a warning for all that makes figures doubtful."""
    machine, noisy = environment.fingerprint(ROOT, BUILD, scratch), environment.noise()
    for warning in environment.warnings(machine, noisy):
        say(f"warning: {warning}")
    return machine, noisy


def built_programs(scratch, wanted_set):
    return programs.Programs(os.path.join(BUILD, "bin"), scratch, {
        "COUNTWHEEL_BENCH_IDLE_SECONDS": str(rows_module.IDLE_SECONDS[wanted_set])})


def failed(measured):
    """1 if a benchmark has failed, and says which."""
    failures = [item.failed for item in measured if item.failed]
    for failure in failures:
        say(f"failed: {failure}")
    return int(bool(failures))


def command_line():
    """What was typed, without the names of files."""
    files = {"--json", "--markdown"}
    words = [word for i, word in enumerate(sys.argv[1:], 1)
             if word not in files and sys.argv[i - 1] not in files]
    return shlex.join(["./dev", "bench", *words])


def run_scale(arguments, wanted_set, scratch):
    """Measures and writes docs/scale.*; answers the exit code."""
    machine, _ = look_at_machine(scratch)
    largest = 1e7 if arguments.full else 1e6
    planned = scale.measurements(largest)
    complete = measure.run_all(planned, built_programs(scratch, wanted_set),
                               arguments.repetitions or 3, None, measure.Progress())
    if complete:
        write(os.path.join(ROOT, "docs", "scale.svg"), scale.picture(planned))
        text = scale.document(planned, machine, command_line())
        write(os.path.join(ROOT, "docs", "scale.md"), text)
        print(text)
    return failed(planned) if complete else 3


def run(arguments, rows, wanted_set, scratch):
    """Measures, prints and writes; answers the exit code."""
    base = compare.load(arguments.compare[0]) if arguments.compare else None
    begin, steal = time.monotonic(), environment.steal_seconds()
    machine, noisy = look_at_machine(scratch)
    found = built_programs(scratch, wanted_set)
    planned = measure.measurements_for(rows, found, wanted_set)
    for line in found.skipped:
        say(f"skipped: {line}")
    absent = [row.name for row in rows if row.benchmark not in found.benchmarks(row.program)]
    if absent:
        say(f"no such benchmark in this build, hence null: {', '.join(absent)}")
    budget = None if arguments.repetitions or base else (
        BUDGET_SECONDS[wanted_set] - (time.monotonic() - begin))
    repetitions = arguments.repetitions or (5 if base else 3)
    complete = measure.run_all(planned, found, repetitions, budget, measure.Progress())
    noisy["steal_seconds_of_run"] = round(environment.steal_seconds() - steal, 2)
    noisy["seconds_of_run"] = round(time.monotonic() - begin)
    table = results.results_of(rows, planned)
    shown = table if complete else [result for result in table if result.value is not None]
    print(report.text_table(shown))
    print()
    print(report.environment_line(machine))
    print(f"{report.summary(table)}; {noisy['seconds_of_run']} s, "
          f"{noisy['steal_seconds_of_run']} s of processor time given to others")
    document = as_document(table, machine, noisy, found.skipped, wanted_set, complete)
    if arguments.json:
        write(arguments.json, json.dumps(document, indent=1) + "\n")
    if arguments.markdown:
        write(arguments.markdown, report.markdown(table, machine, command_line()))
    code = failed(planned)
    left_out = [item.benchmark for item in planned if item.left_out]
    if left_out:
        say(f"no time for {len(left_out)} peers ({left_out[0]} ...); --repetitions 1 has no limit")
    if not complete:
        say("interrupted: the table has what was measured until then")
    if base:
        return print_comparison(base, document) or code
    return code if complete else 3


def print_comparison(base, newer):
    for what, before, after in compare.unlike(base, newer):
        say(f"warning: {what} was {before} and is {after}")
    print()
    differences = compare.compare(base, newer)
    print(compare.text_of(differences))
    return 4 if any(item.regression for item in differences) else 0


def main():
    arguments = parser().parse_args()
    if arguments.quick and arguments.full:
        parser().error("--quick and --full are two sets; choose one")
    if arguments.compare and len(arguments.compare) > 2:
        parser().error("--compare takes one file, or two")
    wanted_set = (rows_module.QUICK if arguments.quick
                  else rows_module.FULL if arguments.full else rows_module.DEFAULT)
    if arguments.compare and len(arguments.compare) == 2:
        return print_comparison(*(compare.load(path) for path in arguments.compare))
    rows = chosen_rows(arguments, rows_module.FULL if arguments.list else wanted_set)
    if not rows:
        parser().error(f"no row matches {', '.join(arguments.rows)}; --list names them")
    if arguments.list:
        list_rows(rows)
        return 0
    scratch = tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("COUNTWHEEL_BENCH_DIR", BUILD))
    os.chmod(scratch, 0o755)  # Servers that may not run as root have their directories below.
    try:
        if arguments.scale:
            return run_scale(arguments, wanted_set, scratch)
        return run(arguments, rows, wanted_set, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
