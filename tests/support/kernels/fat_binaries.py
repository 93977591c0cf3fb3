"""Writes fat binaries as toolkits do, and damaged ones."""

import struct
from typing import Final

import lz4.block
import zstandard

PTX: Final = 1
CUBIN: Final = 2
_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQQQ")
_LZ4: Final = 0x2000
_ZSTD: Final = 0x8000


def ptx_of(architecture: str, body: str = "") -> str:
    """Return a PTX text for an architecture such as ``90a``. Its kernel is ``k_90a``, unless
    ``body`` is its content.
    """
    body = body or f".visible .entry k_{architecture}() {{ ret; }}\n"
    return f".version 8.6\n.target sm_{architecture}\n.address_size 64\n{body}"


def make_entry(
    architecture: int,
    payload: bytes | str,
    *,
    kind: int = PTX,
    compression: str = "none",
    announced_bytes: int | None = None,
) -> bytes:
    """Return an entry. ``announced_bytes`` replaces the size that the header states for the
    decompressed payload.
    """
    data = payload.encode() + b"\0" if isinstance(payload, str) else payload
    flags, stored = 0x41, data
    match compression:
        case "lz4":
            flags, stored = flags | _LZ4, lz4.block.compress(data, store_size=False)
        case "zstd":
            flags, stored = flags | _ZSTD, zstandard.ZstdCompressor().compress(data)
    padded = stored + bytes(-len(stored) % 8)
    size = len(data) if announced_bytes is None else announced_bytes
    compressed = len(stored) if compression != "none" else 0
    decompressed = size if compression != "none" else 0
    fields = (kind, 0x101, 64, len(padded), compressed, 0, 6, 8, architecture, 0, 0)
    return _ENTRY.pack(*fields, flags, 0, decompressed) + padded


def make_fat_binary(*entries: bytes) -> bytes:
    """Return a fat binary of these entries."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
