"""Puts the client library on the node: one directory a build, never overwritten.

Containers that run keep the file they were started with; ``/run`` would not do, it is noexec.

When an old build may go: a container that runs has the file mounted and needs no name of it, and
one that is started from the CDI file gets the newest. But with plain mounts the kubelet remembers
the path from Allocate for as long as the pod lives, and a runtime makes a directory of a path that
is missing. So old builds go only when no pod is left that an earlier agent allocated a slice to.
"""

import hashlib
import logging
import os
import re
import shutil
from pathlib import Path

from device_plugin.cdi.spec import LIBRARY
from vgpu_sim import native

_DIGEST_BYTES = 8
_BUILD = re.compile(rf"[0-9a-f]{{{2 * _DIGEST_BYTES}}}", re.ASCII)
_log = logging.getLogger(__name__)


def install(root: Path, source: Path | None = None) -> Path:
    """Copy the client library below ``root`` if it is not there yet; return its directory.

    Raises:
        OSError: the library is missing from this installation, or ``root`` cannot be written.
    """
    library = source or Path(native.__file__).parent / "lib" / LIBRARY
    digest = _digest(library)
    directory = root / digest
    target = directory / LIBRARY
    if target.exists() and _digest(target) == digest:  # not so after a crash of the node
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".{LIBRARY}.{os.getpid()}"
    shutil.copyfile(library, temporary)
    temporary.chmod(0o755)
    os.replace(temporary, target)
    return directory


def remove_others(directory: Path) -> None:
    """Remove all builds but the one in ``directory``. Raises OSError."""
    for entry in directory.parent.iterdir():
        if entry == directory or entry.is_symlink() or not _BUILD.fullmatch(entry.name):
            continue
        shutil.rmtree(entry)
        _log.info("%s: removed, no pod uses it", entry)


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=_DIGEST_BYTES).hexdigest()
