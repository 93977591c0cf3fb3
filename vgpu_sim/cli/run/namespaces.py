"""Mount namespaces for the program of ``tessera run``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vgpu_sim.system import calls

MS_BIND_REC: Final = 4096 | 16384
MS_REMOUNT_READ_ONLY: Final = 32 | 1
_MS_REC_PRIVATE: Final = 0x4000 | 0x4_0000
_CLONE_NEWNS: Final = 0x0002_0000
_CLONE_NEWUSER: Final = 0x1000_0000


def is_possible(mount: Callable[[], None], explain: Callable[[OSError], str]) -> bool:
    """Try mounts in a child process, so that the program never starts in a half-made namespace.

    If they fail, the text of ``explain`` is printed on stderr.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mount()
            status = 0
        except OSError as err:
            os.write(2, f"tessera run: {explain(err)}\n".encode())
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def enter() -> None:
    """Give this process a mount namespace of its own, from which no mount leaves.

    An ordinary user needs a user namespace for that, in which the user's ID stays the same.

    Raises:
        OSError: a step is not permitted.
    """
    try:
        calls.unshare(_CLONE_NEWNS)  # a process that may mount needs no other user namespace
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        calls.unshare(_CLONE_NEWUSER | _CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    calls.mount("none", "/", "", _MS_REC_PRIVATE)
