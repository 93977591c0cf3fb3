"""Empty mount, network and IPC namespaces, where an unprivileged user may have them.

A user namespace maps the worker's own user and nothing else; inside it the root file system is
replaced by an empty one that holds at most the object cache, at the path it had before.
"""

import os
from pathlib import Path
from typing import Final

from vgpu_sim.system import calls

_CLONE_NEWNS: Final = 0x0002_0000
_CLONE_NEWIPC: Final = 0x0800_0000
_CLONE_NEWUSER: Final = 0x1000_0000
_CLONE_NEWNET: Final = 0x4000_0000
_MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_MS_REMOUNT_READ_ONLY: Final = 32 | 1
_MS_BIND: Final = 4096
_MS_REC_PRIVATE: Final = 0x4000 | 0x4_0000
_NEW_ROOT: Final = "/proc"  # a directory that is always there and that nobody needs any more


def enter_empty(cache_directory: Path | None) -> None:
    """Move into empty namespaces. The process must be single-threaded.

    Raises:
        OSError: where it is not permitted. What happened before the failing step stays: namespaces
            may have been entered, but the file system is then still the old one.
    """
    uid, gid = os.getuid(), os.getgid()
    # A process that has changed its user may not write its own maps until it is dumpable again.
    calls.prctl(calls.PR_SET_DUMPABLE, 1)
    calls.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWIPC)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    calls.mount("none", "/", "", _MS_REC_PRIVATE)
    calls.mount(
        "none",
        _NEW_ROOT,
        "tmpfs",
        _MS_NOSUID_NODEV_NOEXEC,
        f"size=64k,mode=0700,uid={uid},gid={gid}",
    )
    if cache_directory is not None:
        target = _NEW_ROOT + str(cache_directory)
        Path(target).mkdir(parents=True)
        calls.mount(str(cache_directory), target, "", _MS_BIND)
    calls.mount("none", _NEW_ROOT, "", _MS_REMOUNT_READ_ONLY | _MS_NOSUID_NODEV_NOEXEC)
    os.chdir(_NEW_ROOT)
    # The old root lands on top of the new one, whence it is detached (pivot_root(2), NOTES).
    calls.syscall(calls.SYS_PIVOT_ROOT, b".", b".")
    calls.unmount_detached(".")
    os.chdir("/")
