#!/usr/bin/env python3
"""The programs of a page of the documentation print what the page says.

usage: guide_test.py PAGE PROGRAM...

Each PROGRAM is named example_NAME. The page shows a run of it as a block that begins with the line
`$ ./NAME`; the rest of the block is what it prints. Every program is shown, and every run shown has
its program.
"""

import os
import re
import subprocess
import sys
import tempfile


def runs(text):
    """{name: printed} of each block that shows a run."""
    return dict(re.findall(r"^```\n\$ \./(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def problems(page, programs):
    with open(page, encoding="utf-8") as file:
        shown = runs(file.read())
    for program in programs:
        name = os.path.basename(program).removeprefix("example_")
        expected = shown.pop(name, None)
        if expected is None:
            yield f"{page} does not show ./{name}"
            continue
        with tempfile.TemporaryDirectory() as directory:
            ran = subprocess.run([program], cwd=directory, text=True, stdout=subprocess.PIPE,
                                 check=False, timeout=60)
        if ran.returncode != 0 or ran.stdout != expected:
            yield f"./{name} ends with {ran.returncode} and prints\n{ran.stdout}"
            yield f"{page} says\n{expected}"
    for name in shown:
        yield f"{page} shows ./{name}, which is no program of the examples"


def main():
    found = list(problems(sys.argv[1], sys.argv[2:]))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
