"""The literal pool: conversion between operand fields and operands (layout: see ``encoding``)."""

import struct
from collections.abc import Mapping
from typing import Final

from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.instruction import Destination, Literal, Operand, Predicate, Register, Symbol

POOL_BIT: Final = 0x8000
SINK: Final = 0xFFFF
MAXIMUM_POOL: Final = 0x7FFF  # 0xffff, which would be the next operand, is the sink
_VECTOR_OPERANDS = 4
_ENTRY = struct.Struct("<Q")


def _pack(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


class PoolWriter:
    """Collects the entries of a literal pool. Each distinct entry gets an index, in order of first
    use.
    """

    def __init__(self, function: str) -> None:
        self.entries: list[int] = []
        self.relocations: dict[int, str] = {}
        self._function = function
        self._known: dict[Operand | tuple[int, ...], int] = {}

    def operand(self, operand: Operand | None) -> int:
        """Return the 16-bit field that represents an operand. If the operand is a literal or an
        address, add it to the pool.
        """
        if operand is None:
            return SINK
        if isinstance(operand, Register | Predicate):
            return operand.index
        if isinstance(operand, Literal):
            return self._add(operand, [operand.bits], None)
        return self._add(operand, [operand.addend & (1 << 64) - 1], operand.name)

    def vector(self, operands: tuple[Operand | None, ...]) -> int:
        """Return the 16-bit field that represents a vector of 1, 2, 4 or 8 operands.

        The pool entry of a vector is added if it is new; 8 operands use two consecutive entries.
        """
        if len(operands) == 1:
            return self.operand(operands[0])
        values = [self.operand(operand) for operand in operands]
        values += [0] * (-len(values) % _VECTOR_OPERANDS)
        entries = [value for (value,) in _ENTRY.iter_unpack(_pack(values))]
        return self._add(tuple(values), entries, None)

    def _add(self, key: Operand | tuple[int, ...], entries: list[int], symbol: str | None) -> int:
        if key not in self._known:
            if len(self.entries) + len(entries) > MAXIMUM_POOL:
                reason = f"more than {MAXIMUM_POOL} distinct literals and vectors"
                raise InvalidFunction(self._function, None, reason)
            self._known[key] = len(self.entries)
            if symbol is not None:
                self.relocations[len(self.entries)] = symbol
            self.entries += entries
        return POOL_BIT | self._known[key]


class PoolReader:
    """Converts operand fields of words back to operands.

    The methods raise ValueError without the position of the word; the caller adds the position.
    """

    def __init__(self, pool: tuple[int, ...], relocations: Mapping[int, str]) -> None:
        self._pool = pool
        self._relocations = relocations

    def source(self, field: int, predicate: bool) -> Operand:
        """Return the operand that a source field represents."""
        if field < POOL_BIT:
            return Predicate(field) if predicate else Register(field)
        index = field & ~POOL_BIT
        value = self._entry(index)
        if index not in self._relocations:
            return Literal(value)
        return Symbol(self._relocations[index], value - (1 << 64 if value >> 63 else 0))

    def destination(self, field: int, predicate: bool) -> Destination:
        """Return the destination that a field represents; None for a sink."""
        if field == SINK:
            return None
        if field >= POOL_BIT:
            raise ValueError("a literal cannot be a destination")
        return Predicate(field) if predicate else Register(field)

    def vector(self, field: int, count: int) -> tuple[int, ...]:
        """Return the fields of the ``count`` elements of the vector that ``field`` represents."""
        if count == 1:
            return (field,)
        index = field & ~POOL_BIT
        indices = range(index, index - -count // _VECTOR_OPERANDS)
        if field < POOL_BIT or any(entry in self._relocations for entry in indices):
            raise ValueError("the elements of a vector must be pool entries without relocations")
        packed = b"".join(_ENTRY.pack(self._entry(entry)) for entry in indices)
        values = struct.unpack(f"<{len(packed) // 2}H", packed)
        if any(values[count:]):
            raise ValueError("unused elements of a vector must be zero")
        return values[:count]

    def _entry(self, index: int) -> int:
        if index >= len(self._pool):
            raise ValueError(
                f"pool entry {index} does not exist: the pool has {len(self._pool)} entries"
            )
        return self._pool[index]
