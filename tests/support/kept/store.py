"""A directory of results, each under a digest of everything on which the result depends.

The processes of a run share it, and so do the runs on a machine: continuous integration makes a
new checkout for each run, but the user's cache directory remains. An entry is created by a rename,
and starts with a digest of its key and its content, so that an incomplete or a changed entry
counts as absent. ``TESSERA_TEST_CACHE`` names another directory; an empty value disables the store.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import zstandard

MOST_BYTES = 1 << 30
_DIGEST_BYTES = 32
_LEVEL = 1  # the fastest: objects become a third


def default_folder() -> Path | None:
    """Return the directory of this user, or None if results are not stored."""
    configured = os.environ.get("TESSERA_TEST_CACHE")
    if configured is not None:
        return Path(configured) if configured else None
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "tessera" / "tests"


# When this module is imported, because tests change the environment.
FOLDER = default_folder()


class Store:
    """The results of one kind, in a folder of their own."""

    def __init__(self, kind: str, folder: Path | None = FOLDER) -> None:
        self._folder = None if folder is None else folder / kind

    def get(self, key: str) -> bytes | None:
        """Return what is stored under a key, which is a hexadecimal digest."""
        if self._folder is None:
            return None
        file = self._folder / key[:2] / key
        try:
            entry = file.read_bytes()
            os.utime(file)  # ``prune`` removes what was not read for longest
        except OSError:
            return None
        digest, packed = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
        if digest != _digest(key, packed):
            return None
        return zstandard.ZstdDecompressor().decompress(packed)

    def put(self, key: str, content: bytes) -> None:
        """Store content under a key; a full disk only means that it is computed again."""
        if self._folder is None:
            return
        packed = zstandard.ZstdCompressor(_LEVEL).compress(content)
        folder = self._folder / key[:2]
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(key, packed) + packed)
                os.replace(name, folder / key)
            except OSError:
                os.unlink(name)


def digest_of(folder: Path, files: Iterable[Path]) -> bytes:
    """Return a digest of the names, relative to a folder, and the contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.digest()


def key_of(*parts: bytes) -> str:
    """Return a digest of these parts; their lengths are part of it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def prune(folder: Path | None = FOLDER, most_bytes: int = MOST_BYTES) -> None:
    """Remove the entries that were not read for longest, until ``most_bytes`` are left."""
    if folder is None:
        return
    entries = []
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another run may prune, too
                found = os.stat(path := os.path.join(where, name))
                entries.append((found.st_mtime, found.st_size, path))
    left = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if left <= most_bytes:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        left -= size


def _digest(key: str, packed: bytes) -> bytes:
    return hashlib.sha256(key.encode() + packed).digest()
