"""Object cache directories: one per owner, a namespace in a cluster or the user in a run.

Workers of one owner run under several uids and reach the directory by its path after they dropped
their privileges, so it must be writable for others; gpud has no privilege to give files away. What
keeps strangers out is the worker's sandbox, which shows it this one directory, and behind that a
name that cannot be guessed below a parent that cannot be listed.

What an owner keeps is trimmed now and then, the oldest entries first: nobody's programs shall fill
the node's disk. (A worker that a tenant has taken over can write faster than that.)
"""

import hashlib
import hmac
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.driver.model import Owner

logger = logging.getLogger("tessera.gpud")

_SECRET_NAME = ".secret"
_SECRET_BYTES = 32
_NAME_DIGITS = 32
MAX_OWNER_BYTES = 1 << 30
TRIM_EVERY_SECONDS = 60.0


class OwnerCaches:
    """The caches below ``root``; ``shared``: workers have uids of their own."""

    def __init__(
        self,
        root: Path,
        shared: bool,
        limit_bytes: int = MAX_OWNER_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._shared = shared
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._trimmed_at: dict[str, float] = {}

    def directory(self, owner: Owner) -> str | None:
        """Return an owner's directory, made if need be; None where it cannot be: only slower."""
        try:
            return str(self._shared_directory(owner) if self._shared else self._private_directory())
        except OSError as err:
            logger.info("no_cache root=%s error=%s", self._root, err)
            return None

    def trim(self, owner: Owner) -> None:
        """Bring what an owner keeps below the limit; looks at most every TRIM_EVERY_SECONDS.

        Blocks while it reads the directory. Safe on any thread, one call at a time for an owner.
        """
        directory = self.directory(owner)
        if directory is None:
            return
        now = self._clock()
        if now - self._trimmed_at.get(directory, float("-inf")) < TRIM_EVERY_SECONDS:
            return
        self._trimmed_at[directory] = now
        try:
            _remove_oldest(directory, self._limit_bytes)
        except OSError as err:
            logger.info("cache_not_trimmed directory=%s error=%s", directory, err)

    def _private_directory(self) -> Path:
        directory = self._root / "user"
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        return directory

    def _shared_directory(self, owner: Owner) -> Path:
        self._root.mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o711)
        digest = hmac.new(self._secret(), owner.namespace.encode(), hashlib.sha256)
        directory = self._root / digest.hexdigest()[:_NAME_DIGITS]
        directory.mkdir(exist_ok=True)
        directory.chmod(0o1777)
        return directory

    def _secret(self) -> bytes:
        path = self._root / _SECRET_NAME
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) == _SECRET_BYTES:
            return found
        made = secrets.token_bytes(_SECRET_BYTES)
        temporary = path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made)
        temporary.rename(path)
        return made


def _remove_oldest(directory: str, limit_bytes: int) -> None:
    files = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # workers rename and replace meanwhile
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - limit_bytes
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        Path(path).unlink(missing_ok=True)
        excess -= size
