"""The parts of an object file that are read after compilation."""

import io
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile


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
    """
    elf = ELFFile(io.BytesIO(object_code))
    # Relocation would fail on .debug_frame; with a single code section, offsets do not need it.
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    rows: dict[int, int] = {}
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        for entry in program.get_entries() if program else ():
            state = entry.state
            if state is not None:
                rows[state.address] = 0 if state.end_sequence else state.line
    code = elf.get_section_by_name(".text")
    assert code is not None
    return CodeSection(code["sh_size"], tuple(sorted(rows.items())))
