"""The barriers of one block (PTX ISA 9.7.15.1), counted as docs/isa.md says."""

from dataclasses import dataclass, field
from typing import Final

from vgpu_sim.exec.interp.bits import WARP_LANES
from vgpu_sim.exec.interp.paths import Path
from vgpu_sim.isa import Op
from vgpu_sim.isa.families.sync import BARRIERS

WAITS: Final = {Op.BAR_SYNC: True, Op.BAR_ARRIVE: False}
"""Whether lanes wait for the barrier itself, by opcode."""


class BarrierMisuse(Exception):
    """A barrier that does not exist, or a count that nobody can reach."""


@dataclass(slots=True)
class _Barrier:
    """A barrier that somebody has come to. ``count`` 0: all warps.

    ``gathering`` has the paths of warps whose lanes are not all there, with whether they will wait.
    """

    count: int
    gathering: dict[int, list[tuple[Path, bool]]] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    threads: int = 0
    waiting: list[Path] = field(default_factory=list)


class Barriers:
    """``live`` maps each warp of the block to its lanes that have not ended; the owner updates it.

    Methods return the paths that may go on; they stay where they are otherwise.
    """

    def __init__(self, live: dict[int, int]) -> None:
        self._live = live
        self._barriers: dict[int, _Barrier] = {}

    def arrive(self, path: Path, number: int, count: int, *, waits: bool) -> list[Path]:
        """Let all lanes of a path arrive.

        Raises:
            BarrierMisuse: when number or count are none, or the count is not that of the others.
        """
        if number >= BARRIERS:
            raise BarrierMisuse(f"barrier {number} does not exist")
        if count % WARP_LANES or (count == 0 and not waits):
            raise BarrierMisuse(f"barrier {number}: {count} threads are no whole number of warps")
        everybody = len(self._live) * WARP_LANES
        if count > everybody:
            raise BarrierMisuse(f"barrier {number}: the block has no {count} threads")
        barrier = self._barriers.setdefault(number, _Barrier(count))
        if (barrier.count or everybody) != (count or everybody):
            counts = f"{barrier.count or 'all'} and {count or 'all'}"
            raise BarrierMisuse(f"barrier {number}: threads meet there that count {counts}")
        barrier.count = min(barrier.count, count)
        barrier.gathering.setdefault(path.warp, []).append((path, waits))
        return self._update(number, barrier)

    def lanes_ended(self) -> list[Path]:
        """Look at all barriers again after lanes of the block have ended."""
        return [
            path
            for number, barrier in list(self._barriers.items())
            for path in self._update(number, barrier)
        ]

    def first(self) -> Path:
        """Return a path that stands at a barrier; there is one."""
        for barrier in self._barriers.values():
            for path in barrier.waiting:
                return path
            for paths in barrier.gathering.values():
                return paths[0][0]
        raise ValueError("nobody stands at a barrier")

    def describe(self) -> str:
        """Return who waits where, for a block in which nobody can go on."""
        warps = len(self._live)
        parts = []
        for number, barrier in sorted(self._barriers.items()):
            if barrier.gathering:
                partly = ", ".join(
                    f"{sum(path.lanes.bit_count() for path, _ in paths)} of"
                    f" {self._live[warp].bit_count()} lanes"
                    for warp, paths in barrier.gathering.items()
                )
                parts.append(f"barrier {number} has {partly} of a warp")
            elif barrier.count:
                parts.append(f"barrier {number} has {barrier.threads} of {barrier.count} threads")
            else:
                parts.append(f"barrier {number} has {len(barrier.arrived)} of {warps} warps")
        return "; ".join(parts)

    def _update(self, number: int, barrier: _Barrier) -> list[Path]:
        free: list[Path] = []
        for warp, paths in list(barrier.gathering.items()):
            if sum(path.lanes for path, _ in paths) != self._live[warp]:
                continue
            del barrier.gathering[warp]
            barrier.arrived.add(warp)
            barrier.threads += WARP_LANES
            barrier.waiting += (path for path, waits in paths if waits)
            free += (path for path, waits in paths if not waits)
        if barrier.count:
            complete = barrier.threads >= barrier.count
        else:
            complete = all(warp in barrier.arrived for warp, live in self._live.items() if live)
        if complete:
            free += barrier.waiting
            del self._barriers[number]
            if barrier.gathering:
                self._barriers[number] = _Barrier(barrier.count, barrier.gathering)
        return free
