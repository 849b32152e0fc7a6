"""Charts as SVG, with nothing but the standard library.

A chart is made of panels, a figure of charts:

    chart = line_chart("Cost of an operation", [
        Series("schedule", [(1e3, 9.1), (1e4, 9.3), (1e6, None)], ours=True),
        Series("cancel", [(1e3, 12.0), (1e4, 13.1)]),
    ], x="pending tasks", y="ns an operation")
    bars = bar_chart("Ops a second", [Bar("Countwheel", 3.1e6, ours=True), Bar("Redis", None)],
                     x="operations/s")
    late = percentile_strips("Lateness", [
        Strip("Countwheel", {"p50": 28, "p99": 65, "max": 900}, ours=True),
        Strip("Redis, 10 ms poll", {"p50": 5400, "p99": 10500, "max": 12600}),
    ], x="us late")
    with open("cost.svg", "w", encoding="utf-8") as file:
        file.write(figure("What a task costs", [chart, bars, late], columns=2))

`line_chart` has a logarithmic x axis and a y axis from zero (`y_log=True`: logarithmic); a point
whose value is None is left out and breaks the line. `bar_chart` and `percentile_strips` are
horizontal, one row each, on a logarithmic axis; what is not measured (None, or no percentiles)
keeps its row and says so. `ours=True` draws in the first colour, and stronger. Every value stands
beside its bar as text, every series has its name at its end: no legend, nothing told by colour
alone. `note` is one line of text below a chart.

Colours follow the reader's scheme (light or dark), so the pictures may be linked from Markdown.
"""

import dataclasses
import html
import math

WIDTH = 480  # Of one chart; its height depends on its kind.
_LINE_HEIGHT = 300
_ROW = 24
_TOP, _BOTTOM, _LEFT, _RIGHT = 42, 48, 56, 96
_LABEL_WIDTH = 170  # Of the names left of bars and strips.

_STYLE = """
  svg { font: 12px system-ui, 'DejaVu Sans', sans-serif; background: #ffffff; }
  .paper { fill: #ffffff; }
  text { fill: #1f2328; }
  .head { font-size: 17px; font-weight: 600; }
  .title { font-size: 13px; font-weight: 600; }
  .quiet { fill: #59636e; font-size: 11px; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .axis { stroke: #818b98; stroke-width: 1; }
  .line { fill: none; stroke-width: 1.6; stroke: var(--c); }
  .dot { fill: var(--c); }
  .name { fill: var(--c); }
  .bar { fill: var(--c); }
  .range { stroke: var(--c); stroke-width: 2; }
  .ours { stroke-width: 2.6; font-weight: 600; }
  .c0 { --c: #0550ae; } .c1 { --c: #bc4c00; } .c2 { --c: #1a7f37; } .c3 { --c: #8250df; }
  .c4 { --c: #9a6700; } .c5 { --c: #bf3989; } .c6 { --c: #59636e; } .c7 { --c: #1b7c83; }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; }
    .paper { fill: #0d1117; }
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #2f353d; }
    .axis { stroke: #6e7681; }
    .c0 { --c: #58a6ff; } .c1 { --c: #f0883e; } .c2 { --c: #56d364; } .c3 { --c: #bc8cff; }
    .c4 { --c: #e3b341; } .c5 { --c: #f778ba; } .c6 { --c: #9198a1; } .c7 { --c: #39c5cf; }
    .name { fill: var(--c); }
  }
"""
_COLOURS = 8


@dataclasses.dataclass
class Series:
    """One line: points are (x, y) with x > 0; y may be None."""
    label: str
    points: list
    ours: bool = False


@dataclasses.dataclass
class Bar:
    """One bar; value None is "not measured", or the text of `absent`."""
    label: str
    value: float | None
    ours: bool = False
    absent: str = "not measured"


@dataclasses.dataclass
class Strip:
    """One row of percentiles: {"p50": value, ...} in rising order; empty is "not measured"."""
    label: str
    marks: dict
    ours: bool = False
    absent: str = "not measured"


@dataclasses.dataclass
class Chart:
    """What the functions below return: a drawing WIDTH wide and `height` high."""
    title: str
    height: float
    body: str


