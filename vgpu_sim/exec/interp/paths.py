"""The reconvergence of one warp as a tree whose leaves all run, in turns.

It is the stack of ``state.Warp`` with nobody on top: where a warp diverges, its path waits at the
branch's immediate post-dominator, and two new paths go on beside each other until both have come
there. So lanes meet where they do on the stack, but none keeps another from running. Those that
have waited too long are let go on before the others have come. Lanes are the bits of a number, lane
0 lowest.
"""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Path:
    """Lanes of warp ``warp`` that go on together at ``pc`` until word ``reconvergence``.

    ``reconvergence`` is -1 where they run to their end. ``below`` waits there for all of its
    ``above`` paths; ``arrived`` are those of its lanes that have come.
    """

    warp: int
    pc: int
    lanes: int
    reconvergence: int = -1
    below: "Path | None" = None
    above: int = 0
    arrived: int = 0

    def split(self, chosen: int, pc: int, other_pc: int, meet: int) -> "tuple[Path, ...]":
        """Send ``chosen`` lanes to ``pc`` and the others to ``other_pc``, to meet at ``meet``.

        Returns the paths that there are now in place of this one; they may have arrived already.
        """
        others = self.lanes & ~chosen
        if not chosen or not others:
            self.pc = pc if chosen else other_pc
            return (self,)
        if meet == self.reconvergence:
            # The one below waits there already: without this a loop whose lanes leave one by one
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
            Path(self.warp, other_pc, others, meet, below),
        )

    def end(self, ended: int) -> None:
        """Take lanes that have ended off this path and all those that wait for them."""
        path: Path | None = self
        while path is not None:
            path.lanes &= ~ended
            path = path.below

    def settle(self) -> "Path | None":
        """Return the path that these lanes are on now: this one, or one below that they came to.

        It waits where it has others ``above`` it. None: there are no lanes left.
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

    def let_go(self) -> "Path":
        """Let the lanes that have arrived at this path go on without the others; return theirs."""
        lanes, self.arrived = self.arrived, 0
        self.lanes &= ~lanes
        if self.below is not None:
            self.below.above += 1
        return Path(self.warp, self.pc, lanes, self.reconvergence, self.below)
