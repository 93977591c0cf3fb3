"""Object cache directories (trust between them: ADR 15).

In a cluster there is one directory per namespace and slot. The workers that share a directory
run as one user and serve pods of one namespace. Workers open the directory by path after they
have dropped their privileges, and gpud may not chown files, so the directory is writable for
others. The sandbox of other workers keeps them out, because it exposes only their own directory.
Should that fail, they cannot find the directory, because its name is unguessable and its parent
cannot be listed. In standalone use there is only the user's directory.

gpud trims caches from time to time to a limit of disk usage and of entries, oldest entries
first, so that programs cannot fill the node's disk. (A worker that a tenant has taken over can
write faster than that.) A directory that no context has used for UNUSED_SECONDS is removed; this
is how the caches of deleted namespaces are removed.
"""

import hashlib
import heapq
import hmac
import itertools
import logging
import operator
import os
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from vgpu_sim.records import dataclass

logger = logging.getLogger("tessera.gpud")

_SECRET_NAME = ".secret"
_SECRET_BYTES = 32
_NAME_DIGITS = 32
_PRIVATE_NAME = "user"
_BLOCK_BYTES = 512  # the unit of st_blocks (stat(2))

MAX_CACHE_BYTES = 512 << 20
MAX_CACHE_ENTRIES = 16384
_SORTED_AT_ONCE = 4096
_by_time = operator.itemgetter(0)
TRIM_EVERY_SECONDS = 60.0
SWEEP_EVERY_SECONDS = 3600.0
UNUSED_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class CacheOwner:
    """The owner of an object cache: a namespace and a slot.

    The cache serves the pods of the namespace if their workers run as the slot's user.
    """

    namespace: str
    slot: int


class OwnerCaches:
    """The object caches below ``root``.

    If ``shared`` is set, workers run as users of their own, and each owner has a cache.
    Otherwise there is only one cache.

    All methods block on the disk, so call them outside gpud's event loop.
    """

    def __init__(
        self,
        root: Path,
        shared: bool,
        limit_bytes: int = MAX_CACHE_BYTES,
        limit_entries: int = MAX_CACHE_ENTRIES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._shared = shared
        self._limit_bytes = limit_bytes
        self._limit_entries = limit_entries
        self._clock = clock
        self._trimmed_at: dict[str, float] = {}
        self._swept_at = float("-inf")
        self._making_secret = threading.Lock()

    def directory(self, owner: CacheOwner) -> str | None:
        """Return the cache directory of an owner, and create it if needed. Returns None on failure,
        which only makes programs slower.
        """
        try:
            directory = self._path_of(owner)
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._shared:
                self._root.chmod(0o711)
                directory.chmod(0o1777)
            now_s = self._clock()
            os.utime(directory, (now_s, now_s))
        except OSError as err:
            logger.info("no_cache root=%s error=%s", self._root, err)
            return None
        return str(directory)

    def trim(self, owner: CacheOwner) -> None:
        """Remove entries of a cache until it is below its limits. The cache is measured at most
        every TRIM_EVERY_SECONDS.

        This may be called on any thread, but not concurrently for one owner.
        """
        try:
            directory = str(self._path_of(owner))
            now_s = self._clock()
            if now_s - self._trimmed_at.get(directory, float("-inf")) < TRIM_EVERY_SECONDS:
                return
            self._trimmed_at[directory] = now_s
            _remove_oldest(directory, self._limit_bytes, self._limit_entries)
        except OSError as err:
            logger.info("cache_not_trimmed root=%s error=%s", self._root, err)

    def sweep(self, in_use: Collection[CacheOwner]) -> None:
        """Remove caches that were not used for UNUSED_SECONDS. The caches are scanned at most every
        SWEEP_EVERY_SECONDS.
        """
        now_s = self._clock()
        if now_s - self._swept_at < SWEEP_EVERY_SECONDS:
            return
        self._swept_at = now_s
        try:
            used_names = {self._path_of(owner).name for owner in in_use} | {_PRIVATE_NAME}
            with os.scandir(self._root) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False) or entry.name in used_names:
                        continue
                    if now_s - entry.stat(follow_symlinks=False).st_mtime >= UNUSED_SECONDS:
                        logger.info("cache_removed directory=%s", entry.path)
                        shutil.rmtree(entry.path, ignore_errors=True)
                        self._trimmed_at.pop(entry.path, None)
        except OSError as err:
            logger.info("caches_not_swept root=%s error=%s", self._root, err)

    def _path_of(self, owner: CacheOwner) -> Path:
        if not self._shared:
            return self._root / _PRIVATE_NAME
        name = f"{owner.namespace}/{owner.slot}".encode()  # a namespace's name contains no slash
        digest = hmac.new(self._secret(), name, hashlib.sha256)
        return self._root / digest.hexdigest()[:_NAME_DIGITS]

    def _secret(self) -> bytes:
        with self._making_secret:
            return self._find_or_make_secret()

    def _find_or_make_secret(self) -> bytes:
        path = self._root / _SECRET_NAME
        try:
            stored_secret = path.read_bytes()
        except FileNotFoundError:
            stored_secret = b""
        if len(stored_secret) == _SECRET_BYTES:
            return stored_secret
        self._root.mkdir(parents=True, exist_ok=True)
        new_secret = secrets.token_bytes(_SECRET_BYTES)
        temporary = path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(new_secret)
        temporary.rename(path)
        return new_secret


def _remove_oldest(directory: str, limit_bytes: int, limit_entries: int) -> None:
    """Remove the oldest files until both limits hold. A sparse file counts as the space that it
    occupies.
    """
    files = []
    with os.scandir(directory) as entries:
        # In a directory with very many files, one scan covers a part, and the next scan another.
        for entry in itertools.islice(entries, 4 * limit_entries):
            with suppress(FileNotFoundError):  # workers rename and replace files concurrently
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    size_bytes = status.st_blocks * _BLOCK_BYTES
                    files.append((status.st_mtime_ns, size_bytes, entry.path))
    excess_bytes = sum(size_bytes for _, size_bytes, _ in files) - limit_bytes
    excess_entries = len(files) - limit_entries
    for _, size_bytes, path in _oldest_first(files):
        if excess_bytes <= 0 and excess_entries <= 0:
            return
        Path(path).unlink(missing_ok=True)
        excess_bytes -= size_bytes
        excess_entries -= 1


def _oldest_first(files: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Yield files in the order of their times. They are sorted in small parts, because Python's
    sort holds the interpreter lock, which blocks gpud's event loop.
    """
    parts = (
        sorted(files[first : first + _SORTED_AT_ONCE], key=_by_time)
        for first in range(0, len(files), _SORTED_AT_ONCE)
    )
    return heapq.merge(*parts, key=_by_time)
