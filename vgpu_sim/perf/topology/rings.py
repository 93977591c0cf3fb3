"""The rates of collectives over the links of a node without NVSwitches.

All transfers of a ring run at once, and the slowest one determines the ring's rate. This is the
smallest of their max-min fair rates, which is that of the link with the least capacity per
transfer. NCCL searches for the best order of the GPUs, and uses several rings where links would
otherwise be idle.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Final

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology.routes import Link, Routes
from vgpu_sim.records import dataclass

_ALIKE: Final = 1e-9  # relative difference of rates due to rounding
_Paths = Mapping[tuple[int, int], Sequence[Link]]


@dataclass(frozen=True, slots=True)
class Bound:
    """The rate in bytes per microsecond at which each GPU can send, the link that limits the rate,
    and the order of the GPUs in the ring.

    ``order`` is empty if the bound is not that of a single ring.
    """

    rate: float
    link: Link
    order: tuple[int, ...] = ()


def ring(routes: Routes, gpus: int) -> Bound:
    """Return the bound on the rate of rings through the first ``gpus`` GPUs.

    Two rates are compared: that of the best single ring, and that of many rings at the same
    time, one ring for each order of the GPUs. The bound is the higher of the two rates.

    Raises:
        BadShape: the node has fewer GPUs.
    """
    paths = _paths(routes, gpus)
    best = Bound(0.0, ("", ""))
    for later_gpus in permutations(range(1, gpus)):
        if later_gpus[0] > later_gpus[-1]:
            continue  # the same ring in reverse
        order = (0, *later_gpus)
        steps = pairwise((*order, 0))
        rate, link = _slowest(routes, (paths[step] for step in steps))
        if rate > best.rate:
            best = Bound(rate, link, order)
    # Each pair is adjacent in equally many orders: together the rings are an exchange.
    every = exchange(routes, gpus)
    return every if every.rate > best.rate * (1 + _ALIKE) else best


def exchange(routes: Routes, gpus: int) -> Bound:
    """Return the bound on the rate of an exchange, in which each GPU sends the same number of bytes
    to every other GPU at the same time. Raises the errors of ``ring``.
    """
    rate, link = _slowest(routes, _paths(routes, gpus).values())
    return Bound(rate * (gpus - 1), link)


def _paths(routes: Routes, gpus: int) -> _Paths:
    if gpus < 2:
        raise BadShape("a collective of one node must have 2 to 8 GPUs")
    return {(a, b): routes.path(f"gpu{a}", f"gpu{b}") for a, b in permutations(range(gpus), 2)}


def _slowest(routes: Routes, paths: Iterable[Sequence[Link]]) -> tuple[float, Link]:
    """Return the lowest rate among concurrent transfers, and the link that limits it."""
    users: dict[Link, int] = {}
    for path in paths:
        for link in path:
            users[link] = users.get(link, 0) + 1
    return min((routes.capacity[link] / count, link) for link, count in users.items())
