"""What a word does beyond writing its destinations: declared in its row, asked by every pass."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of a word on the lanes in its guard.

    ``reads``, ``writes``: memory, in the space that the word names. ``orders``: accesses of its
    thread before it against those after it. ``stops``: lanes wait there for other threads.
    ``rests``: others go on before its lanes do, whatever they wait for.
    ``collective``: what a lane gets depends on which lanes of its warp are there. ``jumps``: lanes
    go on at the target. ``ends``: lanes do not go on. ``traps``: they take the context with them.
    """

    reads: bool = False
    writes: bool = False
    orders: bool = False
    stops: bool = False
    rests: bool = False
    collective: bool = False
    jumps: bool = False
    ends: bool = False
    traps: bool = False

    @property
    def leaves(self) -> bool:
        """Return whether no lane in the guard goes on at the next word."""
        return self.jumps or self.ends

    @property
    def accesses(self) -> bool:
        """Return whether it goes to memory."""
        return self.reads or self.writes

    @property
    def visible(self) -> bool:
        """Return whether others can tell that it ran: it may not be left out or run twice."""
        return (
            self.writes or self.orders or self.stops or self.rests or self.collective or self.traps
        )

    @property
    def masked(self) -> bool:
        """Return whether lanes outside of the guard must be kept out of more than its results."""
        return self.reads or self.visible


NONE = Effects()
