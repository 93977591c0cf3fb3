"""Identifies peers: kernel credentials, and the pod that a process belongs to.

A pod's UID is taken from ``/proc/PID/cgroup``. The kubelet names directories after it: with the
systemd driver (``kubepods-burstable-pod<uid with _>.slice``, with any prefix such as kind's
``kubelet-``) or the cgroupfs driver (``pod<uid>``); static pods have 32 digits without
separators. The outermost such directory determines the pod, because the tenant may choose the
names below it. With cgroups v1, all hierarchies must name the same pod.
"""

import re
import socket
import struct
from pathlib import Path
from typing import NewType

from vgpu_sim.records import dataclass

PodUid = NewType("PodUid", str)

_UCRED = struct.Struct("3i")
CREDENTIALS_BYTES = _UCRED.size
_SO_PEERPIDFD = 77  # asm-generic/socket.h; not named by Python's socket module
MAX_CGROUP_BYTES = 64 << 10


def _uid_pattern(separator: str) -> str:
    return separator.join(f"[0-9a-f]{{{digits}}}" for digits in (8, 4, 4, 4, 12))


_DASHED, _UNDERSCORED, _PLAIN = _uid_pattern("-"), _uid_pattern("_"), "[0-9a-f]{32}"
_CGROUPFS = re.compile(rf"pod(?P<uid>{_DASHED}|{_PLAIN})", re.ASCII)
_SYSTEMD = re.compile(
    r"(?:[a-z0-9]+-)*kubepods(?:-besteffort|-burstable)?"
    rf"-pod(?P<uid>{_UNDERSCORED}|{_PLAIN})\.slice",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A connected process, identified by SO_PEERCRED. ``pid`` is 0 outside the server's PID
    namespace.
    """

    pid: int
    uid: int


def peer_of(sock: socket.socket) -> Peer:
    """Return the process that connected a socket. Its pid is 0 if gpud cannot see the process's PID
    namespace.
    """
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS_BYTES)
    pid, uid, _gid = _UCRED.unpack(raw)
    return Peer(pid, uid)


def peer_pidfd_of(sock: socket.socket) -> int | None:
    """Return a pidfd of the process that connected a socket, or None (before Linux 6.5)."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return None


def sender_of(ancillary: list[tuple[int, int, bytes]]) -> Peer | None:
    """Return the sender of a message, from its SCM_CREDENTIALS; None if the message has no
    credentials.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid, uid, _gid = _UCRED.unpack(data[:CREDENTIALS_BYTES])
            return Peer(pid, uid)
    return None


def pod_of_cgroups(text: str) -> PodUid | None:
    """Return the pod that the text of a ``/proc/PID/cgroup`` names; None if it names no pod, or its
    lines disagree.
    """
    uids: set[str] = set()
    for line in text.splitlines():
        _number, _controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        uid = _outermost_pod(path)
        if uid is not None:
            uids.add(uid)
    return PodUid(uids.pop()) if len(uids) == 1 else None


def pod_of_process(pid: int, proc: Path = Path("/proc")) -> PodUid | None:
    """Return the pod of a process; None if the process is in no pod or has ended."""
    if pid <= 0:
        return None
    try:
        with (proc / str(pid) / "cgroup").open("rb") as file:
            data = file.read(MAX_CGROUP_BYTES)
    except OSError:
        return None
    return pod_of_cgroups(data.decode("utf-8", "replace"))


def _outermost_pod(path: str) -> str | None:
    for component in path.split("/"):
        match = _SYSTEMD.fullmatch(component) or _CGROUPFS.fullmatch(component)
        if match is not None:
            return match["uid"].replace("_", "-")
    return None


def is_pod_uid(text: str) -> bool:
    """Return whether a text has the form of a pod's UID."""
    return re.fullmatch(f"{_DASHED}|{_PLAIN}", text, re.ASCII) is not None
