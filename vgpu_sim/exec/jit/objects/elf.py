"""The parts of an object file that are read after compilation."""

import struct

from vgpu_sim.exec.jit.objects import line_table
from vgpu_sim.records import dataclass

# ELF-64 Object File Format, version 1.5. Of the header: e_shoff, e_shentsize, e_shnum, e_shstrndx.
# Of a section's header: sh_name, sh_offset, sh_size.
_TABLE = struct.Struct("<40xQ10xHHH")
_SECTION = struct.Struct("<I20xQQ24x")


@dataclass(frozen=True, slots=True)
class CodeSection:
    """The size of an object's code section, and its line table.

    Each of ``rows`` is a code offset and a line. The code from this offset to the offset of the
    next row belongs to the line. The offsets are ascending and unique. Line 0 means that the
    code has no line.
    """

    size_bytes: int
    rows: tuple[tuple[int, int], ...]


def read(object_code: bytes) -> CodeSection:
    """Return the code section of an object, which must have only one.

    If several rows have the same offset, the last one applies (DWARF 4, section 6.2.2).

    Raises:
        ValueError: the object has no code section, or an invalid line table.
    """
    offset, size, count, names = _TABLE.unpack_from(object_code)
    sections = [_SECTION.unpack_from(object_code, offset + size * index) for index in range(count)]
    strings = sections[names][1]
    places: dict[bytes, tuple[int, int]] = {}
    for name, begin, length in sections:
        first = strings + name
        places[object_code[first : object_code.index(b"\0", first)]] = begin, length
    if b".text" not in places:
        raise ValueError("the object has no code section")
    begin, length = places.get(b".debug_line", (0, 0))
    # Relocation is not needed: with a single code section, its offsets are the addresses.
    rows = dict(line_table.rows(object_code[begin : begin + length]))
    return CodeSection(places[b".text"][1], tuple(sorted(rows.items())))
