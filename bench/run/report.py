"""The table, for a terminal and for Markdown."""

from svg import short

HEAD = ("row", "ours", "peer", "ratio", "target", "met")


def with_unit(value, unit):
    """A figure for people; large rates and times get a prefix."""
    if value is None:
        return "-"
    if unit in ("ops/s",):
        return f"{short(value)}/s"
    if unit == "ns" and value >= 10_000:
        return with_unit(value / 1e3, "us")
    if unit == "us" and value >= 10_000:
        return with_unit(value / 1e3, "ms")
    if unit == "ms" and value >= 10_000:
        return with_unit(value / 1e3, "s")
    return f"{short(value)} {'%' if unit == '% of a core' else unit}"


def _met(result):
    target = result.row.target
    if target is None or result.value is None:
        return "-"
    if result.met is None:
        return "peer not run" if target.times is not None else "not told"
    return "yes" if result.met else "NO"


def cells(result):
    peer = "-"
    if result.peer_value is not None:
        peer = f"{with_unit(result.peer_value, result.row.unit)} {result.peer}"
    ratio = "-" if result.ratio is None else (
        f"{result.ratio:,.0f}x" if result.ratio >= 1000 else f"{short(result.ratio)}x")
    value = with_unit(result.value, result.row.unit)
    target = result.row.target.text if result.row.target else "-"
    return (result.row.name, value, peer, ratio, target, _met(result))


def summary(results):
    """One sentence: how many of the targets that could be told are met."""
    told = [result for result in results if result.met is not None]
    missed = sum(1 for result in told if not result.met)
    measured = sum(1 for result in results if result.value is not None)
    return (f"{measured} of {len(results)} rows measured; {len(told) - missed} targets met, "
            f"{missed} not")


def text_table(results):
    lines = [HEAD] + [cells(result) for result in results]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    right = {1, 2, 3}
    out = []
    for line in lines:
        out.append("  ".join(cell.rjust(width) if i in right else cell.ljust(width)
                             for i, (cell, width) in enumerate(zip(line, widths))).rstrip())
    out.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(out)


def markdown(results, environment, command):
    """The table with the machine, ready to stand in a document."""
    machine = environment_line(environment)
    lines = [f"Written by `{command}`. {machine}", "",
             "| " + " | ".join(HEAD) + " |", "|---|--:|--:|--:|---|---|"]
    for result in results:
        name, *rest = cells(result)
        lines.append("| " + " | ".join([f"`{name}`", *(cell.replace("|", "/") for cell in rest)])
                     + " |")
    return "\n".join(lines) + "\n"


def environment_line(environment):
    """What the figures were taken on, in one sentence."""
    sync = environment.get("fdatasync_us_p50")
    parts = [f"{environment.get('cores')} cores of {environment.get('cpu')}",
             f"Linux {environment.get('kernel')}", environment.get("compiler") or "",
             f"build {environment.get('build_type')}",
             f"clock source {environment.get('clock_source')}",
             f"{environment.get('file_system')}, fdatasync p50 "
             f"{short(sync) if sync is not None else '?'} us",
             f"RocksDB {environment.get('rocksdb')}", f"Boost {environment.get('boost')}"]
    return "; ".join(part for part in parts if part) + "."
