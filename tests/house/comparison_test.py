#!/usr/bin/env python3
"""What the runner of the published experiments makes of canned figures: a whole document, and
pictures that are well-formed and say so where nothing was measured.
"""

import os
import sys
import unittest
import xml.etree.ElementTree as tree

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "run")
sys.path.insert(0, RUNNER)

import comparison_plots  # noqa: E402
import comparison_text  # noqa: E402

LATE = {"p50": 0.05, "p90": 0.1, "p99": 0.4, "max": 1.5}
MACHINE = {"cores": 2, "virtual": True, "cpu": "a cpu", "memory_gib": 24, "file_system": "ext4",
           "fdatasync_us_p50": 180.0, "compiler": "g++ 12", "commit": "abc"}


def canned(results):
    return {"machine": MACHINE, "redis": "7.0.15", "repeat": 3, "pending": 5_000_000,
            "seconds": 30, "results": results}


class Comparison(unittest.TestCase):
    def test_every_experiment_has_a_row_and_every_picture_is_linked(self):
        text = comparison_text.document(canned({"experiment.spread/countwheel": LATE}))
        table = text.split("## The table")[1].split("The published figures")[0]
        self.assertEqual(sum(line.startswith("| ") for line in table.split("\n")), 1 + 13)
        for name in comparison_plots.figures(canned({})):
            self.assertIn(f"](comparison/{name}.svg)", text)

    def test_figures_stand_where_they_belong(self):
        text = comparison_text.document(canned({
            "experiment.spread/countwheel": LATE,
            "experiment.spread.poll20.limit1000/redis": {"p50": 10.5, "p90": 18.6, "max": 20.7},
            "experiment.consumers/redis_two_steps": {"handled": 3625.0, "more_than_once": 962.0},
            "experiment.crash/redis": {"done": 90.0, "redelivered": 0.0}}))
        self.assertIn("| 12 / 22 / 34 | 10.5 / 18.6 / 20.7 | not measured | 0.05 / 0.1 / 1.5 |",
                      text)
        self.assertIn("3,625 handled, 962 more than once", text)
        self.assertIn("| 90 done | 90 of 100 done |", text)

    def test_pictures_are_well_formed_with_and_without_redis(self):
        some = {"experiment.spread/countwheel": LATE, "experiment.consumers/countwheel": {
            "handled": 1000.0, "more_than_once": 0.0}}
        for results in ({}, some):
            for text in comparison_plots.figures(canned(results)).values():
                tree.fromstring(text)
                self.assertIn("not measured", text)


if __name__ == "__main__":
    unittest.main()
