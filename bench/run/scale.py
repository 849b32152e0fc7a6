"""`./dev bench --scale`: cost against the number pending, as docs/scale.svg and docs/scale.md."""

import dataclasses

from measure import Measurement
from report import environment_line, with_unit
from statistics_of import median
from svg import Series, figure, line_chart

SIZES = (("1k", 1e3), ("10k", 1e4), ("100k", 1e5), ("1m", 1e6), ("10m", 1e7))


@dataclasses.dataclass(frozen=True)
class Curve:
    label: str
    program: str
    benchmark: str   # with a place for the size
    counter: str
    unit: str


@dataclasses.dataclass(frozen=True)
class Panel:
    title: str
    y: str
    curves: tuple
    y_log: bool = False
    says: str = ""


def _wheel(label, name):
    return Curve(label, "wheel_bench", f"wheel.{name}.{{}}", "value", "ns")


def _engine(label, counter, unit):
    return Curve(label, "scale_bench", "scale.engine.{}", counter, unit)


PANELS = (
    Panel("The wheel", "ns an operation", (
        _wheel("schedule", "schedule"), _wheel("cancel", "cancel"),
        _wheel("reschedule", "reschedule"), _wheel("expiry", "expire_same")),
        says="The wheel alone, processor time of a timer; cancels and moves in random order, "
             "expiry of all in one instant. The code is O(1); what rises is the price of memory "
             "that no cache holds."),
    Panel("A call to the engine", "ns of the caller", (
        _engine("submit", "submit", "ns"), _engine("cancel", "cancel", "ns")),
        says="Processor time of the caller for one `submit()` and one `submit_cancel()` of a "
             "random task, the log on disk."),
    Panel("Lateness, 1,000 tasks a second", "us to the start of the handler", (
        _engine("p50", "start.p50", "us"), _engine("p99", "start.p99", "us")),
        says="From the deadline to the start of the handler, for tasks that fall due among those "
             "pending, exact precision."),
    Panel("Restart after kill -9", "seconds", (
        Curve("restart", "scale_bench", "scale.restart.{}", "restart", "s"),), y_log=True,
        says="`open()` of a log with 1.75 operations a live task, until all are loaded."),
    Panel("Memory", "MiB resident", (
        _engine("memory", "memory_mib", "MiB"),), y_log=True,
        says="Resident memory that the engine adds to its process: tasks, wheels, a 16-byte "
             "payload each, and the buffers of the log, which are all there is at first."),
)


def measurements(largest):
    found = {}
    for panel in PANELS:
        for curve in panel.curves:
            for size, count in SIZES:
                if count <= largest:
                    name = curve.benchmark.format(size)
                    found.setdefault((curve.program, name),
                                     Measurement(curve.program, name, None, 0))
    return list(found.values())


def _value(curve, size, items):
    item = items.get((curve.program, curve.benchmark.format(size)))
    return median(item.samples.get(curve.counter, [])) if item else None


def _sizes(measured):
    """Those that were measured; a picture does not show room for others."""
    return [(size, count) for size, count in SIZES
            if any(item.benchmark.endswith("." + size) for item in measured)]


def picture(measured):
    items = {item.key: item for item in measured}
    charts = []
    for panel in PANELS:
        lines = [Series(curve.label, [(count, _value(curve, size, items))
                                      for size, count in _sizes(measured)], ours=i == 0)
                 for i, curve in enumerate(panel.curves)]
        charts.append(line_chart(panel.title, lines, "pending tasks", panel.y, panel.y_log))
    return figure("Cost against the number of pending tasks", charts)


def document(measured, machine, command):
    items = {item.key: item for item in measured}
    sizes = _sizes(measured)
    lines = ["# Scale", "",
             "What grows with the number of pending tasks, and what does not. This page and its",
             f"picture are written by `{command}`.", "",
             "![Cost of operations, lateness, restart and memory against the number of pending "
             "tasks](scale.svg)", "",
             "| | " + " | ".join(f"{count:,.0f} pending" for _, count in sizes) + " |",
             "|---|" + "--:|" * len(sizes)]
    for panel in PANELS:
        for curve in panel.curves:
            name = panel.title if curve.label in panel.title.lower() else (
                f"{panel.title}: {curve.label}")
            lines.append(f"| {name} | " + " | ".join(
                with_unit(_value(curve, size, items), curve.unit) for size, _ in sizes) + " |")
    lines.append("")
    for panel in PANELS:
        lines.append(f"- **{panel.title}.** {panel.says}")
    runs = min((item.runs for item in measured), default=0)
    lines += ["", f"Medians of {runs} or more runs. {environment_line(machine)}", ""]
    return "\n".join(lines)
