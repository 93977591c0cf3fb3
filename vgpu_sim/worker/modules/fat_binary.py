"""Fat binaries: containers that toolkits write, with one program for several architectures.

A fat binary is a header and entries. Each entry has its own header, which states the kind of its
payload (PTX, machine code), the architecture and the compression. All sizes come from a program, so
each one is checked before it is used.
"""

import itertools
import re
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import lz4.block
import zstandard

from facts.wording import list_first
from vgpu_sim.hal.messages import MAX_IMAGE_BYTES, NO_PTX_REMEDY
from vgpu_sim.records import dataclass

MAGIC: Final = b"\x50\xed\x55\xba"
_HEADER: Final = struct.Struct("<4sHHQ")  # magic, version, bytes of this header, bytes after it
_VERSION: Final = 1
# Kind, version, bytes of this header, of the payload, compressed bytes (0: all), offset of
# options, tool's version (minor, major), architecture, offset and length of the name, flags,
# reserved, decompressed bytes.
_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQQQ")
_LZ4: Final = 0x2000
_ZSTD: Final = 0x8000
_MAX_ENTRIES: Final = 4096
_MOST_TRIED: Final = 16
_MOST_NAMED: Final = 32
_MAX_HEADER_BYTES: Final = 1 << 16
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_TARGET: Final = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d+)(\d)([af]?)\b", re.MULTILINE)
_TARGET_IN_FIRST_BYTES: Final = 1 << 16
_SPECIFIC: Final = {b"": 0, b"f": 1, b"a": 2}


class FatBinaryError(ValueError):
    """A damaged fat binary."""


class TooLargeError(FatBinaryError):
    """An entry that decompresses to more bytes than its reader accepts."""


class NoPtxError(Exception):
    """A fat binary without PTX for the device; the message names what it contains and the
    remedy.
    """


