#!/usr/bin/env python3
"""The first program of the README is the one in docs/examples, and prints what the README says.

usage: readme_test.py PROGRAM README SOURCE

The program runs twice in an empty directory: the first run ends as if killed, the second finds what
the first has left. The README shows the source as its first C++ block, and both runs' output, in
this order, as the first block after it that holds the first line printed.
"""

import re
import subprocess
import sys
import tempfile


def blocks(text):
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_twice(program):
    with tempfile.TemporaryDirectory() as directory:
        return [
            subprocess.run([program], cwd=directory, text=True, stdout=subprocess.PIPE,
                           check=False, timeout=60).stdout.splitlines()
            for _ in range(2)
        ]


def problems(program, readme, source):
    with open(readme, encoding="utf-8") as file:
        shown = blocks(file.read())
    with open(source, encoding="utf-8") as file:
        code = file.read()
    first, second = run_twice(program)
    if not first or not second:
        yield f"a run printed nothing: {first}, {second}"
    programs = [content for language, content in shown if language in ("cpp", "c++")]
    if not programs or programs[0].strip() != code.strip():
        yield f"the first C++ block of {readme} is not {source}"
    outputs = [content for language, content in shown if language not in ("cpp", "c++")]
    place = [content for content in outputs if first and first[0] in content]
    if not place:
        yield f"{readme} does not show the output: {first + second}"
    rest = place[0] if place else ""
    for line in (first + second) if place else ():
        before, found, rest = rest.partition(line)
        if not found:
            yield f"{readme} does not show, or not in this order: {line}"


def main():
    found = list(problems(*sys.argv[1:4]))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
