#!/usr/bin/env python3
"""The house rules that a compiler does not know, as a test. docs/style.md says why each exists.

usage: tidy.py [ROOT]     prints `path:line: what is wrong` for each offence and exits 1 if any.

A rule nobody checks is not kept; a check nobody checks is worse: tidy_test.py plants each offence.
"""

import os
import re
import sys

COLUMN_MAX = 100
FUNCTION_LINE_MAX = 70
FILE_LINE_MAX = 400

ROOMS = ("engine", "wal", "recovery")  # Each may include itself and what stands to its left.
GUESTS = ("bench", "tests", "tools")   # They may include every room; no room includes them.
SKIPPED_DIRECTORIES = {".git", "build", "install", "__pycache__", ".cache"}
LEFTOVERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
TEXT_SUFFIXES = (".h", ".cc", ".in", ".py", ".cmake", ".txt", ".md", ".json", ".sh")


def files_below(root):
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIPPED_DIRECTORIES)
        for name in sorted(files):
            path = os.path.relpath(os.path.join(directory, name), root)
            if name.endswith(TEXT_SUFFIXES) or path in ("dev", os.path.join(".ci", "run")):
                yield path.replace(os.sep, "/")


def without_comments_and_strings(text):
    """Blanks comments, literals and preprocessor lines; every line keeps its number."""
    pattern = re.compile(
        r'R"([^()\s]*)\(.*?\)\1"'       # raw string
        r"|//[^\n]*|/\*.*?\*/"          # comments
        r'|"(?:\\.|[^"\\\n])*"'         # string
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # character, but no digit separator
        r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",  # directive with its continuations
        re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


SCOPE = re.compile(r"^(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b")
INITIALISED_MEMBER = re.compile(r"\).*?(?<!:):(?!:)(?:.*,)?\s*[\w:]+(?:<[^{}]*>)?\s*$", re.DOTALL)


def kind_of_brace(head):
    head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)*", "", head)
    head = re.sub(r"^template\s*<[^{}]*?>\s*(?=(class|struct|union)\b)", "", head, flags=re.DOTALL)
    if SCOPE.match(head):
        return "scope"
    if INITIALISED_MEMBER.search(head):
        return "initialiser"
    return "function" if "(" in head else "other"


def functions(text):
    """Yields (first line, last line) of each function body outside of other functions."""
    code = without_comments_and_strings(text)
    stack, head, head_line, line, parentheses = [], "", 1, 1, 0
    inside = lambda: bool(stack) and stack[-1][0] != "scope"  # noqa: E731
    for character in code:
        if character == "\n":
            line += 1
        if inside():
            if character == "{":
                stack.append(("other", line, ""))
            elif character == "}":
                kind, first, saved = stack.pop()
                if kind == "function":
                    yield first, line
                if not inside():
                    head = saved + "}" if kind == "initialiser" else ""
                    head_line = first if kind == "initialiser" else line
            continue
        if character == "(":
            parentheses += 1
        elif character == ")":
            parentheses -= 1
        if parentheses > 0:
            head += character if character not in "{};" else " "
            continue
        if character == "{":
            kind = kind_of_brace(head)
            stack.append((kind, head_line, head if kind == "initialiser" else ""))
            head = ""
        elif character in ";}":
            if character == "}" and stack:
                stack.pop()
            head = ""
        elif head or not character.isspace():
            if not head:
                head_line = line
            head += character


def check_text(path, lines, report):
    if not path.endswith(".md"):
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMN_MAX:
                report(path, number, f"{len(line)} columns, at most {COLUMN_MAX}")
    for number, line in enumerate(lines, 1):
        leftover = LEFTOVERS.search(line)
        if leftover:
            report(path, number, f"a leftover: {leftover.group(0)}")


def check_size(path, text, lines, report):
    if len(lines) > FILE_LINE_MAX:
        report(path, len(lines), f"{len(lines)} lines, at most {FILE_LINE_MAX} a file")
    for first, last in functions(text):
        if last - first + 1 > FUNCTION_LINE_MAX:
            report(path, first, f"{last - first + 1} lines, at most {FUNCTION_LINE_MAX} a function")


def public_headers(paths):
    """name of a public header -> its room"""
    found = {}
    for path in paths:
        match = re.match(r"(\w+)/include/countwheel/([\w.]+?)(?:\.in)?$", path)
        if match:
            found[match.group(2)] = match.group(1)
    return found


