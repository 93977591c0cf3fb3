"""The reconvergence state of one warp as a tree whose leaves all run in turn.

It generalises the stack of ``state.Warp``: when a warp diverges, its path waits at the branch's
immediate post-dominator, and two new paths run concurrently until both have arrived there. Lanes
reconverge where they do on the stack, but no path blocks another one. Lanes that have waited too
long are released before the others have arrived. Lanes are bit masks, lane 0 lowest.
"""

from vgpu_sim.records import dataclass


@dataclass(slots=True, eq=False)
class Path:
    """Lanes of warp ``warp`` that run together from ``pc`` to instruction ``reconvergence``.

    ``reconvergence`` is -1 if the lanes run to their end. When lanes diverge, their path waits at
    the instruction where they rejoin; it is the path ``below`` each of the new paths. ``above`` is
    the number of paths for which this path waits. ``arrived`` are the lanes that have come from
    such paths and wait here.
    """

    warp: int
    pc: int
    lanes: int
    reconvergence: int = -1
    below: "Path | None" = None
    above: int = 0
    arrived: int = 0

    def split(self, chosen: int, pc: int, other_pc: int, meet: int) -> "tuple[Path, ...]":
        """Send the ``chosen`` lanes to ``pc`` and the others to ``other_pc``, to rejoin at
        ``meet``.

        Return the paths that replace this one. A returned path may already be at its
        reconvergence point.
        """
        other_lanes = self.lanes & ~chosen
        if not chosen or not other_lanes:
            self.pc = pc if chosen else other_pc
            return (self,)
        if meet == self.reconvergence:
            # The path below waits there already: otherwise a loop whose lanes leave one by one
            # would grow the tree by a level for each.
            below = self.below
            if below is not None:
                below.above += 1
        else:
            self.pc = meet
            self.above = 2
            below = self
        return (
            Path(self.warp, pc, chosen, meet, below),
            Path(self.warp, other_pc, other_lanes, meet, below),
        )

    def end(self, ended: int) -> None:
        """Remove lanes that have ended from this path and all paths below it."""
        path: Path | None = self
        while path is not None:
            path.lanes &= ~ended
            path = path.below

    def reconverge(self) -> "Path | None":
        """Return the path on which the lanes of this path continue.

        Before this path has reached its reconvergence point, it is this path itself. After that,
        the lanes continue on the path below, or on a path further below if that one has reached
        its own reconvergence point. The returned path waits if its ``above`` is not 0. If no
        lanes are left, return None.
        """
        path = self
        while path.pc == path.reconvergence or not path.lanes:
            below = path.below
            if below is None:
                return None
            below.above -= 1
            below.arrived |= path.lanes
            path = below
            if path.above:
                return path
            path.arrived = 0
        return path

    def release_arrived(self) -> "Path":
        """Let the lanes that have arrived at this path continue, without waiting for the other
        lanes.

        Return a new path with the released lanes. This path continues to wait for the other
        lanes.
        """
        lanes, self.arrived = self.arrived, 0
        self.lanes &= ~lanes
        if self.below is not None:
            self.below.above += 1
        return Path(self.warp, self.pc, lanes, self.reconvergence, self.below)