def short(value):
    """A number for people: three significant digits and k, M or G from ten thousand on."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 10_000:
        for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if size >= unit * 0.9995:
                return _digits(value / unit) + " " + name
    return _digits(value)


def _digits(value):
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    text = f"{value:.{min(decimals, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _axis_number(value):
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return _digits(value / unit) + name
    return _digits(value)


def _text(x, y, text, classes="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}" text-anchor="{anchor}">'
            f"{html.escape(text)}</text>")


def _segment(x1, y1, x2, y2, classes):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"/>'


class _LogScale:
    """Maps values to positions by powers of ten; the range covers what is given."""

    def __init__(self, values, begin, end, whole=False):
        positive = [value for value in values if value is not None and value > 0] or [1, 10]
        low, high = math.log10(min(positive)), math.log10(max(positive))
        if whole or high - low < 1e-9:
            low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)
        if high - low < 1:
            high = low + 1
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def at(self, value):
        level = self.low if value <= 10 ** self.low else math.log10(value)
        return self.begin + (level - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self):
        powers = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        step = max(1, math.ceil(len(powers) / 8))
        return [10.0 ** power for power in powers][::step]


class _LinearScale:
    """Maps values to positions from zero on, with at most six round ticks."""

    def __init__(self, values, begin, end):
        high = max([value for value in values if value is not None] + [0]) or 1
        raw = high / 5
        power = 10 ** math.floor(math.log10(raw))
        self.step = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= raw * 0.999)
        self.high = math.ceil(high / self.step - 1e-9) * self.step
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + value / self.high * (self.end - self.begin)

    def ticks(self):
        return [self.step * i for i in range(round(self.high / self.step) + 1)]


def _apart(wanted, least):
    """Positions near those wanted, in their order, at least `least` from each other."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [wanted[i] for i in order]
    for _ in range(50):
        for i in range(1, len(placed)):
            gap = placed[i] - placed[i - 1]
            if gap < least:
                placed[i - 1] -= (least - gap) / 2
                placed[i] += (least - gap) / 2
    result = [0.0] * len(wanted)
    for position, i in zip(placed, order):
        result[i] = position
    return result


def _colours(rows):
    """One colour class each: ours in the first one, the others in the order given."""
    classes, peers = [], 0
    for row in rows:
        if row.ours and "c0" not in " ".join(classes):
            classes.append("c0")
        else:
            peers += 1
            classes.append(f"c{1 + (peers - 1) % (_COLOURS - 1)}")
    return [name + (" ours" if row.ours else "") for name, row in zip(classes, rows)]


def _foot(note, height):
    return _text(8, height - 8, note, "quiet") if note else ""


def line_chart(title, series, x, y, y_log=False, note=""):
    """Lines over a logarithmic x axis. `x` and `y` are the labels of the axes."""
    height = _LINE_HEIGHT + (16 if note else 0)
    left, right, top = _LEFT, WIDTH - _RIGHT, _TOP + 16
    bottom = _LINE_HEIGHT - _BOTTOM
    xs = [point[0] for row in series for point in row.points]
    ys = [point[1] for row in series for point in row.points]
    across = _LogScale(xs, left, right)
    up = _LogScale(ys, bottom, top, whole=True) if y_log else _LinearScale(ys, bottom, top)
    parts = [_text(8, 20, title, "title"), _text(8, 40, y, "quiet")]
    for tick in up.ticks():
        parts.append(_segment(left, up.at(tick), right, up.at(tick), "grid"))
        parts.append(_text(left - 6, up.at(tick) + 4, _axis_number(tick), "quiet", "end"))
    for tick in across.ticks():
        parts.append(_segment(across.at(tick), bottom, across.at(tick), bottom + 4, "axis"))
        parts.append(_text(across.at(tick), bottom + 17, _axis_number(tick), "quiet", "middle"))
    parts.append(_segment(left, bottom, right, bottom, "axis"))
    parts.append(_text((left + right) / 2, bottom + 34, x, "quiet", "middle"))
    ends, names = [], []
    for row, colour in zip(series, _colours(series)):
        path, pen, last = [], "M", None
        for place, value in row.points:
            if value is None or (y_log and value <= 0):
                pen = "M"
                continue
            last = (across.at(place), up.at(value))
            path.append(f"{pen}{last[0]:.1f} {last[1]:.1f}")
            pen = "L"
            parts.append(f'<circle cx="{last[0]:.1f}" cy="{last[1]:.1f}" r="2.6" '
                         f'class="dot {colour}"><title>{html.escape(row.label)}: '
                         f"{short(value)} at {_axis_number(place)}</title></circle>")
        if last:
            parts.append(f'<path d="{" ".join(path)}" class="line {colour}"/>')
            ends.append(last)
            names.append((row.label, colour))
    for (label, colour), (at_x, _), at_y in zip(names, ends, _apart([e[1] for e in ends], 13)):
        parts.append(_text(at_x + 7, at_y + 4, label, f"name {colour}"))
    return Chart(title, height, "\n".join(parts) + _foot(note, height))


