"""What products in tensor memory do: operations by type, and bytes of tensor memory."""

from collections.abc import Iterator

import numpy as np

from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.families.tensor import Words, decode
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.operands import read_bits
from vgpu_sim.isa import Instruction
from vgpu_sim.records import dataclass

_WORD_BYTES = 4
_ROW_BYTES = 32


@dataclass(frozen=True, slots=True)
class TensorProduct:
    """A product: ``kind`` is named as in a board's tensor rates. ``moved_bytes`` are those of D,
    of A if it is in tensor memory, and of scales.
    """

    kind: str
    operations: int
    moved_bytes: int


def products_of(
    blocks: ResidentBlocks, instruction: Instruction, allowed: Mask
) -> Iterator[TensorProduct]:
    """Yield the products of a TMMA, one for each lane that executes it."""
    numbers = [
        np.broadcast_to(read_bits(blocks, source, 32), allowed.shape) for source in instruction.srcs
    ]
    for lane in np.flatnonzero(allowed):
        words = decode([int(number.reshape(-1)[lane]) for number in numbers])
        if words.legal:
            yield _product(words)


def _product(words: Words) -> TensorProduct:
    rows, moved = words.rows * words.blocks, 0
    moved += rows * words.columns * _WORD_BYTES * (1 + words.adds)
    if words.in_tensor:
        moved += rows * words.parts * _ROW_BYTES
    if words.scaled:
        moved += (rows + words.columns * words.blocks) * (words.depth // words.each)
    return TensorProduct(words.rate, 2 * rows * words.columns * words.depth, moved)
