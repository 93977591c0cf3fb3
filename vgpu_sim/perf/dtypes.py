"""Types of operands: what an element takes, scales included."""

from dataclasses import dataclass
from typing import Final

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape


@dataclass(frozen=True, slots=True)
class Dtype:
    """A type of a tensor core's operands; ``bytes`` an element, with its share of block scales."""

    name: str
    bytes: float


DTYPES: Final = {
    one.name: one
    for one in (
        Dtype("bf16", 2),
        Dtype("fp16", 2),
        Dtype("tf32", 4),
        Dtype("fp8", 1),
        Dtype("int8", 1),
        Dtype("nvfp4", 0.5 + 1 / 16),  # an fp8 scale for 16 elements
    )
}


def dtype_named(name: str) -> Dtype:
    """Return a type. Raises BadShape, which lists them."""
    if name not in DTYPES:
        raise BadShape(f"no type {name!r}; known: {', '.join(DTYPES)}")
    return DTYPES[name]


def supported(board: Board, dtype: str) -> Dtype:
    """Return a type that a board's tensor cores have. Raises BadShape, which lists theirs."""
    found = dtype_named(dtype)
    if dtype not in board.tensor_tflops:
        there = ", ".join(board.tensor_tflops)
        raise BadShape(f"{board.name}'s tensor cores do not have {dtype}; they have {there}")
    return found
