"""The frame of a container: header, digest and a table of typed sections.

::

    header    8s magic  u16 major  u16 minor  u32 sections  16s digest  u64 file size
    table     u32 kind  u32 owner  u64 offset  u64 size         (one per section)
    sections  at multiples of 16 bytes, in the table's order, zeros between

``owner`` is the index of the function that a section belongs to, or 0xffffffff. The digest is
BLAKE2b-128 of the whole file without the digest itself.
"""

import hashlib
import struct
from enum import IntEnum
from typing import Final

from vgpu_sim.isa.errors import ContainerError

# As in PNG: damage by text modes and 7-bit paths is detected at once.
MAGIC: Final = b"\x89TISA\r\n\x1a"
MAJOR: Final = 4
"""The version of the container format.

Version 1 had one layout of modifiers for all families; version 2 had neither refused kernels nor
addresses in variables; version 3 had no required clusters.
"""
MINOR: Final = 0
MODULE_OWNER: Final = 0xFFFF_FFFF
MAXIMUM_FILE_BYTES: Final = 1 << 30
MAXIMUM_SECTIONS: Final = 1 << 19
_ALIGNMENT = 16
_HEADER = struct.Struct("<8sHHI16sQ")
_ENTRY = struct.Struct("<IIQQ")
_DIGEST = slice(16, 32)


class Section(IntEnum):
    """The type of a section in a module's container.

    Types below 16 belong to the module, which has one section of each of them. The other types
    belong to functions: each function has one section of each of them.
    """

    MODULE = 1
    STRINGS = 2
    VARIABLES = 3
    INITIAL_DATA = 4
    SOURCE = 5
    REFUSED = 6
    ADDRESSES = 7
    FUNCTION = 16
    REGISTERS = 17
    PARAMETERS = 18
    CODE = 19
    LITERALS = 20
    RELOCATIONS = 21
    LINES = 22
    PHYSICAL = 23


MODULE_SECTIONS: Final = tuple(kind for kind in Section if kind < Section.FUNCTION)
FUNCTION_SECTIONS: Final = tuple(kind for kind in Section if kind >= Section.FUNCTION)
Sections = dict[tuple[Section, int], bytes]


def is_container(data: bytes) -> bool:
    """True if the bytes begin like a container of any version."""
    return data[: len(MAGIC)] == MAGIC


def pack(sections: Sections) -> bytes:
    """Return the bytes of a container with these sections, including header and digest."""
    offset = _align(_HEADER.size + _ENTRY.size * len(sections))
    table, body = bytearray(), bytearray()
    for (kind, owner), content in sections.items():
        table += _ENTRY.pack(kind, owner, offset + len(body), len(content))
        body += content.ljust(_align(len(content)), b"\0")
    table = table.ljust(offset - _HEADER.size, b"\0")
    size = offset + len(body)
    header = _HEADER.pack(MAGIC, MAJOR, MINOR, len(sections), bytes(16), size)
    return seal(header + bytes(table) + bytes(body))


def seal(data: bytes) -> bytes:
    """Return the container ``data`` with its digest filled in."""
    return data[: _DIGEST.start] + _digest(data) + data[_DIGEST.stop :]


def unpack(data: bytes) -> Sections:
    """Split the bytes of a container into its sections.

    Raises:
        ContainerError: the file is not intact, or of another version.
    """
    if not is_container(data):
        raise ContainerError("not a container: the magic number is missing")
    if not _HEADER.size <= len(data) <= MAXIMUM_FILE_BYTES:
        raise ContainerError(f"{len(data)} bytes are too few or too many for a container")
    _, major, minor, count, digest, size = _HEADER.unpack_from(data)
    if (major, minor) != (MAJOR, MINOR):
        raise ContainerError(
            f"the container has version {major}.{minor}, but this Tessera reads"
            f" {MAJOR}.{MINOR}: compile it again"
        )
    if size != len(data):
        raise ContainerError(f"the file has {len(data)} bytes, but its header states {size}")
    if digest != _digest(data):
        raise ContainerError("the digest does not match: the file is damaged")
    if count > MAXIMUM_SECTIONS or _HEADER.size + _ENTRY.size * count > len(data):
        raise ContainerError(f"{count} sections do not fit into {len(data)} bytes")
    return _read_table(data, count)


def _read_table(data: bytes, count: int) -> Sections:
    sections: Sections = {}
    end = _HEADER.size + _ENTRY.size * count
    for index in range(count):
        kind, owner, offset, size = _ENTRY.unpack_from(data, _HEADER.size + _ENTRY.size * index)
        where = f"section {index}"
        try:
            key = Section(kind), owner
        except ValueError:
            raise ContainerError(f"{where}: kind {kind} is not defined") from None
        if key in sections:
            raise ContainerError(f"{where}: {key[0].name} of owner {owner} occurs twice")
        if offset != _align(end) or size > len(data) - offset:
            raise ContainerError(
                f"{where}: its {size} bytes at offset {offset} do not follow the section before"
                " it, or exceed the file"
            )
        if any(data[end:offset]):
            raise ContainerError(f"{where}: the padding before it is not zero")
        sections[key] = data[offset : offset + size]
        end = offset + size
    if len(data) != _align(end) or any(data[end:]):
        raise ContainerError("unexpected bytes after the last section")
    return sections


def _digest(data: bytes) -> bytes:
    state = hashlib.blake2b(data[: _DIGEST.start], digest_size=16)
    state.update(data[_DIGEST.stop :])
    return state.digest()


def _align(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
