"""Checks of an object file that another process compiled, before it is linked.

A linker runs initialisers, resolves names, and merges sections by name. Therefore only what the
generator emits is accepted: code, constants and debug information that define one global symbol
and refer to no other. (LLJIT calls every ``__orc_init_func.*`` that an object defines.)
"""

import platform
import struct
from collections.abc import Iterator

# ELF-64 Object File Format, version 1.5.
_HEADER = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE = 1
_MACHINE = {"x86_64": 62, "aarch64": 183}.get(platform.machine(), 0)
_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA = range(5)
_SECTION_NAMES = (".text", ".rodata", ".rela.", ".debug_", ".note.GNU-stack", ".strtab", ".symtab")
_LOCAL = 0
_WRITABLE = 1


def check(object_code: bytes, symbol: str) -> None:
    """Check that an object defines only ``symbol`` and has no side effects when it is linked.

    Raises:
        ValueError: the object contains something else, which the message names.
    """
    try:
        sections = list(_sections(memoryview(object_code)))
        for name, kind, flags, _ in sections:
            if kind > _RELA or flags & _WRITABLE or not name.startswith(_SECTION_NAMES):
                raise ValueError(f"section {name!r} of type {kind} is not allowed in an object")
        tables = [bytes(content) for _, kind, _, content in sections if kind == _SYMTAB]
        strings = [bytes(content) for _, kind, _, content in sections if kind == _STRTAB]
        if len(tables) != 1 or len(strings) != 1:
            raise ValueError("an object must have one symbol table and one string table")
        symbols = list(_global_symbols(tables[0], strings[0]))
    except (struct.error, IndexError, OverflowError) as err:
        raise ValueError("the object file is incomplete") from err
    if symbols != [(symbol, True)]:
        raise ValueError(f"an object must have only the global symbol {symbol!r}, found {symbols}")


def is_of_this_machine(object_code: bytes) -> bool:
    """Return whether an object file is for this kind of processor."""
    return len(object_code) >= _HEADER.size and _HEADER.unpack_from(object_code)[5] == _MACHINE


def _sections(data: memoryview) -> Iterator[tuple[str, int, int, memoryview]]:
    header = _HEADER.unpack_from(data)
    magic, kind, machine = header[0], header[4], header[5]
    offset, size, count, names = header[9], header[14], header[15], header[16]
    if magic != b"\x7fELF" or (kind, machine) != (_RELOCATABLE, _MACHINE) or size != _SECTION.size:
        raise ValueError("the file is not an object file for this machine")
    rows = [_SECTION.unpack_from(data, offset + index * size) for index in range(count)]
    strings = bytes(_content(data, rows[names]))
    for row in rows:
        if row[1] != _NULL:
            yield _name(strings, row[0]), row[1], row[2], _content(data, row)


def _content(data: memoryview, row: tuple[int, ...]) -> memoryview:
    start, end = row[4], row[4] + row[5]
    if end > len(data):
        raise ValueError("a section extends beyond the end of its file")
    return data[start:end]


def _global_symbols(table: bytes, strings: bytes) -> Iterator[tuple[str, bool]]:
    for name, info, _, section, _, _ in _SYMBOL.iter_unpack(table):
        text = _name(strings, name)
        if info >> 4 != _LOCAL or text.startswith("__orc_"):
            yield text, section != 0


def _name(strings: bytes, offset: int) -> str:
    return strings[offset : strings.index(b"\0", offset)].decode("ascii")
