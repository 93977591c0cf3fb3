"""The processes that a program in a container may see, with their pids.

A driver on real hardware reports pids of its own node, which have no meaning in a container.
Here a program sees the processes of its own container, with their pids in that container. It
sees no others, not even of its pod, because it could not distinguish those from strangers.
"""

from collections.abc import Iterable
from pathlib import Path

from vgpu_sim.gpud.management.records import Process
from vgpu_sim.hal.management import admin
from vgpu_sim.system.peers import MAX_CGROUP_BYTES, Peer

MAX_STATUS_BYTES = 16 << 10


def as_seen_on_node(contexts: Iterable[admin.Context]) -> list[Process]:
    """Return all contexts as processes, with their pids in gpud's namespace. Contexts without a pid
    are omitted.
    """
    return [Process(context.client_pid, context) for context in contexts if context.client_pid > 0]


def as_seen_in_container(
    contexts: Iterable[admin.Context], peer: Peer, pod_uid: str, proc: Path = Path("/proc")
) -> list[Process]:
    """Return the processes of the requester's container and pod, with their pids in that container.

    Call this outside gpud's event loop, because it reads ``/proc``. ``pod_uid`` is that of the
    requester's pod, empty outside a cluster.
    """
    theirs = [
        context for context in contexts if context.pod_uid == pod_uid and context.client_pid > 0
    ]
    if not theirs or peer.pid <= 0:
        return []
    own = _cgroups(proc, peer.pid)
    seen_processes = []
    for context in theirs:
        pid = context.client_pid
        if pid != peer.pid and pod_uid and (own is None or _cgroups(proc, pid) != own):
            continue
        inner = _innermost_pid(proc, pid)
        if inner is not None:
            seen_processes.append(Process(inner, context))
    return seen_processes


def _cgroups(proc: Path, pid: int) -> bytes | None:
    """Return the content of a process's ``cgroup`` file, which differs between containers."""
    return _read(proc / str(pid) / "cgroup", MAX_CGROUP_BYTES)


def _innermost_pid(proc: Path, pid: int) -> int | None:
    """Return a process's pid in its own PID namespace (``NSpid``, proc(5)); None: it has ended."""
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
