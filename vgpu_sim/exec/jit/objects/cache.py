"""Object code on disk, keyed by content (who may read what: docs/adr/0015-object-cache.md).

Entries are native code, so they are read only by a process that may do no more than their writer:
a worker inside its sandbox, and its own user's entries alone. What is damaged, or no object that
this generator could have written, is ignored and replaced by the next compilation.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from vgpu_sim.exec import own_files

MAX_ENTRY_BYTES = 64 << 20
_MAGIC = b"tessera-object-3\n"
_DIGEST_BYTES = 32


def load(directory: Path, key: str) -> bytes | None:
    """Return what was stored under ``key``, or None."""
    data = own_files.read(_path(directory, key), MAX_ENTRY_BYTES)
    if data is None:
        return None
    body = data[len(_MAGIC) + _DIGEST_BYTES :]
    return body if data == _head(key, body) + body else None


def store(directory: Path, key: str, body: bytes) -> None:
    """Write an entry; a directory that cannot be written to is no error, only slower.

    Raises:
        ValueError: for an entry that ``load`` would not read.
    """
    data = _head(key, body) + body
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError(f"an entry of {len(data)} bytes; at most {MAX_ENTRY_BYTES}")
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    own_files.replace(_path(directory, key), data)


def _head(key: str, body: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + body).digest()


def _path(directory: Path, key: str) -> Path:
    return directory / f"{key}.object"
