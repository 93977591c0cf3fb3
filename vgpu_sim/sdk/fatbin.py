"""Containers of device code in host objects: fat binaries with PTX, and our own with bitcode.

A fat binary (public facts of the format, as cuda-binutils print them) is a header of 16 bytes and
entries of 64 bytes each, followed by their payload. Objects of separate compilation contain LLVM
bitcode in a container of our own in the section ``__nv_relfatbin``, where NVIDIA's linker would
find a fat binary. No other tool reads it: ``tessera cc`` links it.
"""

import struct
from collections.abc import Iterator, Mapping

from vgpu_sim.sdk.errors import CompileError

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX = 1
_FORMAT = 0x0101
_FLAGS = 0x41  # 64-bit addresses, made on Linux
_ALIGNMENT = 8

BITCODE_MAGIC = b"TSRBITC1"
_BITCODE = struct.Struct("<8sIIQ16s32s")  # magic, header bytes, unused, payload bytes, arch, id


def pack_ptx(images: Mapping[str, bytes]) -> bytes:
    """Return a fat binary with one PTX entry for each architecture, such as ``90`` or ``90a``."""
    entries = b""
    for architecture, text in images.items():
        payload = text + b"\0"
        payload += bytes(-len(payload) % _ALIGNMENT)
        number = int(architecture.rstrip("af"))
        entries += _ENTRY.pack(
            _PTX, _FORMAT, _ENTRY.size, len(payload), 0, 0, 0, 8, number, 0, 0, _FLAGS, 0, 0
        )
        entries += payload
    return _HEADER.pack(_MAGIC, 1, _HEADER.size, len(entries)) + entries


def pack_bitcode(images: Mapping[str, bytes], identity: str) -> bytes:
    """Return the container of one translation unit's bitcode, one part for each architecture."""
    out = b""
    for architecture, bitcode in images.items():
        out += _BITCODE.pack(
            BITCODE_MAGIC,
            _BITCODE.size,
            0,
            len(bitcode),
            architecture.encode(),
            identity.encode(),
        )
        out += bitcode + bytes(-len(bitcode) % _ALIGNMENT)
    return out


def unpack_bitcode(section: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield architecture and bitcode of every container in a section.

    Raises:
        CompileError: the section of the file ``name`` contains something else, such as the
            relocatable device code of nvcc.
    """
    at = 0
    while at < len(section):
        if section[at : at + 8] == bytes(8):  # the linker's or the assembler's padding
            at += 8
            continue
        if section[at : at + 8] != BITCODE_MAGIC or at + _BITCODE.size > len(section):
            raise CompileError(
                f"{name}: relocatable device code of another compiler; compile the source again"
                " with `tessera cc -dc`"
            )
        _, header, _, length, architecture, _ = _BITCODE.unpack_from(section, at)
        if header != _BITCODE.size or length > len(section) - at - header:
            raise CompileError(f"{name}: section __nv_relfatbin is truncated")
        yield (
            architecture.rstrip(b"\0").decode("ascii", "replace"),
            section[at + header : at + header + length],
        )
        at += header + length + (-length % _ALIGNMENT)
