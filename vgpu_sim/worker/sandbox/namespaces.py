"""Enters empty mount, network and IPC namespaces, if an unprivileged user may create them.

A user namespace maps only the worker's own user; inside it the root file system is replaced by
an empty one that contains at most the object cache, at its former path.
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
_NEW_ROOT: Final = "/proc"  # a directory that always exists and is not needed any more


def enter_empty(cache_directory: Path | None) -> None:
    """Enter empty namespaces. The process must be single-threaded.

    Raises:
        OSError: the system does not permit that. The effects of earlier steps remain: the
            process may be in new namespaces, but its file system is still the old one.
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
    # The old root is now mounted on top of the new one, and is detached there (pivot_root(2),
    # NOTES).
    calls.syscall(calls.SYS_PIVOT_ROOT, b".", b".")
    calls.unmount_detached(".")
    os.chdir("/")
