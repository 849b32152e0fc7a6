"""From rows to samples: which processes to run, how often, and in which order."""

import dataclasses
import sys
import time

import programs as programs_module
import rows as rows_module


@dataclasses.dataclass
class Measurement:
    """One benchmark of ours or of a peer; every run of it adds a sample to each of its counters."""
    program: str
    benchmark: str
    peer: str | None
    repetitions_max: int
    samples: dict = dataclasses.field(default_factory=dict)   # counter -> values
    seconds: float | None = None                              # of the last run
    failed: str | None = None
    runs: int = 0

    @property
    def key(self):
        return (self.program, self.benchmark)


def measurements_for(rows, programs, wanted_set):
    """Ours and, right behind each, those of its peers that are there; rows that share a benchmark
    share the measurement."""
    found = {}
    for row in rows:
        wanted = [(row.program, row.benchmark, None)] if not row.absent else []
        for program, belongs in rows_module.PEER_PROGRAMS.items():
            if rows_module.SETS.index(belongs) > rows_module.SETS.index(wanted_set):
                continue
            names = programs.benchmarks(program)
            for shown in dict.fromkeys((row.benchmark, row.name)):
                wanted += [(program, f"{shown}/{peer}", peer) for peer in row.peers
                           if f"{shown}/{peer}" in names]
        for program, benchmark, peer in wanted:
            if peer is None and benchmark not in programs.benchmarks(program):
                continue
            if wanted_set == rows_module.QUICK and peer not in (None, row.peer):
                continue
            found.setdefault((program, benchmark),
                             Measurement(program, benchmark, peer, row.repetitions_max))
    return list(found.values())


def repetitions_that_fit(measurements, wanted, seconds_left):
    """key -> runs in all, after one of each is done: as many as asked for, but those that take
    longest give up their last ones first, peers before ours, until the rest fits."""
    runs = {}
    for item in measurements:
        most = min(wanted, item.repetitions_max or wanted)
        runs[item.key] = most if not item.failed else 1
    cost = sum((item.seconds or 0) * (runs[item.key] - 1) for item in measurements)
    while cost > seconds_left:
        shortable = [item for item in measurements if runs[item.key] > 1]
        if not shortable:
            break
        longest = max(shortable, key=lambda item: (
            runs[item.key], (item.seconds or 0) * (2 if item.peer else 1)))
        runs[longest.key] -= 1
        cost -= longest.seconds or 0
    return runs


class Progress:
    """What is being measured and when it will be over, on stderr: one line that is written over on
    a terminal, one line a quarter of a minute elsewhere."""

    def __init__(self, stream=sys.stderr):
        self.stream = stream
        self.terminal = stream.isatty()
        self.said = time.monotonic()

    def at(self, done, total, name, seconds_left):
        eta = f"{int(seconds_left) // 60}:{int(seconds_left) % 60:02d}"
        text = f"[{done + 1}/{total}] {name}, {eta} left"
        if self.terminal:
            self.stream.write(f"\r\033[K{text[:110]}")
        elif time.monotonic() - self.said > 15:
            self.said = time.monotonic()
            self.stream.write(text + "\n")
        self.stream.flush()

    def end(self):
        if self.terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()


def _seconds(item, known):
    if item.seconds is not None:
        return item.seconds
    return sum(known) / len(known) if known else 2.0


def run_once(item, programs):
    begin = time.monotonic()
    try:
        counters = programs.measure(item.program, item.benchmark)
        for name, value in counters.items():
            item.samples.setdefault(name, []).append(value)
        item.runs += 1
    except programs_module.Failed as failure:
        item.failed = str(failure)
    item.seconds = time.monotonic() - begin


def run_all(measurements, programs, repetitions, budget_seconds, progress):
    """Runs every measurement once, then again as often as was asked for and fits the budget (None:
    no budget). Each round goes through all, so that ours stand beside their peers and a disturbance
    of the machine meets one sample of many rows, not all of one. True unless interrupted."""
    begin = time.monotonic()
    wanted = {item.key: repetitions for item in measurements}
    try:
        for turn in range(repetitions):
            if turn == 1:
                left = (float("inf") if budget_seconds is None
                        else budget_seconds - (time.monotonic() - begin))
                wanted = repetitions_that_fit(measurements, repetitions, left)
            for i, item in enumerate(measurements):
                if turn >= wanted[item.key] or item.failed:
                    continue
                known = [other.seconds for other in measurements if other.seconds is not None]
                left = sum(_seconds(other, known) * max(wanted[other.key] - other.runs, 0)
                           for other in measurements)
                if budget_seconds is not None and turn == 0:
                    left = min(left, budget_seconds)
                progress.at(i, len(measurements), item.benchmark + f" (run {turn + 1})", left)
                run_once(item, programs)
    except KeyboardInterrupt:
        return False
    finally:
        progress.end()
    return True
