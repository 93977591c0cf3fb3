"""Installs the client libraries on the node: one directory per build, never overwritten.

Running containers keep the files they were started with. The directory cannot be below ``/run``,
which is mounted noexec.

The directory also has PyTorch's plug-in (ADR 163), and the empty file that is mounted in the place
of device files (ADR 148).

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
from vgpu_sim.frameworks import start_plugin, torch_plugin
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
    files = {source.name: source for source in sources} or _installed_files()
    digest = _digest(files.values())
    directory = root / digest
    targets = [directory / name for name in files]
    has_targets = all(target.exists() for target in targets)
    directory.mkdir(parents=True, exist_ok=True)
    empty = directory / device_files.EMPTY
    empty.touch()
    empty.chmod(device_files.MODE)
    if has_targets and _digest(targets) == digest:  # false after a crash of the node
        return directory
    for source, target in zip(files.values(), targets, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(source, temporary)
        temporary.chmod(0o755)
        os.replace(temporary, target)
    return directory


def _installed_files() -> dict[str, Path]:
    """Return this installation's files by their names in the directory: the libraries, and
    the plug-ins for Python in one folder.
    """
    lib = Path(native.__file__).parent / "lib"
    libraries = (
        *(lib / library for library in (*spec.LIBRARIES, *spec.RUNTIME_LIBRARIES)),
        *(lib / library for library in spec.LOADED_LIBRARIES),
        *(lib / MATH_FOLDER / library for library in spec.MATH_LIBRARIES),
        lib / "bin" / spec.PTXAS,
        lib / "bin" / nvidia.NVIDIA_SMI,
        *(lib / "rdma" / library for library in hca.LIBRARIES),
    )
    files = {library.name: library for library in libraries}
    for plugin in (torch_plugin(), start_plugin()):
        if plugin is None:
            raise FileNotFoundError(f"no plugins/torch and plugins/start beside {lib}")
        for path in sorted(plugin.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"{spec.TORCH}/{path.relative_to(plugin)}"] = path
    return files


def remove_others(directory: Path) -> None:
    """Remove the libraries of all builds except the build in ``directory``. Raises OSError."""
    for entry in directory.parent.iterdir():
        if entry == directory or entry.is_symlink() or not _BUILD.fullmatch(entry.name):
            continue
        shutil.rmtree(entry)
        _log.info("%s: removed, no pod uses it", entry)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for file in files:
        digest.update(hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()
