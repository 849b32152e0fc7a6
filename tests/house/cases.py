#!/usr/bin/env python3
"""Lists which of the public bug reports that we promise to withstand have a test of their own.

usage: cases.py [--list] [TESTS-DIRECTORY]

A test for report 05 is named TEST(..., B05_WhatHappens). Prints the missing ones and exits 1 if
there are any; --list prints each report with its tests.
"""

import os
import re
import sys

# The reports whose tests this release promises. Later releases add to it; nothing leaves it.
PROMISED = "1-43 46 47 49-53 55-58 60-66 71-84"

TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*((?:B\d\d_)+\w*)\s*\)")


def numbers(ranges):
    found = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def tests_by_report(directory):
    """number of a report -> [(path, name of the test)]"""
    found = {}
    for folder, _, files in os.walk(directory):
        for name in sorted(files):
            if not name.endswith(".cc"):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"//[^\n]*", "", file.read())
            for suite, test in TEST.findall(text):
                for number in re.findall(r"B(\d\d)_", test):
                    entry = (os.path.relpath(path, directory), f"{suite}.{test}")
                    found.setdefault(int(number), []).append(entry)
    return found


def main(arguments):
    listing = "--list" in arguments
    arguments = [argument for argument in arguments if argument != "--list"]
    here = os.path.dirname(os.path.abspath(__file__))
    found = tests_by_report(arguments[0] if arguments else os.path.join(here, ".."))
    promised = numbers(PROMISED)
    missing = sorted(promised - set(found))
    for number in sorted(promised | set(found)):
        if listing:
            names = ", ".join(f"{name} ({path})" for path, name in found.get(number, []))
            print(f"B{number:02}  {names or 'no test'}")
    print(f"cases: {len(promised) - len(missing)} of {len(promised)} promised reports have a test")
    if missing:
        print("missing: " + " ".join(f"B{number:02}" for number in missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
