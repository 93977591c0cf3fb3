"""Which processes a program in a container may see, and by which numbers.

A driver on real hardware shows its own node's pids, which mean nothing in a container. Here a
program sees the processes of its own container, by the pids that they have there; others, also of
its pod, it could not tell from strangers, so it sees none of them.
"""

from collections.abc import Iterable
from pathlib import Path

from vgpu_sim.gpud.management.records import Process
from vgpu_sim.hal.management import admin
from vgpu_sim.system.peers import MAX_CGROUP_BYTES, Peer

MAX_STATUS_BYTES = 16 << 10


def of_node(contexts: Iterable[admin.Context]) -> list[Process]:
    """Return all processes, by gpud's pids; a process that gpud cannot see has none: left out."""
    return [Process(one.client_pid, one) for one in contexts if one.client_pid > 0]


def of_container(
    contexts: Iterable[admin.Context], peer: Peer, pod_uid: str, proc: Path = Path("/proc")
) -> list[Process]:
    """Return the processes of the asker's container and pod, by the pids that it knows them by.

    Reads ``/proc``: not on gpud's loop. ``pod_uid`` is the asker's, empty outside a cluster.
    """
    theirs = [one for one in contexts if one.pod_uid == pod_uid and one.client_pid > 0]
    if not theirs or peer.pid <= 0:
        return []
    own = _cgroups(proc, peer.pid)
    found = []
    for context in theirs:
        pid = context.client_pid
        if pid != peer.pid and pod_uid and (own is None or _cgroups(proc, pid) != own):
            continue
        inner = _innermost_pid(proc, pid)
        if inner is not None:
            found.append(Process(inner, context))
    return found


def _cgroups(proc: Path, pid: int) -> bytes | None:
    """Return the process's control groups, of which each container has its own."""
    return _read(proc / str(pid) / "cgroup", MAX_CGROUP_BYTES)


def _innermost_pid(proc: Path, pid: int) -> int | None:
    """Return a process's pid in its own PID namespace (``NSpid``, proc(5)); None: it has gone."""
    status = _read(proc / str(pid) / "status", MAX_STATUS_BYTES)
    for line in (status or b"").splitlines():
        name, _, numbers = line.partition(b":")
        if name == b"NSpid" and numbers.split():
            return int(numbers.split()[-1])
    return None


def _read(path: Path, limit_bytes: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(limit_bytes)
    except OSError:
        return None
