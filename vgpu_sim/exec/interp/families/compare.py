"""Comparisons by SETP: if an operand is NaN, the ordered ones are false and the ...U forms true."""

from collections.abc import Callable

import numpy as np

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.numbers.formats import FORMATS, flush, widen
from vgpu_sim.exec.interp.operands import read_bits, read_predicate, signed_view, write_predicate
from vgpu_sim.isa import BoolOp, Compare, Instruction, Op

_RELATION: dict[Compare, Callable[..., Mask]] = {
    Compare.EQ: np.equal,
    Compare.NE: np.not_equal,
    Compare.LT: np.less,
    Compare.LE: np.less_equal,
    Compare.GT: np.greater,
    Compare.GE: np.greater_equal,
}
_UNORDERED = {
    Compare.EQU: Compare.EQ,
    Compare.NEU: Compare.NE,
    Compare.LTU: Compare.LT,
    Compare.LEU: Compare.LE,
    Compare.GTU: Compare.GT,
    Compare.GEU: Compare.GE,
}
_COMBINE: dict[BoolOp, Callable[..., Mask]] = {
    BoolOp.AND: np.logical_and,
    BoolOp.OR: np.logical_or,
    BoolOp.XOR: np.logical_xor,
}


def _compare(a: np.ndarray, b: np.ndarray, how: Compare) -> Mask:
    """Compare numbers lane by lane; integers have no NaN."""
    nan: Mask = np.isnan(a) | np.isnan(b)
    if how is Compare.NAN:
        return nan
    if how is Compare.NUM:
        return ~nan
    if how in _UNORDERED:
        return _RELATION[_UNORDERED[how]](a, b) | nan
    return _RELATION[how](a, b) & ~nan


def _setp(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    type_ = instruction.type
    if instruction.compare is None:
        raise TypeError("SETP has no comparison")
    a, b = (read_bits(warp, source, type_.bits) for source in instruction.srcs[:2])
    if type_.is_float:
        if instruction.ftz:
            a, b = flush(a, FORMATS[type_]), flush(b, FORMATS[type_])
        outcome = _compare(widen(a, type_), widen(b, type_), instruction.compare)
    elif type_.is_signed:
        outcome = _RELATION[instruction.compare](signed_view(a), signed_view(b))
    else:
        outcome = _RELATION[instruction.compare](a, b)
    results = [outcome, ~outcome]
    if instruction.combine is not BoolOp.NONE:
        with_ = read_predicate(warp, instruction.srcs[2])
        results = [_COMBINE[instruction.combine](result, with_) for result in results]
    for destination, result in zip(instruction.dsts, results, strict=False):
        write_predicate(warp, destination, result, mask)


SEMANTICS = {Op.SETP: _setp}
