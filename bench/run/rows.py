"""The one table of rows: what is measured, by which benchmark, and what has to be reached.

A row is a figure. Its benchmark runs once in a process of its own and leaves the figure in a
counter: `value` when the row is called as the benchmark, else what follows of the row's name. A
peer's benchmark is called as ours or as the row, with /PEER behind it.
"""

import dataclasses

QUICK, DEFAULT, FULL = "quick", "default", "full"
SETS = (QUICK, DEFAULT, FULL)  # Each holds those before it.
LOWER, HIGHER = "lower", "higher"

# Peers by where they can be measured; one that is not installed is null in the file of figures.
IN_PROCESS = ("asio", "libuv", "libevent", "libev", "multimap", "priority_queue", "hashed_wheel",
              "cascading_wheel", "netty")
NATIVE = IN_PROCESS[:-1]
AT_10M = ("libev", "priority_queue", "hashed_wheel", "cascading_wheel")
BY_TICKS = ("libuv", "multimap", "priority_queue", "cascading_wheel")
LOOPS = ("asio", "libuv")
AT_DISK = ("redis_always", "beanstalkd", "postgresql")
AT_OS = ("redis_everysec", "beanstalkd", "postgresql")
POLLERS = ("redis_poll10", "redis_poll100", "beanstalkd", "postgresql")
# One run of a benchmark on an idle machine, before it is known how long it takes on this one.
EXPECTED_SECONDS = {"wheel_bench": 0.6, "engine_bench": 2, "waiting_bench": 3, "expiry_bench": 4,
                    "precision_bench": 5.5,
                    "recovery_bench": 5, "timer_peers_bench": 2.5, "server_peers_bench": 15}
EXPECTED_OF = {"recovery.full.10m": 40, "recovery.ready.10m": 40, "engine.cancel.5m": 12,
               "wheel.schedule.10m": 5, "wheel.cancel.10m": 6, "wheel.reschedule.10m": 8}
# How long the rows of an idle engine look at it.
IDLE_SECONDS = {QUICK: 3, DEFAULT: 5, FULL: 60}
PEER_PROGRAMS = {"timer_peers_bench": QUICK, "server_peers_bench": FULL}


@dataclasses.dataclass(frozen=True)
class Target:
    """What has to hold, all of it; `text` says the same in words."""
    text: str
    limit: float | None = None   # At most, or at least where higher is better.
    times: float | None = None   # So many times better than the row's peer, in the same run.
    row: str | None = None       # Not worse than this other row of the same run ...
    factor: float = 1.0          # ... times this.


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    unit: str
    program: str
    benchmark: str
    counter: str
    better: str
    target: Target | None
    peer: str | None       # The one that the target names, or that is shown first.
    peers: tuple
    set: str
    repetitions_max: int   # 0: as many as are asked for.
    exact: bool            # The same at every run: any difference is one.


class _Table:
    """Collects rows; what several rows have in common is said once."""

    def __init__(self):
        self.rows = []

    def add(self, names, unit, program, better=LOWER, benchmark=None, counter=None, target=None,
            peer=None, peers=(), belongs=DEFAULT, repetitions_max=0, exact=False):
        for name in names.split():
            shown = benchmark or name
            found = counter or (name[len(shown) + 1:] if name.startswith(shown + ".") else "value")
            self.rows.append(Row(name, unit, program, shown, found, better, target, peer,
                                 tuple(peers), belongs, repetitions_max, exact))


def _at_most(limit, unit, **more):
    return Target(f"<= {limit:g} {unit}", limit, **more)


def _wheel(table):
    common = {"unit": "ns", "program": "wheel_bench", "peer": "asio"}
    for call, at_1m, at_10m in (("schedule", 8, 10), ("cancel", 17, 22), ("reschedule", 33, 42)):
        table.add(f"wheel.{call}.10k", peers=IN_PROCESS, **common)
        table.add(f"wheel.{call}.1m", belongs=DEFAULT if call == "reschedule" else QUICK,
                  target=Target(f"<= {at_1m} ns, >= 20x Asio", at_1m, times=20),
                  peers=IN_PROCESS, **common)
        table.add(f"wheel.{call}.10m", belongs=FULL, target=_at_most(at_10m, "ns"), peers=AT_10M,
                  **common)
    table.add("wheel.cancel_batch.1m", target=_at_most(9, "ns"), **common)
    table.add("wheel.reschedule_batch.1m", target=_at_most(14, "ns"), **common)
    common["peers"] = NATIVE
    table.add("wheel.expire_same.100k", target=_at_most(5, "ns"), **common)
    table.add("wheel.expire_same.1m", target=_at_most(5, "ns"), belongs=QUICK, **common)
    table.add("wheel.expire_spread.1m", target=_at_most(10, "ns"), belongs=QUICK, **common)
    common = {"program": "wheel_bench", "benchmark": "wheel.ticks.1m", "belongs": QUICK,
              "peer": "cascading_wheel"}
    table.add("wheel.cascade_worst.1m", "ms", counter="cascade_worst.1m", peers=BY_TICKS,
              target=_at_most(0.1, "ms"), **common)
    table.add("wheel.advance_p9999.1m", "us", counter="advance_p9999.1m",
              target=_at_most(3, "us"), **common)
    table.add("wheel.cascade_moved.1m", "entries", counter="cascade_moved.1m", exact=True,
              peers=("cascading_wheel",), target=_at_most(64, "entries"), **common)
    common = {"unit": "ns", "program": "wheel_bench", "peer": "cascading_wheel"}
    table.add("wheel.idle_tick.1m", target=_at_most(1.5, "ns"), peers=NATIVE[1:], **common)
    table.add("wheel.jump_1h", target=_at_most(1000, "ns"), peers=BY_TICKS + ("hashed_wheel",),
              **common)
    common = {"unit": "B", "program": "wheel_bench", "exact": True, "repetitions_max": 1}
    table.add("wheel.bytes.exact", target=_at_most(42, "B"), peer="asio", peers=NATIVE, **common)
    table.add("wheel.bytes.index", target=_at_most(30, "B"), **common)


