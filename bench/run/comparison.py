"""The published experiments on Redis, on Countwheel beside it: docs/comparison.md and its plots.

usage: comparison.py [--build-dir DIR] [--out DIR] [--repeat N] [--json FILE] [--from FILE]

Runs experiments_bench of a release build, each experiment in a process of its own, and writes
OUT/comparison.md and OUT/comparison/*.svg. --json keeps the figures, --from makes the document of
such a file again without running anything.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import comparison_plots
import comparison_text
import environment
import programs as programs_module
import statistics_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = "experiments_bench"
ONCE = ("experiment.mixed/", "experiment.sustained/")  # They take a minute each.


def redis_version():
    try:
        text = subprocess.run(["redis-server", "--version"], text=True, check=False,
                              stdout=subprocess.PIPE).stdout
    except OSError:
        return None
    found = re.search(r"v=([\d.]+)", text)
    return found.group(1) if found else None


def run_all(programs, repeat):
    """experiment -> {counter: median}; what fails is said and left out."""
    names = [name for name in programs.benchmarks(PROGRAM) if name.startswith("experiment.")]
    samples = {name: [] for name in names}
    # Interleaved, systems of one experiment side by side: what disturbs, disturbs both.
    for turn in range(repeat):
        for name in sorted(names):
            if turn and name.startswith(ONCE):
                continue
            print(f"{name} ({turn + 1} of {repeat})", file=sys.stderr, flush=True)
            try:
                samples[name].append(programs.measure(PROGRAM, name))
            except programs_module.Failed as failure:
                print(f"failed: {failure}", file=sys.stderr, flush=True)
    return {name: {counter: statistics_of.median([run[counter] for run in runs])
                   for counter in runs[0]}
            for name, runs in samples.items() if runs}


def measure(build, repeat):
    scratch = tempfile.mkdtemp(prefix="comparison-",
                               dir=os.environ.get("COUNTWHEEL_BENCH_DIR", build))
    try:
        programs = programs_module.Programs(os.path.join(build, "bin"), scratch)
        if not programs.exists(PROGRAM):
            sys.exit(f"comparison: {PROGRAM} is not built; ./dev build release {PROGRAM}")
        machine = environment.fingerprint(ROOT, build, scratch)
        for warning in environment.warnings(machine, environment.noise()):
            print(f"warning: {warning}", file=sys.stderr)
        results = run_all(programs, repeat)
        for line in programs.skipped:
            print(f"skipped: {line}", file=sys.stderr)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {"machine": machine, "redis": redis_version(), "repeat": repeat, "results": results,
            "pending": int(os.environ.get("COUNTWHEEL_EXPERIMENT_PENDING", 5_000_000)),
            "seconds": int(os.environ.get("COUNTWHEEL_EXPERIMENT_SECONDS", 30))}


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--out", default=os.path.join(ROOT, "docs"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--from", dest="source")
    arguments = parser.parse_args()
    if arguments.source:
        with open(arguments.source, encoding="utf-8") as file:
            run = json.load(file)
    else:
        run = measure(os.path.abspath(arguments.build_dir), arguments.repeat)
    if arguments.json:
        write(arguments.json, json.dumps(run, indent=1, sort_keys=True) + "\n")
    plots = os.path.join(arguments.out, "comparison")
    os.makedirs(plots, exist_ok=True)
    for name, text in comparison_plots.figures(run).items():
        write(os.path.join(plots, f"{name}.svg"), text)
    write(os.path.join(arguments.out, "comparison.md"), comparison_text.document(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
