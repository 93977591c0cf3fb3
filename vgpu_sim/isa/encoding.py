"""The 128-bit words of a function and its literal pool.

A word encodes one instruction and is little-endian. These parts are the same in all families::

    bits  0-15    opcode: index, then family
          16-23   type
          48-63   guard: index of the predicate in 15 bits (0x7fff: always); bit 63 negates

The layout of bits 24 to 47 and 64 to 127 is defined by each row: its modifiers, and its operands
in 16 bits each, d from bit 64 on, a from 80, b from 96 and c from 112 unless the row specifies
other places. Bits that a row does not use are zero; so is an absent operand. An operand below
0x8000 is a register or predicate; from 0x8000 on it is the index of an entry of the function's
pool of 64-bit entries: a literal, or an address that a relocation fills in. The elements of a
vector are in a pool entry too, which holds four 16-bit operands; so they may be any registers,
and none need be moved or renumbered for them. A sink (``_``) is 0xffff.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from vgpu_sim.isa.errors import ContainerError
from vgpu_sim.isa.instruction import Guard, Instruction, Operand, Predicate
from vgpu_sim.isa.layout import COMMON_BITS, OPERAND_BITS, WORD_BITS, Modifier
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.pool import PoolReader, PoolWriter
from vgpu_sim.isa.rules import operand_bits, operands_in
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import DataType
from vgpu_sim.isa.verify import MAXIMUM_WORDS
from vgpu_sim.records import dataclass

WORD_BYTES: Final = WORD_BITS // 8
_TYPE, _GUARD = 16, 48
_ALWAYS, _NEGATED = 0x7FFF, 0x8000
_OPERAND_MASK: Final = (1 << OPERAND_BITS) - 1
_OPCODES: Final = {op.value: op for op in Op}
_TYPES: Final = {type_.value: type_ for type_ in DataType}
_SHAPES: Final = 4096  # cached: a program uses some dozens
_Field = tuple[Role, int]  # first bit of the operand
# First bit of the field, number of operands, whether they are predicates.
_Place = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class EncodedCode:
    """The words and the literal pool of an encoded function.

    ``relocations`` maps indices of pool entries to variable names. Such an entry holds the
    addend of the variable's address.
    """

    words: bytes
    pool: tuple[int, ...]
    relocations: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The parts of a word besides guard and operands; ``used`` has all bits set that a word may
    use.
    """

    type: DataType
    modifiers: dict[str, Any]
    destinations: tuple[_Place, ...]
    sources: tuple[_Place, ...]
    used: int


def encode(function: Function) -> EncodedCode:
    """Encode the code of a function that ``verify`` accepts.

    Raises:
        InvalidFunction: the function has more distinct literals than the pool may hold.
    """
    pool = PoolWriter(function.name)
    words = bytearray()
    for instruction in function.code:
        words += _encode_word(instruction, pool).to_bytes(WORD_BYTES, "little")
    return EncodedCode(bytes(words), tuple(pool.entries), pool.relocations)