def _calls(table):
    engine = "engine_bench"
    for rate, belongs in (("1k", DEFAULT), ("10k", QUICK), ("100k", DEFAULT), ("max", DEFAULT)):
        name = f"engine.submit.{rate}"
        table.add(name, "ns", engine, belongs=belongs, target=_at_most(150, "ns"))
        table.add(f"{name}.p99", "ns", engine, belongs=belongs, benchmark=name,
                  target=None if rate == "1k" else _at_most(1000, "ns"))
    for name, least, belongs, peers in (("1", 1 / 1.2, QUICK, AT_DISK),
                                        ("32", 0.55 * 32, DEFAULT, AT_DISK),
                                        ("async32", 0.75 * 32, DEFAULT, ())):
        text = ">= 0.833x: p50 <= 1.2x fdatasync" if name == "1" else f">= {least:.3g}x fdatasync/s"
        table.add(f"engine.schedule_durable.{name}", "x fdatasync/s", "waiting_bench", HIGHER,
                  belongs=belongs, target=Target(text, least), peer="redis_always",
                  peers=peers)
    for size, belongs in (("10k", DEFAULT), ("100k", QUICK), ("1m", DEFAULT), ("5m", FULL)):
        flat = size == "1m"
        target = Target(">= 1.5 M/s" + (", within 20 % of 100 k" if flat else ""), 1.5e6,
                        row="engine.cancel.100k" if flat else None, factor=0.8)
        table.add(f"engine.cancel.{size}", "ops/s", engine, HIGHER, belongs=belongs, target=target,
                  peer="redis_always", peers=AT_DISK + AT_OS[:1] if size == "100k" else ())
    for level, peers in (("disk", AT_DISK), ("os", AT_OS), ("memory", ())):
        table.add(f"engine.durable_ops.{level}", "ops/s", engine, HIGHER, peers=peers,
                  peer=peers[0] if peers else None)
    common = {"unit": "ops/s", "program": engine, "better": HIGHER}
    disk = Target(">= 3 M/s, >= 12x Redis always", 3e6, times=12)
    name = "engine.order_mix.disk"
    table.add(name, belongs=QUICK, target=disk, peer="redis_always", peers=AT_DISK, **common)
    table.add("engine.order_mix.os", target=Target(">= 4 M/s", 4e6), peer="redis_everysec",
              peers=AT_OS, **common)
    table.add("engine.order_mix.disk.payload100 engine.order_mix.os.payload100", **common)
    table.add("engine.cpu_per_op", "us", engine, belongs=QUICK, benchmark=name,
              counter="cpu_per_op", target=_at_most(0.5, "us"))
    table.add("engine.bytes_per_task", "B", engine, belongs=QUICK, repetitions_max=1,
              target=_at_most(64, "B"), peer="redis_everysec", peers=AT_OS[:2])


LATENESS = {
    "engine.lateness.exact.10k.handover.p50": _at_most(40, "us"),
    "engine.lateness.exact.10k.handover.p99": _at_most(100, "us"),
    "engine.lateness.exact.10k.start.p50": _at_most(50, "us"),
    "engine.lateness.exact.10k.start.p99": _at_most(150, "us"),
    "engine.lateness.tick.10k.handover.p999": _at_most(10_200, "us"),
    "engine.lateness.tick.idle.handover.p999": _at_most(10_200, "us"),
}


LOADS = ("quiet", "flushing", "cleaning", "checkpoint", "cascade", "saturated", "slow_sync")


