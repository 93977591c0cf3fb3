"""Row order: neighbouring blocks run row by row if a block has several rows and no loop.

A block of 32 x 8 threads that reads an image accesses eight short pieces of eight rows, and the
next block eight more: the hardware prefetcher never detects that rows continue, and each piece
waits for memory. So the first rows of neighbouring blocks run one after another, then their
second rows, and so on, as a loop nest in C would traverse the image. Blocks may run in any
order; blocks whose threads wait, share memory or update it atomically, and blocks with loops,
which read again what they have just read, are run as a whole.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, SsaFunction
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.isa import EFFECTS, Family, Space

# Threads of a row that run before the next row does, which reads much of the same data.
_MOST_THREADS: Final = 1024
# A group with several rows reads as much at once as one long row: hardware prefetchers recognise
# only a few pieces of one page as continuing rows.
_MOST_BYTES: Final = 256


def may_run_by_rows(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether it is legal and faster to run neighbouring blocks row by row. The first rows
    of all these blocks are then executed before their second rows, and so on.
    """
    if ssa.graph.loops or geometry.width == 1 or _row_slots(geometry) == geometry.slots:
        return False
    nodes = (node for block in ssa.blocks.values() for node in block.nodes)
    return not any(isinstance(node, Operation) and _binds(node) for node in nodes)


def has_too_many_rows(ssa: SsaFunction, geometry: Geometry) -> bool:
    """Return whether a group has more rows than the hardware prefetches well at the same time."""
    if geometry.span <= geometry.padded[0] or not may_run_by_rows(ssa, geometry):
        return False
    nodes = (node for block in ssa.blocks.values() for node in block.nodes)
    widest = max(
        (
            node.instruction.vector * node.instruction.type.bytes
            for node in nodes
            if isinstance(node, Operation) and node.instruction.space is Space.GLOBAL
        ),
        default=0,
    )
    return geometry.span * widest > _MOST_BYTES


def _binds(node: Operation) -> bool:
    """Return whether an instruction may reveal the order of blocks, or needs the block's state."""
    instruction = node.instruction
    effects = EFFECTS[instruction.op]
    if effects.orders or effects.stops or effects.rests or effects.collective or effects.traps:
        return True
    if instruction.volatile or instruction.op.family is Family.ATOMIC:
        return True
    return effects.accesses and instruction.space not in (Space.GLOBAL, Space.PARAM)


def _row_slots(geometry: Geometry) -> int:
    """Return the number of lanes of a block that run before those of the next block."""
    return max(geometry.span, geometry.padded[0])


class RowOrder:
    """Writes two nested loops as LLVM text: over the rows of neighbouring blocks and, within a row,
    over these blocks.

    The body of the loops uses %block, %cx and the groups from %piece to %piece_end (exclusive).
    """

    names: Final = ("%run", "%run_x", "%cy", "%cz")
    """The block indices of the first of the neighbouring blocks: the linear one, and one per
    axis.
    """
    groups: Final = ("%piece", "%piece_end")

    def __init__(self, text: Text, geometry: Geometry) -> None:
        self._text = text
        self._slots = geometry.slots
        self._row = _row_slots(geometry)
        self._most = max(_MOST_THREADS // geometry.padded[0], 1)
        self._places = (0, 0)
        self._from = ""

    def begin(self, grid: Sequence[str]) -> None:
        """Begin the loop over rows and the loop over blocks. They run a series of neighbouring
        blocks, of which %run is the first.

        ``grid`` has the sizes of the grid.
        """
        text = self._text
        left = text.let("sub i64 %end, %run")
        beside = text.let(f"sub i32 {grid[0]}, %run_x")
        beside = text.let(f"zext i32 {beside} to i64")
        beside = text.intrinsic("umin", "i64", False, left, beside)
        text.do(f"%many = call i64 @llvm.umin.i64(i64 {beside}, i64 {self._most})")
        self._from = text.block_label
        text.jump("row")
        text.begin("row")
        row = text.reserve()
        text.do(f"%piece_end = add i32 %piece, {self._row}")
        text.jump("beside")
        text.begin("beside")
        self._places = row, text.reserve()
        text.do("%block = add i64 %run, %nth")
        text.do("%nth_x = trunc i64 %nth to i32")
        text.do("%cx = add i32 %run_x, %nth_x")

    def end(self) -> None:
        """End the loop over rows and the loop over blocks. The text that follows is reached when
        all blocks of the series have run.
        """
        text = self._text
        text.begin("block_done")
        text.do("%nth_next = add i64 %nth, 1")
        text.do("%more_beside = icmp ult i64 %nth_next, %many")
        text.branch("%more_beside", "beside", "row_done")
        text.begin("row_done")
        text.do(f"%more_rows = icmp ult i32 %piece_end, {self._slots}")
        text.branch("%more_rows", "row", "next")
        row, nth = self._places
        text.fill(row, "%piece", "i32", [("0", self._from), ("%piece_end", "row_done")])
        text.fill(nth, "%nth", "i64", [("0", "row"), ("%nth_next", "block_done")])
