"""The barriers of clusters (PTX ISA, "barrier.cluster"), at which lanes arrive and later wait."""

from collections.abc import Iterable, Mapping, Sequence

from vgpu_sim.exec.interp.families.sync import BarrierMisuse
from vgpu_sim.exec.interp.paths import Path


class _Barrier:
    """The barrier of a cluster whose blocks are all resident.

    ``live`` has, for each block, its warps with their lanes that have not ended; the owner updates
    it.
    """

    def __init__(self, live: Sequence[Mapping[int, int]]) -> None:
        self._live = live
        self._arrived: dict[int, int] = {}  # since the barrier last completed
        self._passed: dict[int, int] = {}  # lanes that may pass, and have not waited yet
        self.waiting: list[Path] = []

    def arrive(self, path: Path) -> list[Path]:
        """Record that the lanes of a path have arrived. Return the paths that no longer wait.

        Raises:
            BarrierMisuse: a lane has not waited since it last arrived.
        """
        warp = path.warp
        if path.lanes & (self._arrived.get(warp, 0) | self._passed.get(warp, 0)):
            raise BarrierMisuse("a thread arrives at its cluster's barrier twice without a wait")
        self._arrived[warp] = self._arrived.get(warp, 0) | path.lanes
        return self.recheck()

    def may_pass(self, path: Path) -> int:
        """Return the lanes of a path that need not wait, because the barrier has completed.

        Raises:
            BarrierMisuse: a lane has not arrived.
        """
        passed = path.lanes & self._passed.get(path.warp, 0)
        if path.lanes & ~passed & ~self._arrived.get(path.warp, 0):
            raise BarrierMisuse("a thread waits for its cluster's barrier without an arrival")
        if passed:
            self._passed[path.warp] &= ~passed
        return passed

    def recheck(self) -> list[Path]:
        """Complete the barrier if all lanes that have not ended have arrived. Return the paths that
        no longer wait.
        """
        warps = [(w, lanes) for block in self._live for w, lanes in block.items() if lanes]
        if not warps or any(lanes & ~self._arrived.get(warp, 0) for warp, lanes in warps):
            return []
        for warp, lanes in warps:
            self._passed[warp] = self._passed.get(warp, 0) | lanes
        self._arrived.clear()
        free, self.waiting = self.waiting, []
        for path in free:
            self._passed[path.warp] &= ~path.lanes
        return free


class Clusters:
    """The clusters of resident blocks.

    The blocks of a cluster, ``together`` of them, are in consecutive slots, and each has ``warps``
    warps.
    """

    def __init__(self, together: int, warps: int) -> None:
        self._together = together
        self._warps = warps
        self._barriers: dict[int, _Barrier] = {}  # by the cluster's first slot

    def slots_with(self, slot: int) -> range:
        """Return the slots of the cluster that has a block in ``slot``."""
        first = slot - slot % self._together
        return range(first, first + self._together)

    def admit(self, first: int, live: Sequence[Mapping[int, int]]) -> None:
        """Begin a cluster whose first block is in slot ``first``; ``live`` is as in its barrier."""
        self._barriers[first] = _Barrier(live)

    def arrive(self, path: Path) -> list[Path]:
        """Record an arrival; return the paths that no longer wait. Raises as ``_Barrier.arrive``
        does.
        """
        return self._of(path).arrive(path)

    def may_pass(self, path: Path) -> int:
        """Return the lanes of a path that need not wait. Raises as ``_Barrier.may_pass``."""
        return self._of(path).may_pass(path)

    def wait(self, path: Path) -> None:
        """Let a path wait for its cluster's barrier."""
        self._of(path).waiting.append(path)

    def recheck(self, slot: int) -> list[Path]:
        """Return the paths that no longer wait after lanes of a block have ended."""
        return self._barriers[self.slots_with(slot)[0]].recheck()

    def may_complete(self, slot: int, able: Iterable[Path]) -> bool:
        """Return whether paths of a block wait for its cluster's barrier, and another block of the
        cluster has one of the paths ``able``, which can continue.
        """
        peers = self.slots_with(slot)
        return self.find_waiting(slot) is not None and any(self._slot(p) in peers for p in able)

    def find_waiting(self, slot: int) -> Path | None:
        """Return a path of a block that waits for the cluster's barrier, or None."""
        waiting = self._barriers[self.slots_with(slot)[0]].waiting
        return next((path for path in waiting if self._slot(path) == slot), None)

    def describe(self, slot: int) -> list[str]:
        """Describe where lanes wait, for a block that has no runnable path."""
        waits = self.find_waiting(slot) is not None
        return ["threads of the cluster have not arrived at its barrier"] if waits else []

    def _slot(self, path: Path) -> int:
        return path.warp // self._warps

    def _of(self, path: Path) -> _Barrier:
        return self._barriers[self.slots_with(self._slot(path))[0]]
