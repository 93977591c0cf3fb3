"""GPUDirect RDMA: how hcad gets a device's memory from the worker that has it.

hcad connects to nobody: gpud connects to ``direct.sock`` in hcad's directory (SOCK_SEQPACKET) and
says whose device memory it can provide: a run's token, or zeros for all pods of the node. Then hcad
sends JSON objects

    {"type": "export", "request": n, "pid": p, "address": a, "bytes": b, "skip": k}

``pid`` is a program that has opened an HCA function; of its contexts the first ``k`` are passed
over, as they have answered ENOENT. Where ``"range": hex`` is among them, the memory is what a
``messages.SharedRange`` names, from ``address`` bytes on in that; the program has read it from a
descriptor, and the worker that made it says whether it is one. gpud answers

    {"type": "exported", "request": n, "status": errno}

with ESRCH where there is no such context (any more), EINVAL, or 0 and one end of a connection whose
other end it gave to the context's worker. On that the worker sends a ``DirectGrant`` and, if its
status is 0, the chunk's memory: a sealed memfd.

The connection stays, and is the right: its end is the memory's end. A worker that frees the chunk
shuts it down, and waits a moment for hcad's end to go before it gives the pages back; a worker that
ends, fenced or not, closes it.
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Final, Self

from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.messages import SharedRange

SOCKET_NAME: Final = "direct.sock"
MAX_MESSAGE_BYTES: Final = 512
MOST_PASSED_OVER: Final = 64
RANGE_BYTES: Final = ctypes.sizeof(SharedRange)


class DirectGrant(ctypes.Structure):
    """A worker's answer; ``status`` is an errno value, ENOENT where it has no such memory.

    The memory is ``chunk_bytes`` long, and what was asked for begins at ``offset`` in it.
    """

    _fields_ = (
        ("status", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("chunk_bytes", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What hcad asks for: a place by its address, or by its offset in a descriptor's ``range``."""

    request: int
    pid: int
    address: int
    size: int
    skip: int
    range: bytes = b""

    def encode(self) -> bytes:
        """Return the message."""
        message: dict[str, Any] = {
            "type": "export",
            "request": self.request,
            "pid": self.pid,
            "address": self.address,
            "bytes": self.size,
            "skip": self.skip,
        }
        if self.range:
            message["range"] = self.range.hex()
        return spawn.encode(message)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a message.

        Raises:
            ValueError: it is no such request.
        """
        message = spawn.decode(data)
        if message["type"] != "export":
            raise ValueError("not a request for memory")
        names = ("request", "pid", "address", "bytes", "skip")
        request, pid, address, size, skip = (_count(message, name) for name in names)
        made = cls(request, pid, address, size, skip, _range(message))
        if made.address + made.size > 1 << 64 or not made.size or made.skip > MOST_PASSED_OVER:
            raise ValueError("a range that cannot be")
        return made


def encode_answer(request: int, status: int) -> bytes:
    """Return what gpud says."""
    return spawn.encode({"type": "exported", "request": request, "status": status})


def decode_answer(data: bytes) -> tuple[int, int]:
    """Return the request and the status of what gpud says. Raises ValueError."""
    message = spawn.decode(data)
    if message["type"] != "exported":
        raise ValueError("not an answer about memory")
    return _count(message, "request"), _count(message, "status")


def _range(message: dict[str, Any]) -> bytes:
    named = message.get("range", "")
    if not isinstance(named, str) or len(named) not in (0, 2 * RANGE_BYTES):
        raise ValueError("range is not a range of a descriptor")
    return bytes.fromhex(named)


def _count(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{name} is not a count")
    return value
