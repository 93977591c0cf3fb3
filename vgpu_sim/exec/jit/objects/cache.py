"""Object code on disk, keyed by content (for access rights see ADR 15).

Entries are native code, so they are read only by a process with no more rights than their
writer: a worker inside its sandbox reads entries of its own user only. An entry that is damaged,
or that this generator could not have written, is ignored and replaced by the next compilation.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from vgpu_sim.exec import own_files

MAX_ENTRY_BYTES = 64 << 20
_MAGIC = b"tessera-object-3\n"
_HEAD_BYTES = len(_MAGIC) + hashlib.sha256().digest_size


def load(directory: Path, key: str) -> bytes | None:
    """Return the entry stored under ``key``, or None if there is no valid one."""
    data = own_files.read(_path(directory, key), MAX_ENTRY_BYTES)
    if data is None:
        return None
    body = data[_HEAD_BYTES:]
    return body if data[:_HEAD_BYTES] == _head(key, body) else None


def store(directory: Path, key: str, body: bytes) -> None:
    """Write an entry; do nothing if the directory is unwritable, since the kernel can be compiled
    again.

    Raises:
        ValueError: the entry is too large for ``load``.
    """
    data = _head(key, body) + body
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError(f"an entry has {len(data)} bytes; the limit is {MAX_ENTRY_BYTES}")
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    own_files.replace(_path(directory, key), data)


def _head(key: str, body: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(body)
    return _MAGIC + digest.digest()


def _path(directory: Path, key: str) -> Path:
    return directory / f"{key}.object"
