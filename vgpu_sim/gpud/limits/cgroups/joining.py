"""Checks that processes can join the slices' groups from where gpud runs.

Creating a group and joining it are separate permissions in version 2. systemd mounts the hierarchy
with ``nsdelegate``, so the kernel moves no process across the root of the caller's cgroup
namespace, and a container's namespace begins at the container's own group ("Delegation
Containment" in the kernel's documentation of control groups). The kernel reports that as ENOENT,
which a worker cannot distinguish from a group that was removed.
"""

import errno
import subprocess
from pathlib import Path

from vgpu_sim.gpud.limits.cgroups.base import Share, SliceCgroups
from vgpu_sim.gpud.model import new_instance_uuid
from vgpu_sim.system import python_process

# Without "site", which would cost most of its start.
_WAITING_PROGRAM = (python_process.interpreter(), "-I", "-S", "-c", "input()")
_SMALLEST = Share(memory_bytes=0, sm_count=1, board_sm_count=1, cpu_count=1, strict=False)
NOT_FROM_THIS_NAMESPACE = (
    "the kernel moves no process into this group, because gpud is in a cgroup namespace of its own"
    " and cgroup2 is mounted with nsdelegate"
)


def check(groups: SliceCgroups) -> None:
    """Let a process join a group, and remove both.

    Raises:
        OSError: the kernel refuses it. The groups' parent is then removed too.
    """
    uuid = new_instance_uuid()
    try:
        groups.prepare(uuid, _SMALLEST, contexts=0)
        try:
            _join(groups.procs_files(uuid))
        finally:
            groups.remove(uuid)
    except OSError:
        groups.remove_parent()
        raise


def _join(procs_files: tuple[str, ...]) -> None:
    with subprocess.Popen(_WAITING_PROGRAM, stdin=subprocess.PIPE) as process:
        try:
            for file in procs_files:
                _write(Path(file), process.pid)
        finally:
            process.kill()


def _write(file: Path, pid: int) -> None:
    try:
        file.write_text(str(pid), encoding="ascii")
    except OSError as err:
        if err.errno == errno.ENOENT and file.exists():
            raise OSError(errno.ENOENT, NOT_FROM_THIS_NAMESPACE, str(file)) from err
        raise
