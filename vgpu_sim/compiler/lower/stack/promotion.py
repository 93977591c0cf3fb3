"""Promotes local variables that are accessed only by name to registers.

A piece of such a variable that all accesses name as a whole, by a constant offset, need not be
in memory: mostly arguments and results of calls. Pieces that overlap partially stay in memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.symbols.frames import LocalVariable
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Destination,
    Instruction,
    Op,
    Operand,
    Register,
    Space,
    Symbol,
)
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a local variable: ``size`` bytes of it."""

    variable: str
    offset: int
    size: int


def promote(builder: Builder, variables: Iterable[LocalVariable]) -> None:
    """Replace accesses to local variables by moves, where a register can hold the accessed
    piece.
    """
    known = {variable.name: variable for variable in variables}
    if not known:
        return
    registers: dict[Piece, Register] = {}
    for piece in _promotable(builder.code, known):
        with builder.use_owner(known[piece.variable].owner):
            registers[piece] = builder.new_register(max(16, 8 * piece.size))
    if registers:
        builder.rewrite(lambda _, instruction: _without_memory(instruction, registers))


def symbol_of_access(instruction: Instruction) -> Symbol | None:
    """Return the variable that an access to local memory names; None for other instructions."""
    if not EFFECTS[instruction.op].accesses or instruction.space is not Space.LOCAL:
        return None
    base = instruction.srcs[0]
    return base if isinstance(base, Symbol) else None


def _promotable(code: list[Instruction], known: dict[str, LocalVariable]) -> Iterator[Piece]:
    pieces: dict[str, set[Piece]] = defaultdict(set)
    lost: set[str] = set()
    for instruction in code:
        base = symbol_of_access(instruction)
        other_sources = instruction.srcs if base is None else instruction.srcs[1:]
        lost.update(source.name for source in other_sources if isinstance(source, Symbol))
        if base is None or base.name not in known:
            continue
        named = list(_pieces(instruction, base))
        variable, first = known[base.name], named[0]
        whole = instruction.vector * first.size
        inside = first.offset >= 0 and first.offset + whole <= variable.size
        if inside and first.offset % whole == 0 and variable.align % whole == 0:
            pieces[base.name].update(named)
        else:  # it faults, or might, depending on the variable's place
            lost.add(base.name)
    for name in sorted(pieces.keys() - lost):
        ordered = sorted(pieces[name], key=lambda piece: (piece.offset, piece.size))
        end = 0
        for place, piece in enumerate(ordered):
            following = ordered[place + 1].offset if place + 1 < len(ordered) else known[name].size
            if end <= piece.offset and piece.offset + piece.size <= following:
                yield piece
            end = max(end, piece.offset + piece.size)


def _pieces(instruction: Instruction, base: Symbol) -> Iterator[Piece]:
    size = instruction.type.bytes
    for index in range(instruction.vector):
        yield Piece(base.name, base.addend + instruction.displacement + index * size, size)


def _without_memory(
    instruction: Instruction, registers: dict[Piece, Register]
) -> list[Instruction]:
    base = symbol_of_access(instruction)
    if base is None:
        return [instruction]
    pieces = list(_pieces(instruction, base))
    if not any(piece in registers for piece in pieces):
        return [instruction]
    if instruction.op is Op.LD:
        return [
            _load(instruction, base, index, piece, destination, registers)
            for index, (piece, destination) in enumerate(zip(pieces, instruction.dsts, strict=True))
            if destination is not None
        ]
    return [
        _store(instruction, base, index, piece, source, registers)
        for index, (piece, source) in enumerate(zip(pieces, instruction.srcs[1:], strict=True))
    ]


def _alone(instruction: Instruction, index: int) -> Instruction:
    """Return an access to one element of a vector access."""
    step = index * instruction.type.bytes
    return replace(instruction, vector=1, displacement=instruction.displacement + step)


def _load(
    instruction: Instruction,
    base: Symbol,
    index: int,
    piece: Piece,
    destination: Destination,
    registers: dict[Piece, Register],
) -> Instruction:
    register, type_ = registers.get(piece), instruction.type
    if register is None:
        return replace(_alone(instruction, index), dsts=(destination,))
    if type_.bytes > 1:
        return _move(instruction, type_, destination, register)
    wide, narrow = (DataType.S16, DataType.S8) if type_.is_signed else (DataType.U16, DataType.U8)
    return _move(instruction, wide, destination, register, narrow)


def _store(
    instruction: Instruction,
    base: Symbol,
    index: int,
    piece: Piece,
    source: Operand,
    registers: dict[Piece, Register],
) -> Instruction:
    register = registers.get(piece)
    if register is None:
        return replace(_alone(instruction, index), srcs=(base, source))
    if piece.size > 1:
        return _move(instruction, instruction.type, register, source)
    return _move(instruction, DataType.U16, register, source, DataType.U8)


def _move(
    instruction: Instruction,
    type_: DataType,
    to: Destination,
    source: Operand,
    source_type: DataType | None = None,
) -> Instruction:
    """Return a move under the guard of an access, or (``source_type``) a conversion."""
    op = Op.MOV if source_type is None else Op.CVT
    return Instruction(op, type_, (to,), (source,), instruction.guard, source_type=source_type)
