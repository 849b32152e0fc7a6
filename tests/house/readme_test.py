#!/usr/bin/env python3
"""The first program of a document is the one in docs/examples, and prints what the document says.

usage: readme_test.py PROGRAM DOCUMENT SOURCE [RUNS]

The program runs twice, or RUNS times, in an empty directory: that of the README ends its first run
as if killed, and the second finds what the first has left. The document shows the source as its
first C++ block, and the output of all runs, in their order, as the first block after it that holds
the first line printed.
"""

import re
import subprocess
import sys
import tempfile


def blocks(text):
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_often(program, runs):
    with tempfile.TemporaryDirectory() as directory:
        return [
            subprocess.run([program], cwd=directory, text=True, stdout=subprocess.PIPE,
                           check=False, timeout=60).stdout.splitlines()
            for _ in range(runs)
        ]


def problems(program, readme, source, runs="2"):
    with open(readme, encoding="utf-8") as file:
        shown = blocks(file.read())
    with open(source, encoding="utf-8") as file:
        code = file.read()
    outputs_of_runs = run_often(program, int(runs))
    if not all(outputs_of_runs):
        yield f"a run printed nothing: {outputs_of_runs}"
    printed = sum(outputs_of_runs, [])
    programs = [content for language, content in shown if language in ("cpp", "c++")]
    if not programs or programs[0].strip() != code.strip():
        yield f"the first C++ block of {readme} is not {source}"
    outputs = [content for language, content in shown if language not in ("cpp", "c++")]
    place = [content for content in outputs if printed and printed[0] in content]
    if not place:
        yield f"{readme} does not show the output: {printed}"
    rest = place[0] if place else ""
    for line in printed if place else ():
        before, found, rest = rest.partition(line)
        if not found:
            yield f"{readme} does not show, or not in this order: {line}"


def main():
    found = list(problems(*sys.argv[1:5]))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
