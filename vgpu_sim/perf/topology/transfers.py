"""Transfers that begin together, over the links of a node: rates, limits and times."""

from collections.abc import Hashable, Sequence
from typing import Final

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology.fairness import bottlenecks, finish_us, max_min
from vgpu_sim.perf.topology.routes import End, Link, Routes
from vgpu_sim.records import dataclass

# The share of PCIe's rate that large pinned copies reach (headers, 256-byte payload), also used for
# NVLink, UPI and CXL, which were not measured.
SHARE: Final = 0.85
# RoCEv2 with packets of 4096 bytes: 82 more for preamble, Ethernet, IP, UDP, BTH, ICRC, FCS, gap.
_WIRE_SHARE: Final = 4096 / (4096 + 82)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One of several transfers that begin together, and whose sizes are equal.

    ``rate`` is the transfer's bytes per microsecond while all transfers run. ``us`` is the time
    from the common start to the transfer's last byte. ``links`` are the links that the transfer
    uses, and ``limit`` is the link among them that limits the rate.
    """

    source: End
    target: End
    links: tuple[Link, ...]
    rate: float
    limit: Link
    us: float

    @property
    def way(self) -> str:
        """The devices through which the transfer passes, from end to end."""
        return " > ".join([self.source, *(target for _, target in self.links)])


def payload_rates(routes: Routes) -> dict[Hashable, float]:
    """Return the rate at which each link can carry payload (its capacity without headers), in bytes
    per microsecond.
    """
    wires = {f"wire{i}" for i in range(len(routes.topology.hcas))}
    return {
        link: rate * (_WIRE_SHARE if isinstance(link, tuple) and wires & set(link) else SHARE)
        for link, rate in routes.capacity.items()
    }


def together(routes: Routes, ends: Sequence[tuple[End, End]], size: int) -> list[Transfer]:
    """Return the rates and times of several transfers that begin together. Each of them transfers
    ``size`` bytes between one pair of ``ends``.

    Raises:
        BadShape: an end does not exist, or both ends of a transfer are the same.
    """
    if size < 1:
        raise BadShape("bytes must be at least 1")
    for source, target in ends:
        if source == target:
            raise BadShape(f"a transfer needs two different devices, not {source} to {target}")
    capacity = payload_rates(routes)
    ways = [routes.path(source, target) for source, target in ends]
    rates = max_min(ways, capacity)
    limits = bottlenecks(ways, rates, capacity)
    times = finish_us(ways, [float(size)] * len(ways), capacity)
    return [
        Transfer(
            source=source,
            target=target,
            links=tuple(path),
            rate=rate,
            limit=next(link for link in path if link == limit),
            us=us,
        )
        for (source, target), path, rate, limit, us in zip(
            ends, ways, rates, limits, times, strict=True
        )
    ]
