#!/usr/bin/env python3
"""Plants every offence that tidy.py is there for, one at a time, in a small house that is clean."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

CLEAN = {
    "engine/CMakeLists.txt": "room(engine SOURCES wheel.cc)\n",
    "wal/CMakeLists.txt": "room(wal SOURCES record.cc)\n",
    "recovery/CMakeLists.txt": "room(recovery SOURCES replay.cc)\n",
    "engine/include/countwheel/wheel.h": "// The wheel.\nint wheel();\n",
    "engine/include/countwheel/options.h":
        "struct EngineOptions {\n  // Threads.\n  // Default: 2.\n  int workers = 2;\n};\n",
    "engine/wheel.cc": "#include <countwheel/wheel.h>\n\nint wheel() { return 3; }\n",
    "wal/include/countwheel/wal.h": "#include <countwheel/wheel.h>\n",
    "wal/record.cc": "#include <countwheel/wal.h>\n#include <rocksdb/db.h>\n",
    "recovery/include/countwheel/recovery.h": "#include <countwheel/wal.h>\n",
    "recovery/replay.cc": '#include <countwheel/recovery.h>\n',
    "docs/wheel.md": "# The wheel\n\n```\n# not a title\n```\n",
}


def long_body(count):
    return "".join(f"  use({number});\n" for number in range(count))


class TidyTest(unittest.TestCase):
    def offences(self, **planted):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **planted.pop("files", {})}.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return tidy.tidy(root)

    def assert_one(self, path, text, place, words):
        found = self.offences(files={path: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(place + ":"), found)
        self.assertIn(words, found[0])

    def test_clean_house_has_no_offence(self):
        self.assertEqual(self.offences(), [])

    def test_line_of_101_columns(self):
        self.assertEqual(self.offences(files={"engine/wheel.cc": "// " + "x" * 97 + "\n"}), [])
        self.assert_one("engine/wheel.cc", "// " + "x" * 98 + "\n", "engine/wheel.cc:1", "101")

    def test_function_of_71_lines(self):
        text = "int wheel() {\n" + long_body(68) + "}\n"
        self.assertEqual(self.offences(files={"engine/wheel.cc": text}), [])
        text = "\nint wheel() {\n" + long_body(69) + "}\n"
        self.assert_one("engine/wheel.cc", text, "engine/wheel.cc:2", "71 lines")

    def test_long_function_in_every_disguise(self):
        body = long_body(80) + "  }\n"
        for name, text in {
            "method": "namespace a {\nclass B {\n public:\n  int c() const {\n" + body + "};\n}\n",
            "template": "template <class T>\nint f(T t = {}) {\n" + body,
            "constructor": "B::B(int c) : c_(c), d_{3}, e_{} {\n" + body,
            "test": "TEST(Wheel, Long) {\n  // }\n" + body,
            "attribute": 'struct CAPABILITY("role") B {\n  void f() noexcept {\n' + body + "};\n",
            "after a brace in text": "int g() { return '{'; }\nint f() {\n  g(\"}\");\n" + body,
        }.items():
            found = self.offences(files={"engine/wheel.cc": text})
            self.assertEqual(len(found), 1, f"{name}: {found}")
            self.assertIn("a function", found[0])

    def test_long_class_or_table_is_no_function(self):
        methods = "".join(f"  int f{number}() {{ return 1; }}\n" for number in range(90))
        table = "const int table[] = {\n" + "  1,\n" * 90 + "};\n"
        text = "namespace a {\nclass B final : public C<D()> {\n" + methods + "};\n}\n" + table
        self.assertEqual(self.offences(files={"engine/wheel.cc": text}), [])

    def test_file_of_401_lines(self):
        self.assertEqual(self.offences(files={"engine/wheel.cc": "//\n" * 400}), [])
        self.assert_one("engine/wheel.cc", "//\n" * 401, "engine/wheel.cc:401", "401 lines")

    def test_leftover(self):
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
            self.assert_one("docs/wheel.md", f"# A\n{word}: later\n", "docs/wheel.md:2", word)

    def test_include_against_the_arrow(self):
        for path, include in (
            ("engine/wheel.cc", "<countwheel/wal.h>"),
            ("engine/wheel.cc", "<countwheel/recovery.h>"),
            ("engine/wheel.cc", '"../wal/record.h"'),
            ("engine/wheel.cc", '"tests/testing/fake.h"'),
            ("engine/wheel.cc", "<rocksdb/db.h>"),
            ("wal/record.cc", "<countwheel/recovery.h>"),
            ("recovery/replay.cc", "<rocksdb/db.h>"),
            ("wal/include/countwheel/wal.h", "<rocksdb/db.h>"),
            ("wal/include/countwheel/wal.h", "<countwheel/rocksdb.h>"),
            ("wal/include/countwheel/rocksdb.h", "<boost/asio.hpp>"),
            ("engine/include/countwheel/wheel.h", "<boost/asio.hpp>"),
            ("engine/include/countwheel/wheel.h", "<countwheel/asio.h>"),
        ):
            self.assert_one(path, f"#include {include}\n", f"{path}:1", "include")

    def test_headers_for_users_of_asio_may_include_it(self):
        for name in ("asio.h", "asio_timer.h"):
            path = f"engine/include/countwheel/{name}"
            text = "#include <boost/asio/post.hpp>\n#include <countwheel/asio_error.h>\n"
            self.assertEqual(self.offences(files={path: text}), [])

    def test_the_header_for_tables_beside_the_log_may_include_rocksdb(self):
        text = "#include <rocksdb/db.h>\n"
        self.assertEqual(self.offences(files={"wal/include/countwheel/rocksdb.h": text}), [])

    def test_shared_pointer_in_engine(self):
        text = "std::shared_ptr<int> p;\n"
        self.assert_one("engine/wheel.cc", text, "engine/wheel.cc:1", "shared")

    def test_document_with_no_title_or_two(self):
        self.assert_one("docs/wheel.md", "## A\n", "docs/wheel.md:1", "0 titles")
        self.assert_one("docs/wheel.md", "# A\n# B\n", "docs/wheel.md:1", "2 titles")

    def test_option_without_default(self):
        path = "engine/include/countwheel/options.h"
        for field in ("int workers = 2;", "std::chrono::nanoseconds slack{0};", "int workers;",
                      "std::function<void(const int&)> f = {};", "Clock* clock = nullptr;"):
            text = f"struct EngineOptions {{\n  // Says nothing.\n  {field}\n}};\n"
            self.assert_one(path, text, f"{path}:3", "Default:")

    def test_what_is_no_option_needs_no_default(self):
        path = "engine/include/countwheel/options.h"
        for member in ("WheelOptions wheel = {};", "static constexpr int kMax = 3;",
                       "friend bool operator==(const A&, const A&) = default;"):
            text = f"struct EngineOptions {{\n  {member}\n}};\nint workers = 2;\n"
            self.assertEqual(self.offences(files={path: text}), [])

    def test_comment_of_one_option_does_not_serve_the_next(self):
        path = "engine/include/countwheel/options.h"
        text = "struct AOptions {\n  // Default: 1.\n  int a = 1;\n  int b = 1;\n};\n"
        self.assert_one(path, text, f"{path}:4", "Default:")

    def test_source_that_nobody_compiles(self):
        self.assert_one("wal/wheel.cc", "int a;\n", "wal/wheel.cc:1", "nobody compiles")
        listing = "foreach(unit run core)\n  test(SOURCES wheel_${unit}.cc)\nendforeach()\n"
        files = {"bench/CMakeLists.txt": listing, "bench/wheel_run.cc": "int a;\n"}
        self.assertEqual(self.offences(files=files), [])
        found = self.offences(files={**files, "bench/wheel_gone.cc": "int a;\n"})
        self.assertEqual(len(found), 1, found)
        self.assert_one("engine/orphan.cc", "int a;\n", "engine/orphan.cc:1", "nobody compiles")


if __name__ == "__main__":
    unittest.main()
