"""Puts the client library on the node: one directory a build, never overwritten.

Containers that run keep the file they were started with; ``/run`` would not do, it is noexec.
"""

import hashlib
import os
import shutil
from pathlib import Path

from device_plugin.cdi.spec import LIBRARY
from vgpu_sim import native


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


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
