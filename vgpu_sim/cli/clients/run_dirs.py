"""Private directories of runs. A directory exists while a process of its run lives, and is removed
afterwards.

A run's command and its gpud share a lock on a file in the directory. If another process obtains
the lock, both have ended without removing the directory, and that process may remove it.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud import slices
from vgpu_sim.gpud.model import new_instance_uuid
from vgpu_sim.system.socket_paths import MAX_PATH_BYTES

PREFIX = "tessera-"
LOCK_NAME = "owner.lock"


def make(parents: Iterable[Path]) -> Path:
    """Create a private directory whose path is short enough for slice sockets.

    Raises:
        OSError: none of the parents can be used.
    """
    for parent in parents:
        try:
            directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError:
            continue
        longest = directory / "slices" / new_instance_uuid() / slices.SOCKET_NAME
        if len(os.fsencode(longest)) <= MAX_PATH_BYTES:
            return directory
        directory.rmdir()
    raise OSError(f"no usable directory among {', '.join(map(str, parents))}")


def hold(directory: Path) -> int:
    """Lock a run's directory and return the lock's descriptor. The lock lasts until the last copy
    of that descriptor is closed.
    """
    unfinished = directory / f"{LOCK_NAME}.new"
    # No other process uses the directory before it is locked.
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unfinished.rename(directory / LOCK_NAME)
    return descriptor


def sweep(parents: Iterable[Path]) -> None:
    """Remove directories of this user's runs that were killed together with their gpud."""
    for parent in parents:
        with suppress(OSError):
            for directory in list(parent.glob(f"{PREFIX}*")):
                with suppress(OSError):
                    _remove_if_abandoned(directory)


def _remove_if_abandoned(directory: Path) -> None:
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: the run is alive
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(descriptor)
