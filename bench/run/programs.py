"""The benchmark programs: which benchmarks they have, and one run of one of them."""

import json
import os
import re
import subprocess

SKIPPED = re.compile(r"^skipped: (.+)$", re.MULTILINE)
TIMEOUT_SECONDS = 600


def bare(name):
    """A benchmark's name without what Google Benchmark appends to it."""
    return re.sub(r"/(iterations:\d+|repeats:\d+|manual_time|real_time|process_time|threads:\d+|"
                  r"min_time:[\d.]+)(?=/|$)", "", name)


def counters_of(text):
    """benchmark -> {counter: value} of one JSON output, and [(benchmark, error)]. What is not a
    counter is a field that Google Benchmark documents."""
    fields = {"name", "family_index", "per_family_instance_index", "run_name", "run_type",
              "repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time",
              "time_unit", "error_occurred", "error_message", "aggregate_name", "aggregate_unit",
              "label", "big_o", "rms"}
    found, errors = {}, []
    for run in json.loads(text)["benchmarks"]:
        name = bare(run["name"])
        if run.get("error_occurred"):
            errors.append((name, run.get("error_message", "no reason given")))
        elif run.get("run_type", "iteration") == "iteration":
            found[name] = {key: value for key, value in run.items()
                           if key not in fields and isinstance(value, (int, float))}
    return found, errors


class Failed(Exception):
    """A benchmark did not give its figures."""


class Programs:
    """The programs of one build; each measurement is a process of its own in a directory that
    belongs to this run."""

    def __init__(self, directory, scratch, environment=None):
        self.directory = directory
        self.scratch = scratch
        self.environment = {**os.environ, "COUNTWHEEL_BENCH_DIR": scratch, **(environment or {})}
        self.skipped = []
        self._names = {}

    def exists(self, program):
        return os.access(os.path.join(self.directory, program), os.X_OK)

    def benchmarks(self, program):
        """The names in a program, none if it was not built. Notes what it says it skips."""
        if program not in self._names:
            self._names[program] = frozenset()
            if self.exists(program):
                done = self._run(program, ["--benchmark_list_tests=true"])
                self._names[program] = frozenset(bare(line) for line in done.stdout.split("\n")
                                                 if line.strip())
        return self._names[program]

    def measure(self, program, benchmark):
        """The counters of one run. Raises Failed."""
        pattern = "^" + re.sub(r"([^\w/])", r"\\\1", benchmark) + "/iterations"
        try:
            done = self._run(program, [f"--benchmark_filter={pattern}", "--benchmark_format=json"])
        except subprocess.TimeoutExpired:
            raise Failed(f"{benchmark}: no end after {TIMEOUT_SECONDS} s") from None
        except OSError as error:
            raise Failed(f"{benchmark}: {program} cannot run: {error.strerror}") from None
        try:
            found, errors = counters_of(done.stdout)
        except (ValueError, KeyError):
            last = (done.stderr.strip().split("\n") or [""])[-1]
            raise Failed(f"{benchmark}: {program} ended with {done.returncode}: {last}") from None
        if errors:
            raise Failed(f"{errors[0][0]}: {errors[0][1]}")
        if benchmark not in found:
            raise Failed(f"{benchmark}: {program} has no such benchmark")
        return found[benchmark]

    def _run(self, program, arguments):
        done = subprocess.run([os.path.join(self.directory, program), *arguments], text=True,
                              cwd=self.scratch, env=self.environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=TIMEOUT_SECONDS)
        for line in SKIPPED.findall(done.stderr):
            if line not in self.skipped:
                self.skipped.append(line)
        return done
