"""The threads of a launch, and the values of their special registers."""

from collections.abc import Iterator

Shape = tuple[int, int, int]

SPECIALS = (
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    "%laneid",
    "WARP_SZ",
)


def indices(shape: Shape) -> list[Shape]:
    """Return all index triples of a shape, x fastest."""
    x, y, z = shape
    return [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]


def special_values(ctaid: Shape, grid: Shape, block: Shape) -> Iterator[tuple[int, ...]]:
    """Yield the values of ``SPECIALS`` for each thread of a block."""
    for lane, tid in enumerate(indices(block)):
        yield (*tid, *block, *ctaid, *grid, lane % 32, 32)
