"""From a program counter in generated code to the words it may belong to.

The line of an instruction is its word + 1. LLVM folds a load into the arithmetic that consumes it
and gives the pair the arithmetic's line, so each arithmetic word comes with the loads it reads; a
load shared by several words has no line at all.
"""

import bisect
import io
from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_sim.exec.jit.ssa import Merge, Operation, Phi, Source, SsaFunction, Value
from vgpu_sim.isa import Op, Space

LoadsRead = tuple[tuple[int, tuple[int, ...]], ...]

_SECTIONS = (".text", ".ltext")


def loads_read(ssa: SsaFunction) -> LoadsRead:
    """For each word that reads the result of loads, the words of those loads."""
    table: dict[int, set[int]] = {}
    for block in ssa.blocks.values():
        for node in block.nodes:
            if isinstance(node, Operation):
                words = {w for s in node.sources for w in _load_words(ssa, s, depth=3)}
                if words:
                    table.setdefault(node.word, set()).update(words)
    return tuple((word, tuple(sorted(words))) for word, words in sorted(table.items()))


def _load_words(ssa: SsaFunction, source: Source, depth: int) -> Iterator[int]:
    node = ssa.definition.get(source) if isinstance(source, Value) else None
    if node is None or not depth:
        return
    if isinstance(node, Operation):
        if node.instruction.op is Op.LD and node.instruction.space is not Space.PARAM:
            yield node.word
    elif isinstance(node, Merge):
        for one in (node.new, node.old):
            yield from _load_words(ssa, one, depth - 1)
    elif isinstance(node, Phi):
        for one in node.arguments.values():
            yield from _load_words(ssa, one, depth - 1)


@dataclass(frozen=True, slots=True)
class LineTable:
    """Sorted code offsets and the line from each on (0: none)."""

    offsets: tuple[int, ...]
    lines: tuple[int, ...]

    def line(self, offset: int) -> int:
        """The line of the instruction at a code offset; 0 where there is none."""
        place = bisect.bisect_right(self.offsets, offset) - 1
        return self.lines[place] if place >= 0 else 0


def read(object_code: bytes) -> LineTable:
    """Read an object's line table. Imports pyelftools (some 20 ms), so only when needed."""
    from elftools.elf.elffile import ELFFile

    # Relocating would fail on .debug_frame; code is one section, so offsets need none.
    dwarf = ELFFile(io.BytesIO(object_code)).get_dwarf_info(relocate_dwarf_sections=False)
    rows: dict[int, int] = {}
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        for entry in program.get_entries() if program else ():
            state = entry.state
            if state is not None:
                rows[state.address] = 0 if state.end_sequence else state.line
    ordered = sorted(rows.items())
    return LineTable(tuple(o for o, _ in ordered), tuple(line for _, line in ordered))


def code_section(object_code: bytes, symbol: str) -> tuple[int, int]:
    """The offset of ``symbol`` in its code section and that section's size, in bytes."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(object_code))
    symbols = elf.get_section_by_name(".symtab")
    assert isinstance(symbols, SymbolTableSection)
    for found in symbols.get_symbol_by_name(symbol) or ():
        section = elf.get_section(found["st_shndx"])
        if section.name in _SECTIONS:
            return int(found["st_value"]), int(section["sh_size"])
    raise KeyError(symbol)
