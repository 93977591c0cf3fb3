"""Private directories of runs: made, held while anybody of the run lives, removed when nobody does.

A run's command and its gpud share a lock on a file in the directory. Whoever takes that lock knows
that both have ended without removing it, and may do so.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.model import new_instance_uuid
from vgpu_sim.gpud.slices import server as slices
from vgpu_sim.system.seqpacket import MAX_PATH_BYTES

PREFIX = "tessera-"
LOCK_NAME = "owner.lock"


def make(parents: Iterable[Path]) -> Path:
    """Make a private directory where slice sockets' paths are short enough.

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
    """Lock a run's directory; return the descriptor whose last copy, anywhere, holds it."""
    unfinished = directory / f"{LOCK_NAME}.new"  # nobody looks at it before it is locked
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unfinished.rename(directory / LOCK_NAME)
    return descriptor


def sweep(parents: Iterable[Path]) -> None:
    """Remove what runs of this user have left behind that were killed, gpud and all."""
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
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: it is alive
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(descriptor)
