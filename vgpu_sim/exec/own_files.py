"""Files in a directory to which others may write: only the user's own files are read, and only
whole.

A file's owner is recorded by the kernel, so no writer can forge it. A digest with a key would
add nothing: a program that can sign for a worker would sign what the worker's tenant requests.
"""

import os
import secrets
import stat
from pathlib import Path


def read(path: Path, limit_bytes: int) -> bytes | None:
    """Return the content of a regular file that this user owns and that has at most
    ``limit_bytes``.

    Return None for any other file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if not own or status.st_size > limit_bytes:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = file.read(limit_bytes + 1)
        except OSError:
            return None
    return data if len(data) <= limit_bytes else None


def replace(path: Path, data: bytes) -> None:
    """Atomically write a file that only this user can read; do nothing if that is impossible."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600)
    except OSError:
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
