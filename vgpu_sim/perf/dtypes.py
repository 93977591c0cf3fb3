"""Operand types of tensor cores, and the bytes of an element, including scales."""

from typing import Final

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Dtype:
    """An operand type of tensor cores; ``bytes`` is the size of an element, including its share of
    block scales.
    """

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
        Dtype("nvfp4", 0.5 + 1 / 16),  # one fp8 scale for 16 elements
    )
}


def dtype_named(name: str) -> Dtype:
    """Return the operand type with this name. Raises BadShape, which lists the types."""
    if name not in DTYPES:
        raise BadShape(f"no type {name!r}; known: {', '.join(DTYPES)}")
    return DTYPES[name]


def require_dtype(board: Board, dtype: str) -> Dtype:
    """Return the operand type with this name. Raises BadShape if the board's tensor cores lack the
    type; the message lists the types that the tensor cores have.
    """
    operand_type = dtype_named(dtype)
    if dtype not in board.tensor_tflops:
        supported_names = ", ".join(board.tensor_tflops)
        raise BadShape(
            f"{board.name}'s tensor cores do not have {dtype}; they have {supported_names}"
        )
    return operand_type
