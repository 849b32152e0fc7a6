#!/usr/bin/env python3
"""cases.py finds tests by the number in their name, and only there."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases  # noqa: E402


class CasesTest(unittest.TestCase):
    def found(self, text):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "wheel_test.cc"), "w", encoding="utf-8") as file:
                file.write(text)
            return cases.tests_by_report(directory)

    def test_number_in_the_name_of_a_test_counts(self):
        self.assertEqual(
            self.found("TEST(WheelCases, B05_LongerThanTheWheel) {}\n"
                       "TEST_F(A,\n  B06_B07_Both) {}"),
            {5: [("wheel_test.cc", "WheelCases.B05_LongerThanTheWheel")],
             6: [("wheel_test.cc", "A.B06_B07_Both")],
             7: [("wheel_test.cc", "A.B06_B07_Both")]})

    def test_number_elsewhere_does_not_count(self):
        text = ("// TEST(A, B05_Gone) {}\nint B06_x;\n"
                "TEST(A, DISABLED_B07_Later) {}\nTEST(A, B8_X) {}")
        self.assertEqual(self.found(text), {})

    def test_ranges(self):
        self.assertEqual(cases.numbers("1-3 7"), {1, 2, 3, 7})
        self.assertEqual(len(cases.numbers(cases.PROMISED)), 75)


if __name__ == "__main__":
    unittest.main()
