"""Installs the client libraries on the node: one directory per build, never overwritten.

Running containers keep the files they were started with. The directory cannot be below ``/run``,
which is mounted noexec.

The directory also has the empty file that is mounted in the place of device files (ADR 148).

Old builds cannot be removed at any time. A running container has the libraries mounted and does
not need their path, and one that is started from the CDI file gets the newest build. But with
plain mounts the kubelet remembers the path from Allocate for as long as the pod lives, and a
runtime creates a directory at a path that is missing. So old builds are removed only when no pod
is left to which an earlier agent allocated a slice.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from device_plugin.cdi import hca, nvidia, spec
from vgpu_sim import native
from vgpu_sim.config import MATH_FOLDER
from vgpu_sim.system import device_files

_DIGEST_BYTES = 8
_BUILD = re.compile(rf"[0-9a-f]{{{2 * _DIGEST_BYTES}}}", re.ASCII)
_log = logging.getLogger(__name__)


def install(root: Path, sources: Sequence[Path] = ()) -> Path:
    """Copy the client libraries of this build to a directory below ``root``; return the directory.

    Nothing is copied if the directory already has the libraries. If ``sources`` is empty, the
    libraries of this installation are copied.

    Raises:
        OSError: a library is missing from this installation, or ``root`` cannot be written.
    """
    libraries = sources or _is_installed()
    digest = _digest(libraries)
    directory = root / digest
    targets = [directory / library.name for library in libraries]
    there = all(target.exists() for target in targets)
    directory.mkdir(parents=True, exist_ok=True)
    empty = directory / device_files.EMPTY
    empty.touch()
    empty.chmod(device_files.MODE)
    if there and _digest(targets) == digest:  # false after a crash of the node
        return directory
    for library, target in zip(libraries, targets, strict=True):
        temporary = directory / f".{library.name}.{os.getpid()}"
        shutil.copyfile(library, temporary)
        temporary.chmod(0o755)
        os.replace(temporary, target)
    return directory


def _is_installed() -> tuple[Path, ...]:
    lib = Path(native.__file__).parent / "lib"
    return (
        *(lib / library for library in (*spec.LIBRARIES, *spec.RUNTIME_LIBRARIES)),
        *(lib / library for library in spec.LOADED_LIBRARIES),
        *(lib / MATH_FOLDER / library for library in spec.MATH_LIBRARIES),
        lib / "bin" / spec.PTXAS,
        lib / "bin" / nvidia.NVIDIA_SMI,
        *(lib / "rdma" / library for library in hca.LIBRARIES),
    )


def remove_others(directory: Path) -> None:
    """Remove the libraries of all builds except the build in ``directory``. Raises OSError."""
    for entry in directory.parent.iterdir():
        if entry == directory or entry.is_symlink() or not _BUILD.fullmatch(entry.name):
            continue
        shutil.rmtree(entry)
        _log.info("%s: removed, no pod uses it", entry)


def _digest(libraries: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for library in libraries:
        digest.update(hashlib.blake2b(library.read_bytes()).digest())
    return digest.hexdigest()