def _rows_frame(title, rows, values, x, note):
    """Axis and names that bars and strips share: (parts, scale, height, bottom)."""
    bottom = _TOP + _ROW * len(rows)
    height = bottom + _BOTTOM - 6 + (16 if note else 0)
    scale = _LogScale(values, _LABEL_WIDTH, WIDTH - 62, whole=True)
    parts = [_text(8, 20, title, "title")]
    for tick in scale.ticks():
        parts.append(_segment(scale.at(tick), _TOP - 4, scale.at(tick), bottom, "grid"))
        parts.append(_text(scale.at(tick), bottom + 15, _axis_number(tick), "quiet", "middle"))
    parts.append(_text((_LABEL_WIDTH + WIDTH - 62) / 2, bottom + 32, x, "quiet", "middle"))
    return parts, scale, height, bottom


def _row_name(row, colour, y):
    return _text(_LABEL_WIDTH - 8, y + 4, row.label, f"name {colour}", "end")


def bar_chart(title, bars, x, note=""):
    """Horizontal bars on a logarithmic axis; `x` names the axis with its unit."""
    # The axis begins below the shortest bar, which would not be seen otherwise.
    values = [value for bar in bars if bar.value for value in (bar.value / 2, bar.value)]
    parts, scale, height, _ = _rows_frame(title, bars, values, x, note)
    for i, (bar, colour) in enumerate(zip(bars, _colours(bars))):
        y = _TOP + _ROW * i + _ROW / 2
        parts.append(_row_name(bar, colour, y))
        if bar.value is None or bar.value <= 0:
            parts.append(_text(_LABEL_WIDTH + 6, y + 4, bar.absent, "quiet"))
            continue
        end = max(scale.at(bar.value), _LABEL_WIDTH + 1)
        parts.append(f'<rect x="{_LABEL_WIDTH}" y="{y - 8:.1f}" width="{end - _LABEL_WIDTH:.1f}" '
                     f'height="16" rx="2" class="bar {colour}"/>')
        parts.append(_text(end + 5, y + 4, short(bar.value), "ours" if bar.ours else ""))
    return Chart(title, height, "\n".join(parts) + _foot(note, height))


def percentile_strips(title, strips, x, note=""):
    """One row each: a dot for every percentile on a logarithmic axis, joined by a line. The largest
    is printed at its end; the dots tell name and value when pointed at."""
    values = [value for strip in strips for value in strip.marks.values()]
    parts, scale, height, _ = _rows_frame(title, strips, values, x, note)
    names = next((list(strip.marks) for strip in strips if strip.marks), [])
    parts.append(_text(WIDTH - 8, 20, " · ".join(names), "quiet", "end"))
    for i, (strip, colour) in enumerate(zip(strips, _colours(strips))):
        y = _TOP + _ROW * i + _ROW / 2
        parts.append(_row_name(strip, colour, y))
        marks = [(name, value) for name, value in strip.marks.items() if value is not None]
        if not marks:
            parts.append(_text(_LABEL_WIDTH + 6, y + 4, strip.absent, "quiet"))
            continue
        places = [scale.at(value) for _, value in marks]
        parts.append(_segment(min(places), y, max(places), y, f"range {colour}"))
        for place, (name, value) in zip(places, marks):
            parts.append(f'<circle cx="{place:.1f}" cy="{y:.1f}" r="4" class="dot {colour}">'
                         f"<title>{html.escape(name)}: {short(value)}</title></circle>")
        parts.append(_text(max(places) + 8, y + 4, short(marks[-1][1]),
                           "ours" if strip.ours else ""))
    return Chart(title, height, "\n".join(parts) + _foot(note, height))


def figure(title, charts, columns=2):
    """The charts side by side, `columns` a row, as one document with the title on top."""
    parts, top = [], 40.0
    for begin in range(0, len(charts), columns):
        row = charts[begin:begin + columns]
        for i, chart in enumerate(row):
            parts.append(f'<g transform="translate({i * WIDTH},{top:.0f})">\n{chart.body}\n</g>')
        top += max(chart.height for chart in row) + 12
    width = WIDTH * min(columns, max(len(charts), 1))
    described = ", ".join(chart.title for chart in charts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top:.0f}" '
            f'width="{width}" height="{top:.0f}" role="img">\n'
            f"<title>{html.escape(title)}</title>\n<desc>{html.escape(described)}</desc>\n"
            f"<style>{_STYLE}</style>\n"
            f'<rect class="paper" width="{width}" height="{top:.0f}"/>\n'
            + _text(8, 26, title, "head") + "\n" + "\n".join(parts) + "\n</svg>\n")
