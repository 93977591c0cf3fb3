"""The barrier of one cluster (PTX ISA, "barrier.cluster"), at which lanes arrive and later wait."""

from collections.abc import Mapping

from vgpu_sim.exec.interp.families.sync import BarrierMisuse
from vgpu_sim.exec.interp.paths import Path


class ClusterBarrier:
    """The barrier of a cluster whose blocks are all resident.

    ``live`` maps the slot of each block to the block's warps with their lanes that have not ended;
    the owner updates it.
    """

    def __init__(self, live: Mapping[int, Mapping[int, int]]) -> None:
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
        warps = [(w, lanes) for block in self._live.values() for w, lanes in block.items() if lanes]
        if not warps or any(lanes & ~self._arrived.get(warp, 0) for warp, lanes in warps):
            return []
        for warp, lanes in warps:
            self._passed[warp] = self._passed.get(warp, 0) | lanes
        self._arrived.clear()
        free, self.waiting = self.waiting, []
        for path in free:
            self._passed[path.warp] &= ~path.lanes
        return free
