"""docs/comparison.md, made of the figures of one run; see comparison.py."""

import textwrap

import svg
from comparison_plots import INSTANTS, SPREADS

# p50, p90 and max in ms of Redis 8.10.1, as published.
PUBLISHED_SPREAD = {(20, 1000): (12, 22, 34), (100, 1000): (55, 95, 105), (100, 100): (54, 94, 110),
                    (500, 1000): (258, 445, 505), (500, 100): (1705, 2894, 3256)}
PUBLISHED_INSTANT = {100: "last batch at 964", 1000: "one poll"}


def _ms(value):
    return "-" if value is None else svg.short(value) if value >= 0.01 else "< 0.01"


def _lateness(run, name):
    counters = run["results"].get(name)
    if not counters:
        return "not measured"
    return " / ".join(_ms(counters.get(mark)) for mark in ("p50", "p90", "max"))


def _count(run, name, counter):
    value = run["results"].get(name, {}).get(counter)
    return "-" if value is None else f"{value:,.0f}"


def _handled(run, name):
    if name not in run["results"]:
        return "not measured"
    return (f"{_count(run, name, 'handled')} handled, "
            f"{_count(run, name, 'more_than_once')} more than once")


def _done(run, name):
    if name not in run["results"]:
        return "not measured"
    return f"{_count(run, name, 'done')} of 100 done"


def _table(run):
    rows = ["| experiment | published | Redis here, as published | Redis here, drained | "
            "Countwheel |", "|---|---|---|---|---|"]

    def add(*cells):
        rows.append("| " + " | ".join(cells) + " |")

    ours = _lateness(run, "experiment.spread/countwheel")
    for interval_ms, limit in SPREADS:
        name = f"experiment.spread.poll{interval_ms}.limit{limit}"
        add(f"1,000 over 2 s; poll {interval_ms} ms, limit {limit}",
            " / ".join(str(value) for value in PUBLISHED_SPREAD[interval_ms, limit]),
            _lateness(run, f"{name}/redis"), _lateness(run, f"{name}/redis_drained"), ours)
    ours = _lateness(run, "experiment.instant/countwheel")
    for limit in INSTANTS:
        name = f"experiment.instant.limit{limit}"
        add(f"1,000 at one instant; poll 100 ms, limit {limit}", PUBLISHED_INSTANT[limit],
            _lateness(run, f"{name}/redis"), _lateness(run, f"{name}/redis_drained"), ours)
    ours = _handled(run, "experiment.consumers/countwheel")
    add("4 consumers, 1,000 due; look, remove, handle", "3,612 handled, 996 more than once",
        _handled(run, "experiment.consumers/redis_two_steps"), "the same", ours)
    add("the same; ZREM answered 1, or a script", "none more than once",
        _handled(run, "experiment.consumers/redis_checked") + "; "
        + _handled(run, "experiment.consumers/redis_script"), "the same", ours)
    ours = _done(run, "experiment.crash/countwheel")
    add("crash with 10 of 100 taken", "90 done", _done(run, "experiment.crash/redis"), "the same",
        ours)
    add("the same with a lease of 200 ms", "100 done", _done(run, "experiment.crash/redis_lease"),
        "the same", ours)
    add(f"{run['pending']:,} pending, 5 s to 7 days: 10,000 due in 10 s", "-", "-",
        _lateness(run, "experiment.mixed/redis_drained"),
        _lateness(run, "experiment.mixed/countwheel"))
    add("5,000 schedules/s, 3 s precision", "-", _lateness(run, "experiment.sustained/redis"),
        _lateness(run, "experiment.sustained/redis_drained"),
        _lateness(run, "experiment.sustained/countwheel"))
    return "\n".join(rows)


def _beside(run):
    """What the two long experiments say besides lateness."""
    rows = ["| | Redis here | Countwheel |", "|---|---|---|"]
    for label, experiment, counter, redis in (
            ("schedules/s while filling", "mixed", "schedules_per_s", "redis_drained"),
            ("bytes of memory a pending task, payload of 16 included", "mixed", "bytes_per_task",
             "redis_drained"),
            ("sustained: schedules/s reached", "sustained", "schedules_per_s", "redis"),
            ("sustained: later than 3 s or missing", "sustained", "missed", "redis"),
            ("sustained: processor time of all, % of a core", "sustained", "cpu_percent",
             "redis")):
        rows.append(f"| {label} | {_count(run, f'experiment.{experiment}/{redis}', counter)} | "
                    f"{_count(run, f'experiment.{experiment}/countwheel', counter)} |")
    return "\n".join(rows)


