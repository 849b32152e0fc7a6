"""One picture for each published experiment; see comparison.py."""

import svg

SPREADS = ((20, 1000), (100, 1000), (100, 100), (500, 1000), (500, 100))
INSTANTS = (100, 1000)
MARKS = ("p50", "p90", "p99", "max")


def _lateness(run, name):
    counters = run["results"].get(name, {})
    return {mark: counters[mark] for mark in MARKS if mark in counters}


def _strips(run, rows):
    """rows: (label, experiment); ours is the first."""
    return [svg.Strip(label, _lateness(run, name), ours=i == 0)
            for i, (label, name) in enumerate(rows)]


def _value(run, name, counter):
    return run["results"].get(name, {}).get(counter)


def _bars(run, counter, rows):
    bars = []
    for i, (label, name) in enumerate(rows):
        value = _value(run, name, counter)
        bars.append(svg.Bar(label, value, ours=i == 0,
                            absent="not measured" if value is None else "none"))
    return bars


def _polled(run, title, ours, theirs, interval_ms):
    rows = [("Countwheel", ours), ("Redis, drained", f"{theirs}/redis_drained"),
            ("Redis, as published", f"{theirs}/redis")]
    return svg.percentile_strips(title, _strips(run, rows), "ms late",
                                 f"Redis is polled every {interval_ms} ms")


def _spread(run):
    return svg.figure("1,000 tasks over two seconds", [
        _polled(run, f"{interval_ms} ms poll, at most {limit} each", "experiment.spread/countwheel",
                f"experiment.spread.poll{interval_ms}.limit{limit}", interval_ms)
        for interval_ms, limit in SPREADS])


def _instant(run):
    return svg.figure("1,000 tasks at one instant", [
        _polled(run, f"100 ms poll, at most {limit} each", "experiment.instant/countwheel",
                f"experiment.instant.limit{limit}", 100)
        for limit in INSTANTS])


def _consumers(run):
    rows = [("Countwheel, 4 threads", "experiment.consumers/countwheel"),
            ("Redis, script", "experiment.consumers/redis_script"),
            ("Redis, ZREM checked", "experiment.consumers/redis_checked"),
            ("Redis, two steps", "experiment.consumers/redis_two_steps")]
    return svg.figure("Four consumers, 1,000 tasks", [
        svg.bar_chart("Handled", _bars(run, "handled", rows), "calls of the handler"),
        svg.bar_chart("Handled more than once", _bars(run, "more_than_once", rows), "tasks")])


def _crash(run):
    rows = [("Countwheel, kill -9", "experiment.crash/countwheel"),
            ("Redis with a lease", "experiment.crash/redis_lease"),
            ("Redis, as published", "experiment.crash/redis")]
    lost = []
    for i, (label, name) in enumerate(rows):
        done = _value(run, name, "done")
        lost.append(svg.Bar(label, None if done is None else 100 - done, ours=i == 0,
                            absent="not measured" if done is None else "none"))
    return svg.figure("A consumer dies with ten of 100 tasks", [
        svg.bar_chart("Lost", lost, "tasks"),
        svg.bar_chart("Delivered again", _bars(run, "redelivered", rows), "tasks")])


def _mixed(run):
    rows = [("Countwheel", "experiment.mixed/countwheel"),
            ("Redis, 10 ms, drained", "experiment.mixed/redis_drained")]
    return svg.figure(f"{run['pending']:,} tasks pending, 5 s to 7 days", [
        svg.percentile_strips("Lateness of 10,000 among them", _strips(run, rows), "ms late"),
        svg.bar_chart("Scheduling them", _bars(run, "schedules_per_s", rows), "tasks/s"),
        svg.bar_chart("Memory", _bars(run, "bytes_per_task", rows), "bytes a task")])


def _sustained(run):
    rows = [("Countwheel", "experiment.sustained/countwheel"),
            ("Redis, 10 ms, drained", "experiment.sustained/redis_drained"),
            ("Redis, 100 ms", "experiment.sustained/redis")]
    return svg.figure(f"5,000 tasks a second for {run['seconds']} s", [
        svg.percentile_strips("Lateness", _strips(run, rows), "ms late"),
        svg.bar_chart("Processor time of all", _bars(run, "cpu_percent", rows), "% of a core")])


def figures(run):
    """name of the file, without .svg -> its text"""
    return {"spread": _spread(run), "instant": _instant(run), "consumers": _consumers(run),
            "crash": _crash(run), "mixed": _mixed(run), "sustained": _sustained(run)}
