"""The rows of DWARF line programs (DWARF 4, section 6.2), as LLVM writes them into an object.

Only addresses and lines are kept: an object comes from one text, so it has one file. Each compiled
kernel is read, and a general library takes as long for one as LLVM needs for a quarter of its code.
"""

import struct
from collections.abc import Iterator

_UNIT = struct.Struct("<IHI")  # unit_length, version, header_length
_HEADER = struct.Struct("<BBBbBB")
_VERSION = 4
_ADDRESS = struct.Struct("<Q")
_FIXED_STEP = struct.Struct("<H")

_EXTENDED, _COPY, _ADVANCE_PC, _ADVANCE_LINE = range(4)
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


def rows(section: bytes) -> Iterator[tuple[int, int]]:
    """Yield the address and the line of each row of a ``.debug_line`` section. The row that ends a
    sequence has line 0. Addresses are those of the file, before relocation.

    Raises:
        ValueError: the section has another version of DWARF, or is incomplete.
    """
    place = 0
    try:
        while place < len(section):
            length, version, header_length = _UNIT.unpack_from(section, place)
            if version != _VERSION:
                raise ValueError(f"a line table of DWARF {version}, expected DWARF {_VERSION}")
            begin = place + _UNIT.size
            place += 4 + length
            yield from _program(section, begin, begin + header_length, place)
    except (struct.error, IndexError) as err:
        raise ValueError("the line table is incomplete") from err


def _program(data: bytes, header: int, place: int, end: int) -> Iterator[tuple[int, int]]:
    """Run the program from ``place`` to ``end``, whose header has the fields at ``header``."""
    step, _, _, line_base, line_range, opcode_base = _HEADER.unpack_from(data, header)
    operands = data[header + _HEADER.size :]  # of each standard opcode from 1 on, how many
    constant = (255 - opcode_base) // line_range * step
    address, line = 0, 1
    while place < end:
        opcode = data[place]
        place += 1
        if opcode >= opcode_base:
            advance, change = divmod(opcode - opcode_base, line_range)
            address += advance * step
            line += line_base + change
            yield address, line
        elif opcode == _EXTENDED:
            size, place = _unsigned(data, place)
            kind = data[place]
            if kind == _END_SEQUENCE:
                yield address, 0
                address, line = 0, 1
            elif kind == _SET_ADDRESS:
                (address,) = _ADDRESS.unpack_from(data, place + 1)
            place += size
        elif opcode == _COPY:
            yield address, line
        elif opcode == _ADVANCE_PC:
            advance, place = _unsigned(data, place)
            address += advance * step
        elif opcode == _ADVANCE_LINE:
            change, place = _signed(data, place)
            line += change
        elif opcode == _CONST_ADD_PC:
            address += constant
        elif opcode == _FIXED_ADVANCE_PC:
            address += _FIXED_STEP.unpack_from(data, place)[0]
            place += _FIXED_STEP.size
        else:
            for _ in range(operands[opcode - 1]):
                _, place = _unsigned(data, place)


def _unsigned(data: bytes, place: int) -> tuple[int, int]:
    """Decode an unsigned LEB128 number; return it, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place


def _signed(data: bytes, place: int) -> tuple[int, int]:
    """Decode a signed LEB128 number; return it, and the place after it."""
    value, end = _unsigned(data, place)
    bits = 7 * (end - place)
    return (value - (1 << bits) if value >> (bits - 1) else value), end
