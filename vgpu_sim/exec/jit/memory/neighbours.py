"""Lanes whose pointers turn out to be contiguous at run time."""

from collections.abc import Callable

from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.shapes.lane_shapes import LaneShape, Vector
from vgpu_sim.exec.jit.text.writer import Text, integer

# The minimum number of loads saved that justifies a test and code for both cases.
_LEAST_ROW = 4


def may_be_contiguous(shape: LaneShape, width: int) -> bool:
    """Return whether lanes of this shape may turn out to be contiguous at run time.

    Such lanes typically have an index that wraps around or is clamped at an edge.
    """
    unknown = isinstance(shape, Vector) and shape.lanes is None and not shape.strided
    return unknown and width >= _LEAST_ROW


def load(
    text: Text,
    access: Access,
    pointers: str,
    lanes: str | None,
    row: Callable[[str], list[str]],
    apart: Callable[[], list[str]],
) -> list[str]:
    """Emit a load with a test at run time. If the pointers of all ``lanes`` are contiguous, the
    code that ``row`` emits is executed, else the code that ``apart`` emits.

    ``lanes`` is a mask, or None for all lanes. ``row`` gets the pointer of the first lane.
    ``row``, ``apart`` and this function return one vector per element.
    """
    width = text.width
    places, numbers, flags = (text.type_of(t, vector=True) for t in ("ptr", "i64", "i1"))
    first = text.let(f"extractelement {places} {pointers}, i64 0")
    start = text.splat("i64", text.let(f"ptrtoint ptr {first} to i64"))
    steps = text.lanes("i64", (lane * access.size for lane in range(width)))
    expected = text.let(f"add {numbers} {start}, {steps}")
    own = text.let(f"ptrtoint {places} {pointers} to {numbers}")
    strays = text.let(f"icmp ne {numbers} {own}, {expected}")
    if lanes is not None:
        strays = text.let(f"and {flags} {strays}, {lanes}")
    packed = text.let(f"bitcast {flags} {strays} to {integer(width)}")
    is_row = text.let(f"icmp eq {integer(width)} {packed}, 0")
    return emit_either(text, is_row, lambda: row(first), apart, access.scalar)


def emit_either(
    text: Text,
    together: str,
    rows: Callable[[], list[str]],
    apart: Callable[[], list[str]],
    scalar: str,
) -> list[str]:
    """Emit a branch on the i1 ``together``. If it is true, the code that ``rows`` emits is
    executed, else the code that ``apart`` emits.

    Return the vectors that result from the executed code.
    """
    labels = [text.label(hint) for hint in ("row", "apart", "read")]
    text.branch(together, labels[0], labels[1])
    ways: list[tuple[list[str], str]] = []
    for label, write in zip(labels, (rows, apart), strict=False):
        text.begin(label, follows=True)
        with text.known.open_scope():
            ways.append((write(), text.block_label))
            text.jump(labels[2])
    text.begin(labels[2], follows=True)
    type_, (row_exit, apart_exit) = text.type_of(scalar, vector=True), ways
    return [
        text.phi(type_, (a, row_exit[1]), (b, apart_exit[1]))
        for a, b in zip(row_exit[0], apart_exit[0], strict=True)
    ]
