"""Object code on disk, keyed by content.

One directory, given by the caller, who owns who may write there: entries are native code that will
be executed. An entry is written to a temporary file and renamed, and read only if its digest fits;
whatever is damaged is ignored and replaced by the next compilation.
"""

import hashlib
import os
import tempfile
from pathlib import Path

_MAGIC = b"tessera-object-2\n"
_DIGEST_BYTES = 32


def load(directory: Path, key: str) -> bytes | None:
    """Return what was stored under ``key``, or None."""
    try:
        data = _path(directory, key).read_bytes()
    except OSError:
        return None
    body = data[len(_MAGIC) + _DIGEST_BYTES :]
    digest = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
    if not data.startswith(_MAGIC) or hashlib.sha256(key.encode() + body).digest() != digest:
        return None
    return body


def store(directory: Path, key: str, body: bytes) -> None:
    """Write an entry; a directory that cannot be written to is no error, only slower."""
    data = _MAGIC + hashlib.sha256(key.encode() + body).digest() + body
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=directory, prefix=".writing-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, _path(directory, key))
    except OSError:
        Path(name).unlink(missing_ok=True)


def _path(directory: Path, key: str) -> Path:
    return directory / f"{key}.object"