def _machine(run):
    machine = run["machine"]
    return (f"{machine['cores']} cores of {'a virtual machine on ' if machine['virtual'] else ''}"
            f"{machine['cpu']}, {machine['memory_gib']} GiB, {machine['file_system']}, raw append "
            f"and fdatasync {machine['fdatasync_us_p50']:.0f} us, {machine['compiler']}, "
            f"Redis {run['redis'] or 'not installed'}, commit {machine['commit']}")


def _cpu(run):
    """What the sustained load costs, in words that follow the figures."""
    costs = [run["results"].get(f"experiment.sustained/{system}", {}).get("cpu_percent")
             for system in ("redis", "countwheel")]
    if None in costs:
        return "at a cost that was not measured here"
    return (f"for {svg.short(costs[0])} % of a core, its consumer included, where Countwheel with "
            f"its syncs takes {svg.short(costs[1])} %")


def _paragraph(text):
    return textwrap.fill(text, 100)


def document(run):
    runs = "One run" if run["repeat"] == 1 else f"Medians of {run['repeat']} runs"
    return f"""# Comparison

Delayed tasks are usually built on a Redis sorted set: the due time is the score, and a consumer
polls for what is due. Others have published what that gives. Here are their eleven experiments, run
again with Redis and with Countwheel in one session on one machine, and two more about size.

Written by `./dev bench --experiments`; do not edit.

{_paragraph(f"{_machine(run)}. {runs}, of the last two experiments one; each in its own process.")}

## How to read it

- **Lateness** is p50 / p90 / max in milliseconds: of Redis from the due time to the moment the
  consumer has the task, of Countwheel from the due time to the start of the handler.
- **As published**: one consumer pops at most `limit` due tasks with an atomic script, handles them,
  and waits the whole interval, whatever is left. **Drained**: it pops again at once as long as
  something comes, and only then waits. The articles leave that loop out; it costs nothing, and
  whoever compares should compare with it.
- **Durability is not the same.** Redis appends to its log and syncs it every second (`everysec`);
  Countwheel syncs every batch of operations before it calls them durable, and marks each attempt
  before its handler starts. That is dearer, and part of its figures. Redis tasks are ids alone, in
  the two long experiments with a payload.
- **The phase of the poll is chance.** When all tasks are due at one instant, Redis is late by what
  is left of the interval, anything from 0 to 100 ms, plus the time to take them.
- Redis is reached through a unix socket; Countwheel is a library in the process.

## The table

{_table(run)}

The published figures are of Redis 8.10.1 on a machine that is not described.

{_beside(run)}

## What it shows

- **A poll is late by half its interval on average, a deadline is not.** Between 20 and 500 ms
  nothing but the interval decides, and no faster server changes that. Countwheel sleeps until the
  next deadline.
- **The drain loop matters more than the server.** 1,000 tasks over two seconds are more than
  100 every 500 ms: without the loop the queue only grows, with it the interval is all that is left.
  1,000 tasks of one instant are drained in milliseconds once a poll has come.
- **Two steps are a race, one is not.** With the reply of ZREM checked, or with a script, Redis
  hands out every task once, as a due task of Countwheel is given to one thread.
- **A pop without a lease loses what was taken.** With one, Redis loses nothing, and neither does
  Countwheel, whose attempts are on record; there the process itself was killed with `kill -9` and
  what its handlers had was delivered again. Both are at-least-once.
- **Redis is good at this.** Polled every 100 ms it keeps a precision of three seconds with room to
  spare, {_cpu(run)},
  and it is a server that many processes and machines can share. Countwheel is a library: it is for
  the process that owns the deadlines, needs them to the millisecond or better, and wants them on
  disk.

## The pictures

![1,000 tasks over two seconds](comparison/spread.svg)

![1,000 tasks at one instant](comparison/instant.svg)

![Four consumers](comparison/consumers.svg)

![A consumer dies with ten of 100 tasks](comparison/crash.svg)

![Millions pending](comparison/mixed.svg)

![5,000 tasks a second](comparison/sustained.svg)
"""