def check_includes(path, lines, headers, report):
    room = path.split("/")[0]
    if room not in ROOMS:
        return
    allowed = ROOMS[:ROOMS.index(room) + 1]
    public = "/include/" in path
    # countwheel/asio.h and its parts are the one public header that needs Boost.
    adapter = re.match(r"engine/include/countwheel/asio(_\w+)?\.h$", path) is not None
    # countwheel/rocksdb.h is the one that needs RocksDB.
    database = path == "wal/include/countwheel/rocksdb.h"
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        target = match.group(2)
        first = target.replace("../", "").split("/")[0]
        owner = headers.get(target[len("countwheel/"):]) if first == "countwheel" else first
        if owner in ROOMS + GUESTS and owner not in allowed:
            report(path, number, f"{room} may not include {target} of {owner}: the arrow is "
                   "recovery -> wal -> engine")
        if first == "rocksdb" and room != "wal":
            report(path, number, f"RocksDB is included in wal only, not in {room}")
        boost = first == "boost" or target.startswith("countwheel/asio")
        rocksdb = first == "rocksdb" or target == "countwheel/rocksdb.h"
        if public and (first in ("fmt", "prometheus") or (rocksdb and not database) or
                       (boost and not adapter)):
            report(path, number, f"a public header may not include {target}")
    if room == "engine":
        code = without_comments_and_strings("\n".join(lines))
        for number, line in enumerate(code.split("\n"), 1):
            if re.search(r"\bshared_ptr\b", line):
                report(path, number, "no shared_ptr in engine: ownership is unique or a value")


def check_document(path, lines, report):
    fenced, titles = False, 0
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("# "):
            titles += 1
    if titles != 1:
        report(path, 1, f"{titles} titles (`# ...`), exactly one a document")


# A member of a struct, unless its type is another ...Options.
OPTION_FIELD = re.compile(
    r"^  (?!\w*Options |friend |static )[\w:<>, ()&*]+ \w+(\s*=.*|\{.*\})?;(\s*//.*)?$")


def check_options(path, lines, report):
    """Each field of a struct called ...Options in a public header says what it is by default;
    a field that is such a struct itself says it there."""
    inside, comment = False, []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if re.match(r"struct \w*Options\b.*\{$", text):
            inside = True
        elif inside and line.startswith("}"):
            inside = False
        elif inside and text.startswith("//"):
            comment.append(text)
            continue
        elif inside and OPTION_FIELD.match(line):
            said = " ".join(comment + [text])
            if "Default:" not in said:
                report(path, number, "an option without a `Default:` in its comment")
        comment = []


def check_listed(path, texts, report):
    """The nearest CMakeLists.txt upwards names each source, relative to where it lies itself."""
    if not path.startswith(ROOMS + GUESTS) or "/consumer/" in path:
        return
    directory = os.path.dirname(path)
    while directory and f"{directory}/CMakeLists.txt" not in texts:
        directory = os.path.dirname(directory)
    build_file = texts.get(f"{directory}/CMakeLists.txt", "")
    name = os.path.relpath(path, directory)
    for entry in re.findall(r"[\w/.${}]+[.]cc", build_file):
        # In a foreach the name has a hole, and what fills it stands there as a word of its own.
        pattern = re.sub(r"\\\$\\{\w+\\}", r"(\\w+)", re.escape(entry))
        match = re.fullmatch(pattern, name)
        if match and all(re.search(rf"[\s(]{word}[\s)]", build_file) for word in match.groups()):
            return
    report(path, 1, f"not listed in {directory}/CMakeLists.txt: nobody compiles it")


def tidy(root):
    offences = []

    def report(path, line, what):
        offences.append(f"{path}:{line}: {what}")

    paths = list(files_below(root))
    texts = {}
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            texts[path] = file.read()
    headers = public_headers(paths)
    for path, text in texts.items():
        lines = text.split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        check_text(path, lines, report)
        if path.endswith((".h", ".cc")):
            check_size(path, text, lines, report)
            check_includes(path, lines, headers, report)
        if path.endswith(".cc"):
            check_listed(path, texts, report)
        if path.endswith(".md"):
            check_document(path, lines, report)
        if re.search(r"/include/countwheel/\w+\.h$", path):
            check_options(path, lines, report)
    return offences


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..")
    offences = tidy(root)
    for offence in offences:
        print(offence)
    print(f"tidy: {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
