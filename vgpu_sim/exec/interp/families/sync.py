"""The barriers of one block (PTX ISA 9.7.15.1), which count arrivals as docs/isa.md specifies, and
launches of clusters that are cancelled.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Final

import numpy as np

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.operands import write_bits
from vgpu_sim.exec.interp.paths import Path
from vgpu_sim.isa import Instruction, Op, Reduction
from vgpu_sim.isa.families.sync import BARRIERS, WARPGROUP_BARRIER, WARPGROUP_WARPS
from vgpu_sim.records import dataclass

WAITS: Final = {
    Op.BAR_SYNC: True,
    Op.BAR_ARRIVE: False,
    Op.BAR_RED: True,
    Op.CLUSTER_ARRIVE: False,
    Op.CLUSTER_WAIT: True,
}
"""For each opcode, whether arriving lanes wait for the barrier to complete."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """A path's contribution to a barrier's reduction: how many lanes arrive, and how many of those
    have a true operand.
    """

    reduction: Reduction
    lanes: int
    true: int


class BarrierMisuse(Exception):
    """An instruction names a barrier that does not exist, a count that cannot be reached, or a
    count or reduction that differs from that of other arrivals.
    """


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A path at a barrier, and whether it waits there."""

    path: Path
    waits: bool
    ballot: Ballot | None


@dataclass(slots=True)
class _Barrier:
    """A barrier at which lanes have arrived. If ``count`` is 0, it waits for all of ``warps``.

    ``gathering`` holds the paths of warps of which some lanes have not arrived.
    """

    count: int
    warps: Sequence[int]
    reduction: Reduction | None = None
    gathering: dict[int, list[_Arrival]] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    threads: int = 0
    waiting: list[_Arrival] = field(default_factory=list)


class Barriers:
    """All barriers of a block.

    ``live`` maps each warp of the block to its lanes that have not ended; the owner updates it.
    Methods return the paths that are released; all others keep waiting.
    """

    def __init__(self, live: dict[int, int]) -> None:
        self._live = live
        self._barriers: dict[int, _Barrier] = {}
        self._outcomes: dict[Path, int] = {}

    def arrive(
        self, path: Path, number: int, count: int, *, waits: bool, ballot: Ballot | None = None
    ) -> list[Path]:
        """Record that all lanes of a path have arrived at barrier ``number``, perhaps with a
        ballot. Return the paths that are released.

        Raises:
            BarrierMisuse: the number or count is invalid, or count or reduction differ from
                those of earlier arrivals.
        """
        if number > WARPGROUP_BARRIER:
            raise BarrierMisuse(f"barrier {number} does not exist")
        members = list(self._live)
        if number == WARPGROUP_BARRIER:
            if count or not waits or ballot is not None:
                raise BarrierMisuse("the barrier of a warpgroup has neither count nor reduction")
            group = members.index(path.warp) // WARPGROUP_WARPS
            members = members[group * WARPGROUP_WARPS :][:WARPGROUP_WARPS]
            number = BARRIERS + group
        if count % WARP_LANES or (count == 0 and not waits):
            wrong = f"{count} threads are not a whole number of warps"
            raise BarrierMisuse(f"barrier {number}: {wrong}")
        all_threads = len(self._live) * WARP_LANES
        if count > all_threads:
            raise BarrierMisuse(f"barrier {number}: the block has fewer than {count} threads")
        barrier = self._barriers.setdefault(number, _Barrier(count, members))
        if (barrier.count or all_threads) != (count or all_threads):
            counts = f"{barrier.count or 'all'} and {count or 'all'}"
            raise BarrierMisuse(f"barrier {number}: its threads expect different counts: {counts}")
        barrier.count = min(barrier.count, count)
        if ballot is not None:
            if barrier.reduction not in (None, ballot.reduction):
                raise BarrierMisuse(f"barrier {number}: its threads request different reductions")
            barrier.reduction = ballot.reduction
        barrier.gathering.setdefault(path.warp, []).append(_Arrival(path, waits, ballot))
        return self._update(number, barrier)

    def recheck_after_exit(self) -> list[Path]:
        """Check all barriers again after lanes of the block have ended; return the released
        paths.
        """
        return [
            path
            for number, barrier in list(self._barriers.items())
            for path in self._update(number, barrier)
        ]

    def outcome(self, path: Path) -> int:
        """Return the result of a barrier's reduction.

        ``path`` has waited at the barrier and was released.
        """
        return self._outcomes.pop(path)

    def find_waiting(self) -> Path | None:
        """Return a path that waits at a barrier, or None."""
        for barrier in self._barriers.values():
            for arrivals in (barrier.waiting, *barrier.gathering.values()):
                for arrival in arrivals:
                    return arrival.path
        return None

    def describe(self) -> list[str]:
        """Describe where lanes wait at barriers, for a block that has no runnable path."""
        parts = []
        for number, barrier in sorted(self._barriers.items()):
            name = f"barrier {number}"
            if number >= BARRIERS:
                name = f"the barrier of warpgroup {number - BARRIERS}"
            if barrier.gathering:
                partly = ", ".join(
                    f"{_lanes(arrivals).bit_count()} of {self._live[warp].bit_count()} lanes"
                    for warp, arrivals in barrier.gathering.items()
                )
                parts.append(f"{name} has {partly} of a warp")
            elif barrier.count:
                parts.append(f"{name} has {barrier.threads} of {barrier.count} threads")
            else:
                arrived, warps = len(barrier.arrived), len(barrier.warps)
                parts.append(f"{name} has {arrived} of {warps} warps")
        return parts

    def _update(self, number: int, barrier: _Barrier) -> list[Path]:
        free: list[Path] = []
        for warp, arrivals in list(barrier.gathering.items()):
            if _lanes(arrivals) != self._live[warp]:
                continue
            del barrier.gathering[warp]
            barrier.arrived.add(warp)
            barrier.threads += WARP_LANES
            barrier.waiting += (arrival for arrival in arrivals if arrival.waits)
            free += (arrival.path for arrival in arrivals if not arrival.waits)
        if barrier.count:
            complete = barrier.threads >= barrier.count
        else:
            complete = all(warp in barrier.arrived for warp in barrier.warps if self._live[warp])
        if complete:
            ballots = [a.ballot for a in barrier.waiting if a.ballot is not None]
            for arrival in barrier.waiting:
                if arrival.ballot is not None:
                    self._outcomes[arrival.path] = _reduce(ballots)
            free += (arrival.path for arrival in barrier.waiting)
            del self._barriers[number]
            if barrier.gathering:
                next_barrier = _Barrier(
                    barrier.count, barrier.warps, barrier.reduction, barrier.gathering
                )
                self._barriers[number] = next_barrier
        return free


def _lanes(arrivals: list[_Arrival]) -> int:
    return sum(arrival.path.lanes for arrival in arrivals)


def _reduce(ballots: list[Ballot]) -> int:
    lanes, true = sum(b.lanes for b in ballots), sum(b.true for b in ballots)
    match ballots[0].reduction:
        case Reduction.POPC:
            return true
        case Reduction.AND:
            return int(lanes == true)
        case _:
            return int(true > 0)


def _cancel(lanes: Lanes, instruction: Instruction, mask: Mask) -> None:
    cancelled = np.zeros(lanes.lanes, dtype=np.uint64)
    for lane in np.flatnonzero(mask):
        cancelled[lane] = lanes.cancel_cluster()
    write_bits(lanes, instruction.dsts[0], cancelled, instruction.type, mask)


SEMANTICS: Final = {Op.CANCEL: _cancel}
