#!/usr/bin/env python3
"""Every test that a page of the documentation names is there.

usage: semantics_test.py PAGE TESTS-DIRECTORY

A test is named as `Suite.Situation` in backquotes.
"""

import os
import re
import sys

NAMED = re.compile(r"`([A-Z]\w+\.[A-Z]\w+)`")
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")


def tests_in(directory):
    found = set()
    for folder, _, files in os.walk(directory):
        for name in files:
            if name.endswith(".cc"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found.update(".".join(test) for test in TEST.findall(file.read()))
    return found


def main(page, directory):
    with open(page, encoding="utf-8") as file:
        named = set(NAMED.findall(file.read()))
    missing = sorted(named - tests_in(directory))
    for name in missing:
        print(f"{page} names {name}, which is no test")
    if not named:
        print(f"{page} names no test")
    return 1 if missing or not named else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
