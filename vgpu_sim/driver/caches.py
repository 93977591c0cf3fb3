"""Object cache directories: one per owner, a namespace in a cluster or the user in a run.

Workers of one owner run under several uids and reach the directory by its path after they dropped
their privileges, so it must be writable for others; gpud has no privilege to give files away. What
keeps strangers out is the worker's sandbox, which shows it this one directory, and behind that a
name that cannot be guessed below a parent that cannot be listed.
"""

import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path

from vgpu_sim.driver.model import Owner

logger = logging.getLogger("tessera.gpud")

_SECRET_NAME = ".secret"
_SECRET_BYTES = 32
_NAME_DIGITS = 32


class OwnerCaches:
    """The caches below ``root``; ``shared``: workers have uids of their own."""

    def __init__(self, root: Path, shared: bool) -> None:
        self._root = root
        self._shared = shared

    def directory(self, owner: Owner) -> str | None:
        """Return an owner's directory, made if need be; None where it cannot be: only slower."""
        try:
            return str(self._shared_directory(owner) if self._shared else self._private_directory())
        except OSError as err:
            logger.info("no_cache root=%s error=%s", self._root, err)
            return None

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
