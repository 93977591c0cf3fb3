"""Packed integers: the elements of a word are an additional array dimension."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.exec.interp.operands import read_bits, signed_view, write_bits
from vgpu_sim.isa import Compare, DataType, Instruction, Op

_Numbers = NDArray[np.int64]

_RELATION: Final[dict[Compare | None, Callable[..., Mask]]] = {
    Compare.EQ: np.equal,
    Compare.NE: np.not_equal,
    Compare.LT: np.less,
    Compare.LE: np.less_equal,
    Compare.GT: np.greater,
    Compare.GE: np.greater_equal,
}


def _average(a: _Numbers, b: _Numbers) -> _Numbers:
    total = a + b
    return total + (total >= 0) >> np.int64(1)


_EXACT: Final[dict[Op, Callable[..., _Numbers]]] = {
    Op.PADD: np.add,
    Op.PSUB: np.subtract,
    Op.PMIN: np.minimum,
    Op.PMAX: np.maximum,
    Op.PABS: np.abs,
    Op.PNEG: np.negative,
    Op.PABSDIFF: lambda a, b: np.abs(a - b),
    Op.PAVG: _average,
}


def _elements(word: Bits, element: DataType) -> _Numbers:
    parts = np.ascontiguousarray(word).view(unsigned_dtype(element.bits))
    numbers = (signed_view(parts) if element.is_signed else parts).astype(np.int64)
    return numbers.reshape(-1, 32 // element.bits)


def _apply_packed(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    element = instruction.source_type
    if element is None:
        raise TypeError(f"{instruction.op.name} has no element type")
    operands = [_elements(read_bits(warp, s, 32), element) for s in instruction.srcs]
    if instruction.op is Op.PSET:
        exact = _RELATION[instruction.compare](*operands).astype(np.int64)
    else:
        exact = _EXACT[instruction.op](*operands)
    if instruction.saturate:
        low = -(1 << (element.bits - 1)) if element.is_signed else 0
        exact = np.clip(exact, low, low + (1 << element.bits) - 1)
    parts = exact.astype(np.uint64).astype(unsigned_dtype(element.bits))
    value = parts.view(np.uint32).reshape(-1)
    write_bits(warp, instruction.dsts[0], value, instruction.type, mask)


SEMANTICS: Final = dict.fromkeys((*_EXACT, Op.PSET), _apply_packed)
