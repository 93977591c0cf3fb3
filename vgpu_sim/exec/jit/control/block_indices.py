"""A block's position in its grid, as LLVM text: the indices of a linear block, and of the next
block.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.launch import CONTEXT_GRID


def load_grid_sizes(text: Text) -> list[str]:
    """Return the names of the grid's sizes in x, y and z, loaded from the launch context."""
    sizes = []
    for axis in range(3):
        address = text.let(f"getelementptr i8, ptr %ctx, i64 {CONTEXT_GRID + 4 * axis}")
        sizes.append(text.let(f"load i32, ptr {address}, align 4, !invariant.load !0"))
    return sizes


def block_indices_at(text: Text, grid: Sequence[str], block: str) -> tuple[str, ...]:
    """Return the x, y and z indices of the block with linear index ``block``; x varies fastest."""
    quotient, indices = block, []
    for size in grid[:2]:
        wide = text.let(f"zext i32 {size} to i64")
        # An empty grid never runs a block, but the division must not be by zero.
        wide = text.intrinsic("umax", "i64", False, wide, "1")
        index = text.let(f"urem i64 {quotient}, {wide}")
        indices.append(text.let(f"trunc i64 {index} to i32"))
        quotient = text.let(f"udiv i64 {quotient}, {wide}")
    return (*indices, text.let(f"trunc i64 {quotient} to i32"))


def following_indices(
    text: Text, grid: Sequence[str], names: Sequence[str]
) -> tuple[str, str, str]:
    """Return the x, y and z indices of the block after the block with the indices ``names``. They
    are incremented with carries from x to y and from y to z.
    """
    indices: list[str] = []
    carry, stepped = "true", ""
    for name, size in zip(names, grid, strict=True):
        step = text.let(f"zext i1 {carry} to i32")
        stepped = text.let(f"add i32 {name}, {step}")
        carry = text.let(f"icmp uge i32 {stepped}, {size}")
        indices.append(text.let(f"select i1 {carry}, i32 0, i32 {stepped}"))
    return indices[0], indices[1], stepped


def advance(
    text: Text,
    grid: Sequence[str],
    places: Sequence[int],
    start: Sequence[str],
    names: Sequence[str],
) -> None:
    """Emit the step from the current block (%block, at %cx, %cy and %cz) to the next block. After
    the last block, leave the loop.

    ``names`` are the loop's phis: first the block's linear index, then its indices in x, y and z.
    They are written into the reserved lines ``places``. ``start`` has the indices of the first
    block in x, y and z.
    """
    text.do("%after = add i64 %block, 1")
    indices = following_indices(text, grid, ("%cx", "%cy", "%cz"))
    text.do("%unfinished = icmp ult i64 %after, %end")
    text.branch("%unfinished", "blocks", "leave")
    ways = [("%begin", "%after"), *zip(start, indices, strict=True)]
    types = ("i64", "i32", "i32", "i32")
    for place, name, type_, (first, later) in zip(places, names, types, ways, strict=True):
        text.fill(place, name, type_, [(first, "start"), (later, "next")])