def decode(
    words: bytes, pool: tuple[int, ...], relocations: Mapping[int, str]
) -> tuple[Instruction, ...]:
    """Decode 128-bit words to instructions.

    ``verify`` must run next: it checks that the operands exist.

    Raises:
        ContainerError: the words are not valid code; the message has the word and the reason.
    """
    if len(words) % WORD_BYTES:
        raise ContainerError(f"{len(words)} bytes of code are not a whole number of words")
    if len(words) > MAXIMUM_WORDS * WORD_BYTES:
        raise ContainerError(f"{len(words)} bytes of code are too many for a function")
    reader = PoolReader(pool, relocations)
    result = []
    for word in range(len(words) // WORD_BYTES):
        try:
            first = word * WORD_BYTES
            bits = int.from_bytes(words[first : first + WORD_BYTES], "little")
            result.append(_decode_word(bits, reader))
        except ValueError as error:
            raise ContainerError(f"word {word}: {error}") from error
    return tuple(result)


def _encode_word(instruction: Instruction, pool: PoolWriter) -> int:
    spec = TABLE[instruction.op]
    guard = _ALWAYS
    if instruction.guard is not None:
        guard = instruction.guard.predicate.index
        guard |= _NEGATED if instruction.guard.negated else 0
    word = instruction.op | instruction.type << _TYPE | guard << _GUARD
    for modifier in spec.modifiers:
        word |= modifier.encode(getattr(instruction, modifier.name))
    for fields, operands in (
        (_destinations(spec), instruction.dsts),
        (_sources(spec), instruction.srcs),
    ):
        remaining_operands: tuple[Operand | None, ...] = operands
        for role, first in fields:
            count = operands_in(role, instruction)
            if count:
                word |= pool.vector(remaining_operands[:count]) << first
            remaining_operands = remaining_operands[count:]
    return word


def _decode_word(word: int, pool: PoolReader) -> Instruction:
    op = _OPCODES.get(word & 0xFFFF)
    if op is None:
        raise ValueError(f"opcode {word & 0xFFFF:#x} is not defined")
    shape = _shape(word & _fixed_bits(op))
    _check_unused(word, op, shape.used)
    return Instruction(
        op,
        shape.type,
        tuple(
            pool.destination(field, predicate)
            for first, count, predicate in shape.destinations
            for field in pool.vector(word >> first & _OPERAND_MASK, count)
        ),
        tuple(
            pool.source(field, predicate)
            for first, count, predicate in shape.sources
            for field in pool.vector(word >> first & _OPERAND_MASK, count)
        ),
        _guard(word >> _GUARD & 0xFFFF),
        **shape.modifiers,
    )


@functools.lru_cache(_SHAPES)
def _shape(word: int) -> _Shape:
    """Return the decoded parts of a word that do not depend on its guard and operands.

    Words that differ only in these share the result.
    """
    op = _OPCODES[word & 0xFFFF]
    type_ = _TYPES.get(word >> _TYPE & 0xFF)
    if type_ is None:
        raise ValueError(f"type {word >> _TYPE & 0xFF:#x} is not defined")
    spec = TABLE[op]
    modifiers: dict[str, Any] = {m.name: m.decode(word) for m in spec.modifiers}
    bare = Instruction(op, type_, **modifiers)
    destinations = tuple(_places(bare, _destinations(spec)))
    sources = tuple(_places(bare, _sources(spec)))
    used = _used_by_modifiers(op)
    for first, _, _ in (*destinations, *sources):
        used |= _OPERAND_MASK << first
    return _Shape(type_, modifiers, destinations, sources, used)


def _guard(field: int) -> Guard | None:
    if field == _ALWAYS:
        return None
    return Guard(Predicate(field & ~_NEGATED), field & _NEGATED != 0)


def _destinations(spec: OpSpec) -> Iterable[_Field]:
    return zip(spec.dsts, spec.dst_places, strict=False)


def _sources(spec: OpSpec) -> Iterable[_Field]:
    return zip(spec.srcs, spec.src_places, strict=False)


def _places(bare: Instruction, fields: Iterable[_Field]) -> Iterator[_Place]:
    for role, first in fields:
        count = operands_in(role, bare)
        if count:
            yield first, count, operand_bits(role, bare) == 1


def _check_unused(word: int, op: Op, used: int) -> None:
    unused = word & ~used
    if unused:
        first = (unused & -unused).bit_length() - 1
        raise ValueError(f"bit {first}, which {op.name} does not use, is not zero")


@functools.cache
def _fixed_bits(op: Op) -> int:
    """Return the bits of a word that hold opcode, type and modifiers."""
    return _used_by_modifiers(op) & ~(0xFFFF << _GUARD)


@functools.cache
def _used_by_modifiers(op: Op) -> int:
    used: int = _COMMON
    for modifier in TABLE[op].modifiers:
        used |= _mask(modifier)
    return used


def _mask(modifier: Modifier) -> int:
    return ((1 << modifier.width) - 1) << modifier.first


_COMMON: Final = sum(1 << bit for bit in COMMON_BITS)
