"""Bitwise semantics on Python integers, for constant folding."""

from collections.abc import Callable

from vgpu_sim.exec.jit.numbers.byte_choices import byte_selectors
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import Instruction, Op

Function = Callable[..., int]


def function(instruction: Instruction) -> Function | None:
    """Return a function that computes the result of ``instruction`` from its operands' bit
    patterns.

    Return None if folding the opcode is not worthwhile.
    """
    make = _FUNCTIONS.get(instruction.op)
    return None if make is None else make(instruction)


def _field(instruction: Instruction) -> Function:
    bits, is_signed = instruction.type.bits, instruction.type.is_signed
    return lambda a, b, c: _extend(
        (to_signed(a, bits) if is_signed else a) >> field_count(b, bits),
        field_count(c, bits),
        is_signed,
    )


def _insertion(instruction: Instruction) -> Function:
    bits = instruction.type.bits
    return lambda a, b, c, e: _insert(a, b, field_count(c, bits), field_count(e, bits))


def field_count(count: int, bits: int) -> int:
    """Return what counts of a position or length of a field in ``bits`` bits, as docs/isa.md
    states for BFE.
    """
    return min(count, 255) if bits == 64 else count & 255


def _extension(instruction: Instruction) -> Function:
    count = _counting(instruction)
    return lambda a, b: _extend(a, count(b), instruction.type.is_signed)


def _mask(instruction: Instruction) -> Function:
    if instruction.wrap:
        return lambda a, b: _ones(b & 31) << (a & 31)
    return lambda a, b: _ones(min(b, 32)) << a if a < 32 else 0


def _counting(instruction: Instruction) -> Callable[[int], int]:
    """Return a function that maps a 32-bit shift count to the count that takes effect."""
    return (lambda count: count & 31) if instruction.wrap else (lambda count: min(count, 32))


def _funnel(instruction: Instruction) -> Function:
    count = _counting(instruction)
    if instruction.op is Op.SHF_L:
        return lambda a, b, c: (b << 32 | a) << count(c) >> 32
    return lambda a, b, c: (b << 32 | a) >> count(c)


def _permutation(instruction: Instruction) -> Function:
    return lambda a, b, c: _permute(b << 32 | a, byte_selectors(instruction.permute, c))


def _ones(count: int) -> int:
    return (1 << count) - 1


def _extend(value: int, count: int, is_signed: bool) -> int:
    value &= _ones(count)
    return to_signed(value, count) if is_signed and count else value


def _insert(a: int, b: int, position: int, length: int) -> int:
    field = _ones(length) << position
    return b & ~field | a << position & field


def _permute(joined_words: int, chosen: list[int]) -> int:
    octets = [joined_words >> 8 * (choice & 7) & 255 for choice in chosen]
    octets = [(byte >> 7) * 255 if c & 8 else byte for byte, c in zip(octets, chosen, strict=True)]
    return int.from_bytes(octets, "little")


def _logic(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for row in range(8):
        if table >> row & 1:
            inputs = ((a, 4), (b, 2), (c, 1))
            part = _ones(32)
            for value, bit in inputs:
                part &= value if row & bit else ~value
            result |= part
    return result


_FUNCTIONS: dict[Op, Callable[[Instruction], Function]] = {
    Op.BFE: _field,
    Op.BFI: _insertion,
    Op.BMSK: _mask,
    Op.SZEXT: _extension,
    Op.POPC: lambda _: int.bit_count,
    Op.CLZ: lambda i: lambda a: i.type.bits - a.bit_length(),
    Op.BREV: lambda i: lambda a: int(f"{a:0{i.type.bits}b}"[::-1], 2),
    Op.SHF_L: _funnel,
    Op.SHF_R: _funnel,
    Op.PRMT: _permutation,
    Op.LOP3: lambda _: _logic,
}
