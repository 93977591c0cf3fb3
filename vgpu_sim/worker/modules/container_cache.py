"""Cache of compiled modules on disk: maps PTX text to a summary and a container.

An entry's name identifies its input, and its header has a digest of the content, so that a
truncated or modified file is a miss and not a wrong program. Only this user's own entries are
read (ADR 15).
"""

import hashlib
import struct
from pathlib import Path
from typing import Final

import vgpu_sim.compiler
import vgpu_sim.exec
import vgpu_sim.isa
import vgpu_sim.worker.descriptors
import vgpu_sim.worker.modules.module_summary
import vgpu_sim.worker.pipes
from vgpu_sim.exec import own_files
from vgpu_sim.worker.modules.module_summary import ModuleSummary

_MAGIC: Final = b"TSRAMOD1"
_DIGEST_BYTES: Final = 32
_MAX_ENTRY_BYTES: Final = 256 << 20
_LENGTH: Final = struct.Struct("<I")


def _fingerprint_of_sources() -> bytes:
    """Hash the sources on which a summary depends, so that a change to a source invalidates all
    entries.

    The executors' sources are included because they determine which kernels are refused.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    packages = [*vgpu_sim.compiler.__path__, *vgpu_sim.isa.__path__, *vgpu_sim.exec.__path__]
    sources = [
        source
        for root in packages
        for pattern in ("*.py", "*.ptx")
        for source in sorted(Path(root).rglob(pattern))
    ]
    worker = vgpu_sim.worker
    summaries = (worker.modules.module_summary, worker.pipes, worker.descriptors)
    for source in [*sources, *(Path(str(module.__file__)) for module in summaries)]:
        digest.update(source.read_bytes())
    return digest.digest()


# Computed at import: the process may lose its file system later.
_FINGERPRINT: Final = _fingerprint_of_sources()


class ContainerCache:
    """Compiled modules, keyed by PTX text, compute capability, compiler and backend. The backend is
    part of the key because backends differ in the kernels that they do not support.

    If ``directory`` is None, nothing is cached.
    """

    def __init__(self, directory: Path | None, capability: tuple[int, int], backend: str) -> None:
        self._directory = directory
        self._capability = capability
        self._backend = backend

    def load(self, ptx: bytes) -> tuple[ModuleSummary, bytes] | None:
        """Return the summary and container stored for this text, if they exist and are intact."""
        if self._directory is None:
            return None
        data = own_files.read(self._directory / self._name(ptx), _MAX_ENTRY_BYTES)
        if data is None:
            return None
        head, content = data[: len(_MAGIC) + _DIGEST_BYTES], data[len(_MAGIC) + _DIGEST_BYTES :]
        if head != _head(content):
            return None
        try:
            (summary_bytes,) = _LENGTH.unpack_from(content)
            end = _LENGTH.size + summary_bytes
            return ModuleSummary.from_json(content[_LENGTH.size : end]), content[end:]
        except (struct.error, ValueError):
            return None

    def store(self, ptx: bytes, summary: ModuleSummary, container: bytes) -> None:
        """Store a container; failure to write is not an error."""
        if self._directory is None:
            return
        described = summary.to_json()
        content = _LENGTH.pack(len(described)) + described + container
        own_files.replace(self._directory / self._name(ptx), _head(content) + content)

    def _name(self, ptx: bytes) -> str:
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=_FINGERPRINT)
        digest.update(b"%d.%d\n%s\n" % (*self._capability, self._backend.encode()))
        digest.update(ptx)
        return digest.hexdigest() + ".module"


def _head(content: bytes) -> bytes:
    return _MAGIC + hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
