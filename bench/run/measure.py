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
    left_out: bool = False                                    # there was no time for it
    named: bool = False                                       # a target names this peer
    expected_seconds: float = 3                               # until it has run
    runs: int = 0

    @property
    def key(self):
        return (self.program, self.benchmark)

    @property
    def kind(self):
        return OURS if self.peer is None else NAMED if self.named else OTHER


def measurements_for(rows, programs, wanted_set):
    """Ours and, right behind each, those of its peers that are there; rows that share a benchmark
    share the measurement."""
    found = {}
    for row in rows:
        wanted = [(row.program, row.benchmark, None)]
        for program, belongs in rows_module.PEER_PROGRAMS.items():
            if rows_module.SETS.index(belongs) > rows_module.SETS.index(wanted_set):
                continue
            names = programs.benchmarks(program)
            for name in sorted(names):
                shown, _, peer = name.rpartition("/")
                if shown in (row.benchmark, row.name):
                    wanted.append((program, name, peer))
        for program, benchmark, peer in wanted:
            if peer is None and benchmark not in programs.benchmarks(program):
                continue
            if peer is not None and wanted_set not in rows_module.sets_of_peer(row, peer):
                continue
            found.setdefault((program, benchmark),
                             Measurement(program, benchmark, peer, row.repetitions_max,
                                         named=peer == row.peer,
                                         expected_seconds=rows_module.expected_seconds(
                                             program, benchmark, wanted_set)))
    return list(found.values())


OURS, NAMED, OTHER = "ours", "named", "other"

# What gives up repetitions first, down to how many.
_SHORTENED = ((OTHER, 1), (NAMED, 2), (OURS, 2), (NAMED, 1), (OURS, 1))


def repetitions_that_fit(measurements, wanted, seconds_left):
    """key -> runs in all, after one of each is done: as many as asked for, but until the rest fits,
    those that take longest give up their last ones; first peers that no target names, then the
    others, ours last."""
    runs = {}
    for item in measurements:
        most = min(wanted, item.repetitions_max or wanted)
        runs[item.key] = 1 if item.failed or item.left_out else most
    cost = sum((item.seconds or 0) * (runs[item.key] - 1) for item in measurements)
    for kind, least in _SHORTENED:
        by_length = sorted((item for item in measurements if item.kind == kind),
                           key=lambda item: -(item.seconds or 0))
        for item in by_length:
            while cost > seconds_left and runs[item.key] > least:
                runs[item.key] -= 1
                cost -= item.seconds or 0
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


def _seconds(item):
    if item.seconds is not None:
        return item.seconds
    return item.expected_seconds


def _eta(measurements, wanted, seconds_left):
    to_do = sum(_seconds(item) * max(wanted[item.key] - item.runs, 0)
                for item in measurements if not item.failed and not item.left_out)
    return to_do if seconds_left is None else min(to_do, max(seconds_left, 0))


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


def _out_of_time(item, measurements, seconds_left):
    """In the first round: a peer is left out when what is still to do of ours fills the time."""
    if item.peer is None or seconds_left is None:
        return False
    to_do = sum(_seconds(other) for other in measurements
                if other.peer is None and other.seconds is None)
    return seconds_left < to_do


def run_all(measurements, programs, repetitions, budget_seconds, progress):
    """Runs every measurement once, then again as often as was asked for and fits the budget (None:
    no budget). Each round goes through all, so that ours stand beside their peers and a disturbance
    of the machine meets one sample of many rows, not all of one. True unless interrupted."""
    begin = time.monotonic()
    wanted = {item.key: repetitions for item in measurements}

    def seconds_left():
        return None if budget_seconds is None else budget_seconds - (time.monotonic() - begin)

    try:
        for turn in range(repetitions):
            if turn == 1 and budget_seconds is not None:
                wanted = repetitions_that_fit(measurements, repetitions, seconds_left())
            for i, item in enumerate(measurements):
                most = min(wanted[item.key], item.repetitions_max or repetitions)
                if turn == 0:
                    item.left_out = _out_of_time(item, measurements, seconds_left())
                if turn >= most or item.failed or item.left_out:
                    continue
                progress.at(i, len(measurements), f"{item.benchmark} (run {turn + 1})",
                            _eta(measurements, wanted, seconds_left()))
                run_once(item, programs)
    except KeyboardInterrupt:
        return False
    finally:
        progress.end()
    return True
