"""What is read of an object file: how long its code is, and the line of each piece of it.

Only what LLVM writes for us: one code section and a DWARF 4 line program for all of it, whose
addresses are offsets in that section.
"""

import struct
from collections.abc import Iterator

_LINE_HEADER = struct.Struct("<IHIBBBbBB")
_VERSION = 4


def sections(object_code: bytes) -> tuple[bytes, bytes]:
    """The code section, and the line program of its code."""
    from llvmlite import binding

    found = binding.ObjectFileRef.from_data(object_code).sections()
    # Each section is the iterator itself, moved on: it must be read before the next one comes.
    data = {section.name(): bytes(section.data()) for section in found if section.size()}
    return data[b".text"], data[b".debug_line"]


def line_rows(program: bytes) -> list[tuple[int, int]]:
    """Code offsets (rising, each once) and the line from each on; 0 where there is none.

    Source: DWARF 4, section 6.2.5. Of several rows for one offset the last one counts.
    """
    rows: dict[int, int] = {}
    for offset, line in _run(program):
        rows[offset] = line
    return sorted(rows.items())


def _run(program: bytes) -> Iterator[tuple[int, int]]:
    length, version, header_bytes, step, _, _, line_base, line_range, opcode_base = (
        _LINE_HEADER.unpack_from(program)
    )
    if version != _VERSION or length + 4 != len(program):
        raise ValueError(f"one line program of DWARF {_VERSION} was expected")
    operand_counts = program[_LINE_HEADER.size : _LINE_HEADER.size + opcode_base - 1]
    place = 10 + header_bytes
    address, line = 0, 1
    while place < len(program):
        opcode = program[place]
        place += 1
        if opcode >= opcode_base:
            advance, lines = divmod(opcode - opcode_base, line_range)
            address, line = address + advance * step, line + line_base + lines
            yield address, line
        elif opcode == 0:  # extended
            size, place = _unsigned(program, place)
            kind = program[place]
            if kind == 1:  # end of the sequence
                yield address, 0
                address, line = 0, 1
            elif kind == 2:  # set address
                address = int.from_bytes(program[place + 1 : place + size], "little")
            place += size
        elif opcode == 1:  # copy
            yield address, line
        elif opcode == 2:  # advance the address
            amount, place = _unsigned(program, place)
            address += amount * step
        elif opcode == 3:  # advance the line
            amount, place = _signed(program, place)
            line += amount
        elif opcode == 8:  # as the last special opcode, without a row
            address += (255 - opcode_base) // line_range * step
        elif opcode == 9:  # fixed advance
            address += int.from_bytes(program[place : place + 2], "little")
            place += 2
        else:  # columns, statement flags and the like
            place = _after(program, place, operand_counts[opcode - 1])


def _after(data: bytes, place: int, count: int) -> int:
    """Where the next thing stands after ``count`` LEB128 numbers."""
    for _ in range(count):
        _, place = _unsigned(data, place)
    return place


def _unsigned(data: bytes, place: int) -> tuple[int, int]:
    """A LEB128 number, and where the next thing stands."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place


def _signed(data: bytes, place: int) -> tuple[int, int]:
    start = place
    value, place = _unsigned(data, start)
    bits = 7 * (place - start)
    return value - (1 << bits if value >> (bits - 1) else 0), place
