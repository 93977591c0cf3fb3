"""The 128-bit words of a function and its literal pool.

A word is little-endian::

    byte  0      1       2     3         4-5        6-7    8-9  10-11  12-13  14-15
          index  family  type  selector  modifiers  guard  dst  a      b      c        most
                                         q                 p    a      b      c        SETP
                                                           data address displacement   LD, ST
                                                           0    0      target          BRA

``selector`` is the source type plus one (CVT), the special register (S2R), or comparison,
combination and FTZ (SETP). ``modifiers`` has one layout for all families. An operand below 0x8000
is a register or predicate; from 0x8000 on it names an entry of the function's pool of 64-bit
entries: a literal, or an address that a relocation fills in. The values of a vector are named by a
pool entry too, which holds four 16-bit operands; so they may be any registers, and nothing need be
moved or renumbered for them. Unused fields are zero; a sink (``_``) is 0xffff.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, TypeVar

from vgpu_sim.isa.errors import ContainerError
from vgpu_sim.isa.instruction import (
    Destination,
    Guard,
    Instruction,
    Operand,
    Predicate,
)
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.pool import PoolReader, PoolWriter
from vgpu_sim.isa.rules import destination_roles, operand_bits, source_roles
from vgpu_sim.isa.spec import Role
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import (
    BoolOp,
    Compare,
    DataType,
    MulMode,
    Rounding,
    Space,
    SpecialRegister,
)
from vgpu_sim.isa.verify import MAXIMUM_WORDS

_E = TypeVar("_E", bound=IntEnum)

WORD_BYTES: Final = 16
_ALWAYS, _NEGATED = 0x7FFF, 0x8000
_HEADER = struct.Struct("<HBBHH")
_ARITHMETIC = struct.Struct("<HHHH")
_ACCESS = struct.Struct("<HHi")
_BRANCH = struct.Struct("<HHI")


@dataclass(frozen=True, slots=True)
class EncodedCode:
    """``relocations`` maps pool indices to variable names; such entries hold the addend."""

    words: bytes
    pool: tuple[int, ...]
    relocations: dict[int, str]


def encode(function: Function) -> EncodedCode:
    """Encode the code of a function that ``verify`` accepts.

    Raises:
        InvalidFunction: when it has more distinct literals than the pool may hold.
    """
    pool = PoolWriter(function.name)
    words = bytearray()
    for instruction in function.code:
        words += _encode_word(instruction, pool)
    return EncodedCode(bytes(words), tuple(pool.entries), pool.relocations)


def decode(
    words: bytes, pool: tuple[int, ...], relocations: Mapping[int, str]
) -> tuple[Instruction, ...]:
    """Decode words; operands are checked to exist by ``verify``, which must run next.

    Raises:
        ContainerError: naming the word and what is wrong with it.
    """
    if len(words) % WORD_BYTES:
        raise ContainerError(f"{len(words)} bytes of code are not whole words")
    if len(words) > MAXIMUM_WORDS * WORD_BYTES:
        raise ContainerError(f"{len(words)} bytes of code are too many for a function")
    reader = PoolReader(pool, relocations)
    result = []
    for word in range(len(words) // WORD_BYTES):
        try:
            result.append(_decode_word(words[word * WORD_BYTES :][:WORD_BYTES], reader))
        except ValueError as error:
            raise ContainerError(f"word {word}: {error}") from error
    return tuple(result)


def _encode_word(instruction: Instruction, pool: PoolWriter) -> bytes:
    op, guard = instruction.op, _ALWAYS
    if instruction.guard is not None:
        guard = instruction.guard.predicate.index
        guard |= _NEGATED if instruction.guard.negated else 0
    selector, modifiers = _selector(instruction), _modifiers(instruction)
    if op is Op.BRA:
        tail = _BRANCH.pack(0, 0, instruction.target)
    elif op is Op.LD:
        address = pool.operand(instruction.srcs[0]) if instruction.srcs else 0
        tail = _ACCESS.pack(pool.vector(instruction.dsts), address, instruction.displacement)
    elif op is Op.ST:
        address = pool.operand(instruction.srcs[0])
        tail = _ACCESS.pack(pool.vector(instruction.srcs[1:]), address, instruction.displacement)
    else:
        first = pool.operand(instruction.dsts[0]) if instruction.dsts else 0
        if op is Op.SETP:
            modifiers = pool.operand(instruction.dsts[1])
        sources = [pool.operand(source) for source in instruction.srcs]
        tail = _ARITHMETIC.pack(first, *sources, *[0] * (3 - len(sources)))
    return _HEADER.pack(op, instruction.type, selector, modifiers, guard) + tail


def _selector(instruction: Instruction) -> int:
    if instruction.compare is not None:
        return instruction.compare | instruction.combine << 4 | instruction.ftz << 6
    if instruction.sreg is not None:
        return instruction.sreg
    return 0 if instruction.source_type is None else instruction.source_type + 1


def _modifiers(instruction: Instruction) -> int:
    return (
        instruction.mode
        | instruction.rounding << 2
        | instruction.ftz << 6
        | instruction.saturate << 7
        | instruction.space << 8
        | (instruction.vector.bit_length() - 1) << 11
        | instruction.volatile << 13
        | instruction.read_only << 14
        | instruction.uniform << 15
    )


def _decode_word(word: bytes, pool: PoolReader) -> Instruction:
    opcode, type_, selector, modifiers, guard_field = _HEADER.unpack_from(word)
    op = _member(Op, opcode, "opcode")
    dtype = _member(DataType, type_, "type")
    guard = None
    if guard_field != _ALWAYS:
        guard = Guard(Predicate(guard_field & ~_NEGATED), guard_field & _NEGATED != 0)
    if op is Op.SETP:
        return _decode_setp(word, dtype, selector, modifiers, guard, pool)
    bare = Instruction(
        op,
        dtype,
        guard=guard,
        source_type=_source_type(op, selector),
        sreg=_member(SpecialRegister, selector, "special register") if op is Op.S2R else None,
        mode=_member(MulMode, modifiers & 3, "mode"),
        rounding=_member(Rounding, modifiers >> 2 & 15, "rounding"),
        ftz=modifiers >> 6 & 1 == 1,
        saturate=modifiers >> 7 & 1 == 1,
        space=_member(Space, modifiers >> 8 & 7, "space"),
        vector=1 << (modifiers >> 11 & 3),
        volatile=modifiers >> 13 & 1 == 1,
        read_only=modifiers >> 14 & 1 == 1,
        uniform=modifiers >> 15 == 1,
    )
    if op is Op.BRA:
        first, second, target = _BRANCH.unpack_from(word, 8)
        _require_zero(first, second)
        return replace(bare, target=target)
    if op in (Op.LD, Op.ST):
        return _decode_access(word, bare, pool)
    fields = _ARITHMETIC.unpack_from(word, 8)
    dsts, srcs = _operands(bare, fields[0], fields[1:], pool)
    return replace(bare, dsts=dsts, srcs=srcs)


def _decode_setp(
    word: bytes,
    type_: DataType,
    selector: int,
    second: int,
    guard: Guard | None,
    pool: PoolReader,
) -> Instruction:
    _require_zero(selector >> 7)
    bare = Instruction(
        Op.SETP,
        type_,
        guard=guard,
        compare=_member(Compare, selector & 15, "comparison"),
        combine=_member(BoolOp, selector >> 4 & 3, "combination"),
        ftz=selector >> 6 & 1 == 1,
    )
    fields = _ARITHMETIC.unpack_from(word, 8)
    (first,), srcs = _operands(bare, fields[0], fields[1:], pool)
    return replace(bare, dsts=(first, pool.destination(second, predicate=True)), srcs=srcs)


def _decode_access(word: bytes, bare: Instruction, pool: PoolReader) -> Instruction:
    data, address, displacement = _ACCESS.unpack_from(word, 8)
    elements = pool.vector(data, bare.vector)
    base: tuple[Operand, ...] = ()
    if Role.ADDRESS in source_roles(bare, TABLE[bare.op]):
        base = (pool.source(address, predicate=False),)
    else:
        _require_zero(address)
    if bare.op is Op.LD:
        dsts = tuple(pool.destination(field, predicate=False) for field in elements)
        return replace(bare, dsts=dsts, srcs=base, displacement=displacement)
    values = tuple(pool.source(field, predicate=False) for field in elements)
    return replace(bare, srcs=base + values, displacement=displacement)


def _operands(
    bare: Instruction, first: int, rest: tuple[int, ...], pool: PoolReader
) -> tuple[tuple[Destination, ...], tuple[Operand, ...]]:
    spec = TABLE[bare.op]
    roles = source_roles(bare, spec)
    _require_zero(*rest[len(roles) :])
    srcs = tuple(
        pool.source(field, operand_bits(role, bare) == 1)
        for role, field in zip(roles, rest, strict=False)
    )
    targets = destination_roles(bare, spec)
    if not targets:
        _require_zero(first)
        return (), srcs
    return (pool.destination(first, operand_bits(targets[0], bare) == 1),), srcs


def _source_type(op: Op, selector: int) -> DataType | None:
    if op is Op.CVT:
        return _member(DataType, selector - 1, "source type")
    if op is not Op.S2R:
        _require_zero(selector)
    return None


def _require_zero(*fields: int) -> None:
    if any(fields):
        raise ValueError("an unused field is not zero")


def _member(kind: type[_E], value: int, what: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{what} {value:#x} is not defined") from None
