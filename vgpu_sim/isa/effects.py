"""Effects of an instruction beyond writing its destinations, declared in its row for all passes."""

from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of an instruction on the lanes whose guard is true.

    ``reads``, ``writes``: the instruction accesses memory, in the space that it names. ``orders``:
    a thread's accesses before the instruction are ordered before its accesses after the
    instruction. ``stops``: lanes wait at the instruction for other threads. ``rests``: lanes pause
    at the instruction until all other lanes that can run have run. ``collective``: a lane's result
    depends on which lanes of its warp execute the instruction. ``jumps``: lanes continue at the
    target. ``ends``: lanes end. ``traps``: lanes end the context.
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
        """True if a lane that executes the instruction never continues at the next instruction."""
        return self.jumps or self.ends

    @property
    def accesses(self) -> bool:
        """True if the instruction accesses memory."""
        return self.reads or self.writes

    @property
    def visible(self) -> bool:
        """True if other threads can observe that the instruction executes.

        Such an instruction may be neither eliminated nor repeated.
        """
        return (
            self.writes or self.orders or self.stops or self.rests or self.collective or self.traps
        )

    @property
    def masked(self) -> bool:
        """True if a lane whose guard is false must not execute the instruction at all. Such a lane
        may execute any other instruction, if the lane's result is then discarded.
        """
        return self.reads or self.visible


NONE = Effects()
