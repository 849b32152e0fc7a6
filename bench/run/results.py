"""From samples to rows of the table: medians, ratios to peers, and whether the target is met."""

import dataclasses

import rows as rows_module
from statistics_of import median


@dataclasses.dataclass
class Result:
    """One row with what was measured. A value is None when nothing was."""
    row: rows_module.Row
    samples: list
    value: float | None
    peers: dict            # peer -> median, None when it was not measured
    peer: str | None
    peer_value: float | None
    ratio: float | None    # how many times better than the peer
    met: bool | None       # None: nothing to meet, or it cannot be told from what was measured


def better_by(row, value, other):
    """How many times better than `other` in the direction of the row; None if it has no answer."""
    if not value or not other or value < 0 or other < 0:
        return None
    return value / other if row.better == rows_module.HIGHER else other / value


def _holds(row, value, limit):
    # A value measured as the limit is within it: 64 entries of 64.
    slack = 1e-9 * abs(limit)
    if row.better == rows_module.HIGHER:
        return value >= limit - slack
    return value <= limit + slack


def is_met(row, value, peer_ratio, other_value):
    """False as soon as one part of the target fails, None while a part cannot be told."""
    target = row.target
    if target is None or value is None:
        return None
    answers = []
    if target.limit is not None:
        answers.append(_holds(row, value, target.limit))
    if target.times is not None:
        answers.append(None if peer_ratio is None else peer_ratio >= target.times)
    if target.row is not None:
        answers.append(None if other_value is None
                       else _holds(row, value, other_value * target.factor))
    if False in answers:
        return False
    return None if None in answers else True


def _peer_samples(row, measurements, peer):
    for item in measurements:
        if item.peer != peer:
            continue
        if item.benchmark == f"{row.name}/{peer}" and "value" in item.samples:
            return item.samples["value"]
        if item.benchmark == f"{row.benchmark}/{peer}":
            return item.samples.get(row.counter, [])
    return []


def results_of(rows, measurements):
    ours = {item.key: item for item in measurements if item.peer is None}
    samples = {}
    for row in rows:
        item = ours.get((row.program, row.benchmark))
        samples[row.name] = item.samples.get(row.counter, []) if item else []
    found = []
    for row in rows:
        value = median(samples[row.name])
        there = [item.peer for item in measurements if item.peer is not None and
                 item.benchmark.rpartition("/")[0] in (row.name, row.benchmark)]
        peers = {peer: median(_peer_samples(row, measurements, peer))
                 for peer in dict.fromkeys((*row.peers, *there))}
        peers = {peer: other for peer, other in peers.items()
                 if other is not None or peer in row.peers}
        peer = row.peer
        if peer is None or peers.get(peer) is None:
            measured = {name: other for name, other in peers.items() if other is not None}
            if measured:
                best = max if row.better == rows_module.HIGHER else min
                peer = best(measured, key=measured.get)
        peer_value = peers.get(peer) if peer else None
        named = better_by(row, value, peers.get(row.peer)) if row.peer else None
        other = median(samples.get(row.target.row, [])) if row.target and row.target.row else None
        found.append(Result(row, samples[row.name], value, peers, peer, peer_value,
                            better_by(row, value, peer_value),
                            is_met(row, value, named, other)))
    return found


def to_json(result):
    return {
        "name": result.row.name,
        "value": result.value,
        "unit": result.row.unit,
        "better": result.row.better,
        "exact": result.row.exact,
        "samples": result.samples,
        "peer": result.peer,
        "peer_value": result.peer_value,
        "ratio": result.ratio,
        "target": result.row.target.text if result.row.target else None,
        "met": result.met,
        "peers": result.peers,
    }