def _expiry(table):
    program = "expiry_bench"
    for precision in ("tick", "exact"):
        for load in ("idle", "10k"):
            benchmark = f"engine.lateness.{precision}.{load}"
            quick = benchmark == "engine.lateness.exact.10k"
            peers = LOOPS + POLLERS if quick else ("netty",) if load == "10k" else ()
            for moment in ("handover", "start"):
                for mark in ("p50", "p99", "p999"):
                    name = f"{benchmark}.{moment}.{mark}"
                    table.add(name, "us", program, benchmark=benchmark, target=LATENESS.get(name),
                              belongs=QUICK if quick else DEFAULT,
                              peer=peers[0] if peers else None, peers=peers)
    for wait, p50, p999 in (("hybrid", _at_most(10, "us"), None),
                            ("fifo", None, _at_most(150, "us"))):
        benchmark = f"engine.lateness.exact.10k.{wait}"
        table.add(f"{benchmark}.handover.p50", "us", program, benchmark=benchmark, target=p50)
        table.add(f"{benchmark}.handover.p999", "us", program, benchmark=benchmark, target=p999)
    for load in LOADS:
        benchmark = f"engine.precision.{load}"
        table.add(f"{benchmark}.handover.p50", "us", "precision_bench", benchmark=benchmark)
        table.add(f"{benchmark}.handover.p99", "us", "precision_bench", benchmark=benchmark,
                  target=_at_most(1000, "us"))
    common = {"unit": "ms", "program": program, "peer": "redis_poll10"}
    table.add("engine.herd.100k", belongs=QUICK, target=_at_most(8, "ms"),
              peers=LOOPS + POLLERS, **common)
    table.add("engine.herd.1m", target=_at_most(100, "ms"), peers=LOOPS, **common)
    table.add("engine.herd_slow", "ms", program, target=Target(
        "<= 2x engine.herd.100k: one of two workers is held", row="engine.herd.100k", factor=2))
    for size in ("1k", "1m"):
        name = f"engine.expire_group.{size}"
        common = {"program": "group_bench", "benchmark": name, "belongs": FULL}
        table.add(f"{name}.call {name}.durable", "us", **common)
        table.add(f"{name}.first_start", "us", target=_at_most(10_000, "us"), **common)
        table.add(f"{name}.last_start", "ms", **common)
        table.add(f"{name}.others.p50 {name}.others.p99", "us", **common)
    common = {"unit": "% of a core", "program": program, "repetitions_max": 1,
              "target": _at_most(0.05, "%")}
    table.add("engine.idle_cpu.10ms", peer="netty", peers=("netty",) + LOOPS + POLLERS, **common)
    table.add("engine.idle_cpu.1ms engine.idle_cpu.drain", **common)


def _recovery(table):
    common = {"unit": "s", "program": "recovery_bench"}
    table.add("recovery.full.1m", belongs=QUICK, target=_at_most(0.3, "s"), peer="redis_everysec",
              peers=AT_OS, **common)
    table.add("recovery.full.10m", belongs=FULL, target=_at_most(1.5, "s"), **common)
    table.add("recovery.full.clean.1m", **common, target=Target(
        "<= 1.1x recovery.full.1m", row="recovery.full.1m", factor=1.1))
    table.add("recovery.ready.1m", target=_at_most(0.3, "s"), **common)
    table.add("recovery.ready.10m", belongs=FULL, target=_at_most(1.5, "s"), **common)
    common = {"program": "recovery_bench", "benchmark": "log.churn", "repetitions_max": 1}
    table.add("log.bytes_per_task", "B", counter="bytes_per_task", peer="redis_everysec",
              peers=AT_OS,
              target=Target("<= 141 B: 2x a record of 45 B, and 48 MiB of memtables", 141),
              **common)
    table.add("log.write_amplification", "x", counter="write_amplification",
              target=_at_most(2, "x"), **common)


def all_rows():
    table = _Table()
    for part in (_wheel, _calls, _expiry, _recovery):
        part(table)
    return table.rows


# Peers that take so long at a row that they would fill the default run.
SLOW = {"netty": ("wheel.schedule.1m", "wheel.reschedule.1m"),
        "multimap": ("wheel.reschedule.1m", "wheel.expire_spread.1m"),
        "libuv": ("wheel.expire_spread.1m", "wheel.cascade_worst.1m"),
        "libev": ("wheel.expire_same.100k", "wheel.expire_same.1m", "wheel.expire_spread.1m"),
        "libevent": ("wheel.expire_same.100k", "wheel.expire_same.1m", "wheel.expire_spread.1m")}


def expected_seconds(program, benchmark, wanted_set):
    if benchmark.startswith("engine.idle_cpu.") and program == "expiry_bench":
        return IDLE_SECONDS[wanted_set] + 6
    return EXPECTED_OF.get(benchmark, EXPECTED_SECONDS.get(program, 3))


def sets_of_peer(row, peer):
    """The sets in which a peer is measured beside a row."""
    if row.name in SLOW.get(peer, ()):
        return (FULL,)
    return SETS if peer == row.peer else (DEFAULT, FULL)


def in_set(row, wanted):
    return SETS.index(row.set) <= SETS.index(wanted)
