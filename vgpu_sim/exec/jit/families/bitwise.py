"""Instructions on bits and bytes of a register, by LLVM's intrinsics and by shifts with defined
counts.
"""

from collections.abc import Callable
from typing import Final

from vgpu_sim.exec.jit.arithmetic.byte_permutation import constant_permutation, permutation
from vgpu_sim.exec.jit.arithmetic.logic_tables import emit_constant_table, emit_runtime_table
from vgpu_sim.exec.jit.arithmetic.words import Words
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import Instruction, Literal, Op

_Write = Callable[[Words, Instruction, list[str]], str]


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    instruction = node.instruction
    result = integer(fold.result_type(instruction).bits)

    def compute(form: Form, part: int) -> tuple[str, str]:
        words = Words(emitter.text, instruction.type.bits, form is Form.VECTOR)
        args = emitter.patterns(node, form, part)
        return _WRITERS[instruction.op](words, instruction, args), result

    emitter.define(node, compute)


def _field_count(words: Words, count: str) -> str:
    """Return what counts of a position or length, in the width of the type: the low 8 bits, or at
    most 255 for 64-bit types.
    """
    count = words.resize(count, 32)
    if words.bits == 64:
        return words.call("umin", count, words.const(0xFF))
    return words.op("and", count, words.const(0xFF))


def _bfe(words: Words, instruction: Instruction, args: list[str]) -> str:
    position, length = (_field_count(words, count) for count in args[1:])
    if instruction.type.is_signed:
        moved = words.op("ashr", args[0], words.clamp_count(position))
    else:
        moved = words.shift("lshr", args[0], position)
    return words.extend_field(moved, length, signed=instruction.type.is_signed)


def _bfi(words: Words, instruction: Instruction, args: list[str]) -> str:
    position, length = (_field_count(words, count) for count in args[2:])
    field_ones = words.extend_field(words.const(-1), length, signed=False)
    field = words.shift("shl", field_ones, position)
    inserted = words.op("and", words.shift("shl", args[0], position), field)
    return words.op("or", words.op("and", args[1], words.inverse(field)), inserted)


def _bmsk(words: Words, instruction: Instruction, args: list[str]) -> str:
    position, width = _wrap_count(words, instruction, args)
    field_ones = words.extend_field(words.const(-1), width, signed=False)
    return words.shift("shl", field_ones, position)


def _szext(words: Words, instruction: Instruction, args: list[str]) -> str:
    (width,) = _wrap_count(words, instruction, args[1:])
    return words.extend_field(args[0], width, signed=instruction.type.is_signed)


def _wrap_count(words: Words, instruction: Instruction, counts: list[str]) -> list[str]:
    if not instruction.wrap:
        return counts
    return [words.op("and", count, words.const(31)) for count in counts]


def _bfind(words: Words, instruction: Instruction, args: list[str]) -> str:
    (value,), bits = args, instruction.type.bits
    if instruction.type.is_signed:
        sign = words.op("ashr", value, words.const(bits - 1))
        value = words.op("xor", value, sign)
    place = words.leading_zeros(value)
    if instruction.shift_amount:
        none = words.test("eq", value, words.const(0))
        place = words.select(none, words.const(-1), place)
    else:
        place = words.op("sub", words.const(bits - 1), place)
    return Words(words.text, 32, words.vector).resize(place, bits)


def _fns(words: Words, instruction: Instruction, args: list[str]) -> str:
    """Find the n-th set bit by halving: test whether the lower half has enough ones."""
    value, base, offset = args
    zero, unit, last = words.const(0), words.const(1), words.const(31)
    place = words.op("and", base, last)
    above = words.op("and", value, words.op("shl", words.const(-1), place))
    upto = words.op("lshr", words.const(-1), words.op("sub", last, place))
    below = words.call("bitreverse", words.op("and", value, upto))
    down = words.test("slt", offset, zero)
    itself = words.test("eq", offset, zero)
    searched = words.select(down, below, above)
    searched = words.select(itself, words.op("and", value, words.op("shl", unit, place)), searched)
    distance = words.select(down, words.op("sub", zero, offset), offset)
    rank = words.select(itself, zero, words.op("sub", distance, unit))
    is_found = words.test("ult", rank, words.call("ctpop", searched))
    index = zero
    for half in (16, 8, 4, 2, 1):
        lower = words.op("and", words.op("lshr", searched, index), words.const((1 << half) - 1))
        count = words.call("ctpop", lower)
        beyond = words.test("uge", rank, count)
        rank = words.op("sub", rank, words.select(beyond, count, zero))
        index = words.op("or", index, words.select(beyond, words.const(half), zero))
    index = words.select(down, words.op("sub", last, index), index)
    index = words.select(is_found, index, words.const(-1))
    return words.select(words.test("ugt", base, last), words.const(-1), index)


def _popc(words: Words, instruction: Instruction, args: list[str]) -> str:
    return Words(words.text, 32, words.vector).resize(words.call("ctpop", *args), words.bits)


def _clz(words: Words, instruction: Instruction, args: list[str]) -> str:
    return Words(words.text, 32, words.vector).resize(words.leading_zeros(args[0]), words.bits)


def _brev(words: Words, instruction: Instruction, args: list[str]) -> str:
    return words.call("bitreverse", *args)


def _shf(words: Words, instruction: Instruction, args: list[str]) -> str:
    left = instruction.op is Op.SHF_L
    value = words.call("fshl" if left else "fshr", args[1], args[0], args[2])  # the count modulo 32
    if instruction.wrap:
        return value
    over = words.test("ugt", args[2], words.const(31))
    return words.select(over, args[0] if left else args[1], value)


def _prmt(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    mode, selector = node.instruction.permute, node.sources[2]

    def compute(form: Form, part: int) -> tuple[str, str]:
        words = Words(emitter.text, 32, form is Form.VECTOR)
        a, b, chosen = emitter.patterns(node, form, part)
        if words.vector and isinstance(selector, Literal):
            return constant_permutation(words, mode, a, b, selector.bits), words.scalar
        return permutation(words, mode, a, b, chosen), words.scalar

    emitter.define(node, compute)


def _lop3(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    table = node.sources[3]

    def compute(form: Form, part: int) -> tuple[str, str]:
        words = Words(emitter.text, 32, form is Form.VECTOR)
        *inputs, entries = emitter.patterns(node, form, part)
        if isinstance(table, Literal):
            return emit_constant_table(words, inputs, table.bits & 0xFF), words.scalar
        return emit_runtime_table(words, inputs, entries), words.scalar

    emitter.define(node, compute)


_WRITERS: Final[dict[Op, _Write]] = {
    Op.BFE: _bfe,
    Op.BFI: _bfi,
    Op.BMSK: _bmsk,
    Op.SZEXT: _szext,
    Op.BFIND: _bfind,
    Op.FNS: _fns,
    Op.POPC: _popc,
    Op.CLZ: _clz,
    Op.BREV: _brev,
    Op.SHF_L: _shf,
    Op.SHF_R: _shf,
}

LOWERING: Final[dict[Op, Lowering]] = {
    **dict.fromkeys(_WRITERS, _lower),
    Op.PRMT: _prmt,
    Op.LOP3: _lop3,
}
