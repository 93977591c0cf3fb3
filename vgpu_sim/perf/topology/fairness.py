"""Max-min fair rates of transfers that share links, and the times at which they end.

The method is progressive filling (Bertsekas and Gallager, "Data Networks", 6.5.2). All rates
grow equally until a link is full. The transfers on that link then keep their rates, and the
others continue to grow. All functions are pure.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from vgpu_sim.perf.errors import BadShape

Path = Sequence[Hashable]  # the links of a transfer, in one direction
_EPSILON: Final = 1e-9
_TOLERANCE: Final = 1e-6  # tolerance for sums of rounded rates


def max_min(paths: Sequence[Path], capacity: Mapping[Hashable, float]) -> list[float]:
    """Return each transfer's max-min fair rate, in the unit of ``capacity``. A transfer without
    links has no limit.

    Raises:
        BadShape: a path has a link without a capacity.
    """
    for link in {link for path in paths for link in path}:
        if capacity.get(link, 0.0) <= 0:
            raise BadShape(f"a transfer uses an unknown link: {link}")
    rates = [0.0 if path else float("inf") for path in paths]
    remaining_capacity = dict(capacity)
    growing = {i for i, path in enumerate(paths) if path}
    while growing:
        users: dict[Hashable, int] = {}
        for i in growing:
            for link in paths[i]:
                users[link] = users.get(link, 0) + 1
        step = min(remaining_capacity[link] / count for link, count in users.items())
        for i in growing:
            rates[i] += step
        for link, count in users.items():
            remaining_capacity[link] -= step * count
        full = {link for link in users if remaining_capacity[link] <= _EPSILON * capacity[link]}
        growing = {i for i in growing if not full.intersection(paths[i])}
    return rates


def bottlenecks(
    paths: Sequence[Path], rates: Sequence[float], capacity: Mapping[Hashable, float]
) -> list[Hashable]:
    """Return each transfer's bottleneck link at max-min fair rates; None for a transfer without
    links.

    The bottleneck link is full, and no other transfer on it has a higher rate (Bertsekas and
    Gallager).
    """
    users: dict[Hashable, list[float]] = {}
    for path, rate in zip(paths, rates, strict=True):
        for link in path:
            users.setdefault(link, []).append(rate)

    def holds(link: Hashable, rate: float) -> bool:
        full = sum(users[link]) >= capacity[link] * (1 - _TOLERANCE)
        return full and rate >= max(users[link]) * (1 - _TOLERANCE)

    return [
        next((link for link in path if holds(link, rate)), None)
        for path, rate in zip(paths, rates, strict=True)
    ]


def finish_us(
    paths: Sequence[Path], sizes: Sequence[float], capacity: Mapping[Hashable, float]
) -> list[float]:
    """Return when each of several transfers that begin together ends, in microseconds.

    ``sizes`` are in bytes, and capacities in bytes per microsecond. A transfer that ends leaves
    its share to the others. Raises the errors of ``max_min``.
    """
    remaining_bytes, ends, elapsed_us = list(sizes), [0.0] * len(sizes), 0.0
    moving = [i for i, size in enumerate(remaining_bytes) if size > 0 and paths[i]]
    while moving:
        rates = max_min([paths[i] for i in moving], capacity)
        step = min(remaining_bytes[i] / rate for i, rate in zip(moving, rates, strict=True))
        elapsed_us += step
        for i, rate in zip(moving, rates, strict=True):
            remaining_bytes[i] -= rate * step
        for i in moving:
            if remaining_bytes[i] <= _EPSILON * sizes[i]:
                ends[i] = elapsed_us
        moving = [i for i in moving if not ends[i]]
    return ends
