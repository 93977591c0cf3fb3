"""What is read of an object file when it has been compiled."""

import io
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile


@dataclass(frozen=True, slots=True)
class CodeSection:
    """How long the code is, and the line of each piece of it.

    ``rows``: code offsets (rising, each once) and the line from each on; 0 where there is none.
    """

    size_bytes: int
    rows: tuple[tuple[int, int], ...]


def read(object_code: bytes) -> CodeSection:
    """Read an object with one code section.

    Of several rows for one offset the last one counts (DWARF 4, section 6.2.2).
    """
    elf = ELFFile(io.BytesIO(object_code))
    # Relocating would fail on .debug_frame; code is one section, so offsets need none.
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
