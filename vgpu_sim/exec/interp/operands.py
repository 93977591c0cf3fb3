"""Reads operands and writes results of instructions.

Values are arrays of unsigned integers as wide as the operand's type, with one element per lane,
or a single element for a constant, which numpy broadcasts.
"""

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.isa import DataType, Destination, Instruction, Literal, Operand, Predicate, Register

_SIGNED: dict[int, np.dtype[np.signedinteger]] = {
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}


def signed_view(bits: Bits) -> NDArray[np.signedinteger]:
    """Return bit patterns, unchanged, as two's complement numbers."""
    result: NDArray[np.signedinteger] = bits.view(_SIGNED[bits.dtype.itemsize * 8])
    return result


def read_bits(warp: Lanes, operand: Operand, bits: int) -> Bits:
    """Return the low bits of a register, of a literal or of a symbol's address.

    ``bits`` is the number of these bits: 8, 16, 32 or 64.
    """
    if isinstance(operand, Register):
        register = warp.registers[operand.index]
        dtype = unsigned_dtype(bits)
        return register if register.dtype == dtype else register.astype(dtype)
    if isinstance(operand, Predicate):
        raise TypeError("expected a number, found a predicate")
    return warp.launch.constant(operand, bits)


def read_predicate(warp: Lanes, operand: Operand) -> Mask:
    """Return a predicate register, or a literal 0 or 1, as booleans."""
    if isinstance(operand, Predicate):
        return warp.predicates[operand.index]
    if isinstance(operand, Literal):
        return np.array([operand.bits & 1 == 1])
    raise TypeError(f"{operand} is not a predicate")


def write_bits(
    warp: Lanes, destination: Destination, value: Bits, type_: DataType, mask: Mask
) -> None:
    """Write a result of ``type_``, sign- or zero-extended to the register's width."""
    if destination is None:
        return
    if not isinstance(destination, Register):
        raise TypeError(f"{destination} cannot hold {type_.name}")
    register = warp.registers[destination.index]
    if value.dtype != register.dtype:
        if type_.is_signed:
            wide = signed_view(value).astype(_SIGNED[register.dtype.itemsize * 8])
            value = wide.view(register.dtype)
        else:
            value = value.astype(register.dtype)
    np.copyto(register, value, where=mask)


def write_predicate(warp: Lanes, destination: Destination, value: Mask, mask: Mask) -> None:
    """Write a predicate register; if ``destination`` is None, discard the value."""
    if destination is None:
        return
    if not isinstance(destination, Predicate):
        raise TypeError(f"{destination} cannot hold a predicate")
    np.copyto(warp.predicates[destination.index], value, where=mask)


def write_number(warp: Lanes, instruction: Instruction, value: int, mask: Mask) -> None:
    """Write an integer or truth value to the instruction's first destination, in all lanes of
    ``mask``.
    """
    number = np.array([value], dtype=np.uint32)
    if instruction.type is DataType.PRED:
        write_predicate(warp, instruction.dsts[0], number != 0, mask)
    else:
        write_bits(warp, instruction.dsts[0], number, instruction.type, mask)
