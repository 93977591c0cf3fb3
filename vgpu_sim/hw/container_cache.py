"""Compiled modules on disk: PTX text in, container out, one directory per owner.

An entry's name says what it was made from, its head what it must contain, so that a torn or
altered file is a miss and not a wrong program. The directory is the owner's alone; this is
protection against accidents, not against its owner.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

import vgpu_sim.compiler
import vgpu_sim.isa

_MAGIC: Final = b"TSRAMOD1"
_DIGEST_BYTES: Final = 32


def _fingerprint_of_sources() -> bytes:
    """Hash the compiler's and the ISA's own sources: a changed compiler never meets old entries."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for package in (vgpu_sim.compiler, vgpu_sim.isa):
        for root in package.__path__:
            for source in sorted(Path(root).rglob("*.py")):
                digest.update(source.read_bytes())
    return digest.digest()


# Taken at import: the process may lose its file system later.
_FINGERPRINT: Final = _fingerprint_of_sources()


class ContainerCache:
    """Keyed by PTX, compute capability and compiler. ``directory`` None: remembers nothing."""

    def __init__(self, directory: Path | None, capability: tuple[int, int]) -> None:
        self._directory = directory
        self._capability = capability

    def load(self, ptx: bytes) -> bytes | None:
        """Return the container that was stored for this text, if it is there and intact."""
        if self._directory is None:
            return None
        try:
            data = (self._directory / self._name(ptx)).read_bytes()
        except OSError:
            return None
        head, content = data[: len(_MAGIC) + _DIGEST_BYTES], data[len(_MAGIC) + _DIGEST_BYTES :]
        return content if head == _head(content) else None

    def store(self, ptx: bytes, container: bytes) -> None:
        """Remember a container; a cache that cannot be written to is no error."""
        if self._directory is None:
            return
        path = self._directory / self._name(ptx)
        temporary = path.with_suffix(f".{secrets.token_hex(8)}.new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_head(container) + container)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)

    def _name(self, ptx: bytes) -> str:
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=_FINGERPRINT)
        digest.update(b"%d.%d\n" % self._capability)
        digest.update(ptx)
        return digest.hexdigest() + ".module"


def _head(content: bytes) -> bytes:
    return _MAGIC + hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
