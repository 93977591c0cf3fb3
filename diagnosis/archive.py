"""Writes the files of a support bundle into a compressed tar archive."""

import io
import os
import tarfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 4 << 20  # of each file, the end is kept
LEFT_OUT: Final = """\
Left out: Secrets, ConfigMaps, values of environment variables, annotations, and the names of
namespaces and pods that are not Tessera's. IP addresses of these pods, and text that looks like a
secret, are replaced.
"""
_MARK: Final = b"[the beginning was removed]\n"


def name_now() -> str:
    """Return the name of a bundle that is collected now, in UTC."""
    return f"tessera-support-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def write(path: Path, folder: str, files: Mapping[str, str]) -> int:
    """Write text files below ``folder`` into a new archive; return its size in bytes.

    Only its owner may read the archive.

    Raises:
        OSError: the archive exists, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name in sorted(files):
            content = _shorten(files[name].encode("utf-8", "backslashreplace"))
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return path.stat().st_size


def _shorten(content: bytes) -> bytes:
    if len(content) <= MAX_FILE_BYTES:
        return content
    return _MARK + content[len(_MARK) - MAX_FILE_BYTES :]
