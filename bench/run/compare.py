"""Two files of figures: which rows have become worse, by a rank test.

A row is a regression when its median is more than 5 % worse and a two-sided test of Mann and
Whitney gives p < 0.05. Rows that are counted, not timed, need no test. With three samples on either
side no p below 0.05 exists: the newer file should have five.
"""

import dataclasses
import json

from report import with_unit
from statistics_of import mann_whitney, median, superiority

WORSE_PERCENT = 5.0
P_MAX = 0.05


@dataclasses.dataclass
class Difference:
    name: str
    unit: str
    before: float
    after: float
    percent_worse: float   # negative: better
    p: float | None        # None: counted, not timed
    worse_pairs: float     # share of pairs in which the newer sample is the worse one
    regression: bool
    improvement: bool


def difference(name, unit, better, exact, before, after):
    old, new = median(before), median(after)
    sign = -1 if better == "higher" else 1
    percent = 100 * sign * (new - old) / abs(old) if old else (0.0 if new == old else 100.0 * sign)
    above = superiority(after, before)
    _, p = mann_whitney(after, before)
    told = exact or p < P_MAX
    return Difference(name, unit, old, new, percent, None if exact else p,
                      above if sign > 0 else 1 - above, told and percent > WORSE_PERCENT,
                      told and percent < -WORSE_PERCENT)


def compare(base, newer):
    """The differences of the rows that both have, in the order of the newer one."""
    old = {row["name"]: row for row in base["rows"]}
    out = []
    for row in newer["rows"]:
        before = old.get(row["name"], {}).get("samples") or []
        if before and row["samples"]:
            out.append(difference(row["name"], row["unit"], row["better"], row["exact"], before,
                                  row["samples"]))
    return out


def unlike(base, newer):
    """What differs between the machines and makes doubtful: [(what, before, after)]."""
    before, after = base.get("environment", {}), newer.get("environment", {})
    return [(key, before.get(key), after.get(key))
            for key in ("cpu", "cores", "build_type", "compiler", "file_system", "kernel")
            if before.get(key) != after.get(key)]


def text_of(differences):
    lines = [("row", "before", "after", "", "p", "worse pairs", "")]
    for item in differences:
        verdict = "REGRESSION" if item.regression else "better" if item.improvement else ""
        lines.append((item.name, with_unit(item.before, item.unit),
                      with_unit(item.after, item.unit), f"{item.percent_worse:+.1f} % worse"
                      if item.percent_worse > 0 else f"{-item.percent_worse:.1f} % better",
                      "counted" if item.p is None else f"{item.p:.4f}",
                      f"{100 * item.worse_pairs:.0f} %", verdict))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = "\n".join("  ".join(cell.ljust(width) if i in (0, 6) else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)
    count = sum(1 for item in differences if item.regression)
    return f"{text}\n{len(differences)} rows compared, {count} regressions"


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
