"""Statistics of few samples: medians and the rank test of Mann and Whitney."""

import math

EXACT_MAX = 24  # Samples of both sides together up to which the test counts instead of estimating.


def median(samples):
    """The middle one, or between the middle two; None of nothing."""
    if not samples:
        return None
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _doubled_ranks(samples):
    """Twice the rank of each, ties sharing the mean of theirs: whole numbers."""
    order = sorted(range(len(samples)), key=lambda i: samples[i])
    ranks = [0] * len(samples)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and samples[order[end + 1]] == samples[order[begin]]:
            end += 1
        for i in range(begin, end + 1):
            ranks[order[i]] = begin + end + 2
        begin = end + 1
    return ranks


def _exact_p(ranks, size, observed):
    """Of all ways to choose `size` of the ranks: the share at least as far from the mean."""
    ways = [{0: 1}] + [{} for _ in range(size)]
    for rank in ranks:
        for chosen in range(size - 1, -1, -1):
            for total, count in ways[chosen].items():
                ways[chosen + 1][total + rank] = ways[chosen + 1].get(total + rank, 0) + count
    mean = size * sum(ranks) / len(ranks)
    far = sum(count for total, count in ways[size].items()
              if abs(total - mean) >= abs(observed - mean) - 1e-9)
    return far / math.comb(len(ranks), size)


def _normal_p(ranks, first_count, second_count, u):
    total = first_count + second_count
    ties = sum(count ** 3 - count for count in (ranks.count(rank) for rank in set(ranks)))
    variance = first_count * second_count / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    distance = max(abs(u - first_count * second_count / 2) - 0.5, 0)
    return math.erfc(distance / math.sqrt(2 * variance))


def mann_whitney(first, second):
    """(U of the first, two-sided p). Exact for few samples, ties included."""
    ranks = _doubled_ranks(list(first) + list(second))
    observed = sum(ranks[:len(first)])
    u = observed / 2 - len(first) * (len(first) + 1) / 2
    if len(ranks) <= EXACT_MAX:
        return u, min(_exact_p(ranks, len(first), observed), 1.0)
    return u, _normal_p(ranks, len(first), len(second), u)


def superiority(first, second):
    """The effect size: how often a sample of the first is above one of the second; ties half."""
    u, _ = mann_whitney(first, second)
    return u / (len(first) * len(second))