class EntryKind(IntEnum):
    """The kinds of payloads that have a name here."""

    PTX = 1
    CUBIN = 2
    LTO_IR = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a fat binary. ``architecture`` is 10 * major + minor."""

    kind: int
    architecture: int
    flags: int
    decompressed_bytes: int
    payload: memoryview

    def decompress(self, limit_bytes: int = MAX_IMAGE_BYTES) -> bytes:
        """Return the payload, decompressed.

        Raises:
            TooLargeError: the payload is larger than ``limit_bytes``.
            FatBinaryError: the payload is damaged.
        """
        if self.flags & _ZSTD:
            return self._decompress_zstd(limit_bytes)
        if self.flags & _LZ4:
            return self._decompress_lz4(limit_bytes)
        if len(self.payload) > limit_bytes:
            raise _too_large("an entry is", limit_bytes)
        return bytes(self.payload)

    def _decompress_zstd(self, limit_bytes: int) -> bytes:
        try:
            # The decompressor allocates what the frame announces; -1 means that it announces none.
            if zstandard.frame_content_size(self.payload) > limit_bytes:
                raise _too_large("an entry is", limit_bytes)
            decompressor = zstandard.ZstdDecompressor(max_window_size=2 * MAX_IMAGE_BYTES)
            # 0 would mean that there is no limit.
            return decompressor.decompress(self.payload, max_output_size=max(limit_bytes, 1))
        except zstandard.ZstdError as err:
            raise FatBinaryError(f"a zstd entry cannot be decompressed: {err}") from err

    def _decompress_lz4(self, limit_bytes: int) -> bytes:
        if not 0 < self.decompressed_bytes <= limit_bytes:
            raise _too_large("an LZ4 entry is empty or", limit_bytes)
        try:
            size = self.decompressed_bytes
            return bytes(lz4.block.decompress(self.payload, uncompressed_size=size))
        except (lz4.block.LZ4BlockError, ValueError) as err:
            raise FatBinaryError(f"an LZ4 entry cannot be decompressed: {err}") from err


def _too_large(subject: str, limit_bytes: int) -> TooLargeError:
    return TooLargeError(f"{subject} larger than {limit_bytes >> 20} MiB")


def parse(data: bytes | memoryview) -> tuple[Entry, ...]:
    """Return the entries of a fat binary.

    Raises:
        FatBinaryError: a header is damaged, or a size exceeds the data.
    """
    if len(data) < _HEADER.size:
        raise FatBinaryError("the data ends inside the header")
    magic, version, header_bytes, body_bytes = _HEADER.unpack_from(data)
    if magic != MAGIC or version != _VERSION or header_bytes < _HEADER.size:
        raise FatBinaryError(f"unknown version {version}")
    if header_bytes + body_bytes > len(data):
        raise FatBinaryError("its size exceeds the data")
    body = memoryview(data)[header_bytes : header_bytes + body_bytes]
    entries = tuple(itertools.islice(_entries(body), _MAX_ENTRIES + 1))
    if len(entries) > _MAX_ENTRIES:
        raise FatBinaryError(f"more than {_MAX_ENTRIES} entries")
    return entries


def _entries(body: memoryview) -> Iterator[Entry]:
    while len(body) >= _ENTRY.size:
        fields = _ENTRY.unpack_from(body)
        kind, _, header_bytes, payload_bytes, compressed_bytes = fields[:5]
        architecture, flags, decompressed_bytes = fields[8], fields[11], fields[13]
        if not _ENTRY.size <= header_bytes <= min(len(body), _MAX_HEADER_BYTES):
            raise FatBinaryError("an entry's header has a size that is out of range")
        if payload_bytes > len(body) - header_bytes:
            raise FatBinaryError("an entry's size exceeds the fat binary")
        if compressed_bytes > payload_bytes:
            raise FatBinaryError("an entry's compressed size exceeds its size")
        end = header_bytes + payload_bytes
        payload = body[header_bytes : header_bytes + (compressed_bytes or payload_bytes)]
        yield Entry(kind, architecture, flags, decompressed_bytes, payload)
        body = body[end:]
    if any(body):
        raise FatBinaryError("the data ends inside an entry's header")


def split(data: memoryview) -> Iterator[memoryview]:
    """Yield the fat binaries in an object's section, which may have padding between them.

    Raises:
        FatBinaryError: something else is in the section, or a size exceeds it.
    """
    at = 0
    while match := _NOT_ZERO.search(data, at):
        at = match.start()
        if bytes(data[at : at + len(MAGIC)]) != MAGIC or len(data) - at < _HEADER.size:
            raise FatBinaryError("a section with fat binaries contains something else")
        _, _, header_bytes, body_bytes = _HEADER.unpack_from(data, at)
        end = at + max(_HEADER.size, header_bytes + body_bytes)
        yield data[at:end]
        at = end


def choose_ptx(
    data: bytes | memoryview, capability: tuple[int, int], limit_bytes: int = MAX_IMAGE_BYTES
) -> bytes:
    """Return the best PTX of a fat binary for a compute capability: that with the highest target
    that runs there, and of several with one architecture the most specific (PTX ISA, ".target":
    ``sm_90a``, then ``sm_90f``, then ``sm_90``).

    If none runs there, but the fat binary has machine code that does, return its first PTX for a
    later device, with this device as its target (ADR 219).

    Raises:
        TooLargeError: a text has more than ``limit_bytes``.
        FatBinaryError: the fat binary is damaged.
        NoPtxError: none of its PTX runs there.
    """
    entries = parse(data)
    architecture = capability[0] * 10 + capability[1]
    candidates = sorted(
        (
            candidate
            for candidate in entries
            if candidate.kind == EntryKind.PTX and candidate.architecture <= architecture
        ),
        key=lambda candidate: -candidate.architecture,
    )
    for _, group in itertools.groupby(
        candidates[:_MOST_TRIED], key=lambda candidate: candidate.architecture
    ):
        entry = _choose_entry(list(group), capability, limit_bytes)
        if entry is not None:
            return _end_at_nul(entry.decompress(limit_bytes))
    if any(_is_machine_code_for(entry, capability) for entry in entries):
        later = _choose_later_ptx(entries, architecture, limit_bytes)
        if later is not None:
            return later
    raise NoPtxError(_describe(entries, capability))


def _choose_entry(
    group: list[Entry], capability: tuple[int, int], limit_bytes: int
) -> Entry | None:
    """Return the most specific entry that runs there.

    A text is decompressed again when it is chosen, so that there is one at a time in memory.
    """
    chosen, rank = None, -1
    for entry in group:
        head = _end_at_nul(entry.decompress(limit_bytes)[:_TARGET_IN_FIRST_BYTES])
        if _fits(head, capability) and _SPECIFIC[_target(head)[2]] > rank:
            chosen, rank = entry, _SPECIFIC[_target(head)[2]]
    return chosen


def _end_at_nul(text: bytes) -> bytes:
    return text.split(b"\0", 1)[0]


def _is_machine_code_for(entry: Entry, capability: tuple[int, int]) -> bool:
    """Return whether an entry is machine code that a real device of a capability executes: code
    for the same major version, and for no later minor version.
    """
    major, minor = divmod(entry.architecture, 10)
    return entry.kind == EntryKind.CUBIN and major == capability[0] and minor <= capability[1]


def _choose_later_ptx(
    entries: tuple[Entry, ...], architecture: int, limit_bytes: int
) -> bytes | None:
    """Return the PTX with the least target above an architecture, with that target replaced by
    the architecture.

    PTX for the features of one device or family (``sm_120a``, ``sm_120f``) is left out: it was
    written for instructions that other devices lack.
    """
    candidates = sorted(
        (
            candidate
            for candidate in entries
            if candidate.kind == EntryKind.PTX and candidate.architecture > architecture
        ),
        key=lambda candidate: candidate.architecture,
    )
    for entry in candidates[:_MOST_TRIED]:
        text = _end_at_nul(entry.decompress(limit_bytes))
        major, _, suffix = _target(text)
        if major and not suffix:
            return _TARGET.sub(b".target sm_%d" % architecture, text, count=1)
    return None


def _target(text: bytes) -> tuple[int, int, bytes]:
    """Return the capability and the suffix of a text's first target; zeros if it has none, so that
    the compiler reports what is wrong.
    """
    match = _TARGET.search(text, 0, _TARGET_IN_FIRST_BYTES)
    return (int(match[1]), int(match[2]), match[3]) if match else (0, 0, b"")


def _fits(text: bytes, capability: tuple[int, int]) -> bool:
    major, minor, suffix = _target(text)
    target = (major, minor)
    if suffix == b"a":
        return target == capability
    return target <= capability and (suffix != b"f" or major == capability[0])


def _describe(entries: tuple[Entry, ...], capability: tuple[int, int]) -> str:
    kinds = sorted({(entry.kind, entry.architecture) for entry in entries})
    contents = list_first([_name(*kind) for kind in kinds], _MOST_NAMED) or "nothing"
    device = f"{capability[0]}.{capability[1]}"
    return (
        f"the fat binary has no PTX for compute capability {device}, but {contents}: "
        f"{NO_PTX_REMEDY}"
    )


def _name(kind: int, architecture: int) -> str:
    match kind:
        case EntryKind.PTX:
            return f"PTX for compute_{architecture}"
        case EntryKind.CUBIN:
            return f"machine code for sm_{architecture}"
        case EntryKind.LTO_IR:
            return f"LTO-IR for lto_{architecture}"
        case _:
            return f"an entry of unknown kind {kind}"
