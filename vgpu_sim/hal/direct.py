"""GPUDirect RDMA: how hcad gets a device's memory from the worker that has it.

hcad connects to ``direct.sock`` in gpud's directory (SOCK_SEQPACKET) and sends one JSON object:

    {"type": "export", "pid": p, "address": a, "bytes": b, "skip": n}

``pid`` is a program that has opened an HCA function; of its contexts the first ``n`` are passed
over, as they have answered ENOENT. gpud hands the *connection* on to the context's worker, or
answers itself: ESRCH where there is no such context (any more), EINVAL, EPERM. A worker answers
with a ``DirectGrant`` and, if its status is 0, with the chunk's memory, a sealed memfd.

The connection stays, and is the right: its end is the memory's end. A worker that frees the chunk
shuts it down, and waits a moment for hcad's end to go before it gives the pages back; a worker that
ends, fenced or not, closes it.
"""

import ctypes
from typing import Any, Final

from vgpu_sim.hal import spawn

SOCKET_NAME: Final = "direct.sock"
MAX_REQUEST_BYTES: Final = 512
MOST_PASSED_OVER: Final = 64


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


def encode_request(pid: int, address: int, size: int, skip: int) -> bytes:
    """Return what hcad sends."""
    return spawn.encode(
        {"type": "export", "pid": pid, "address": address, "bytes": size, "skip": skip}
    )


def decode_request(data: bytes) -> tuple[int, int, int, int]:
    """Return process, address, size and how many contexts are to be passed over.

    Raises:
        ValueError: it is not such a request.
    """
    message = spawn.decode(data)
    if message["type"] != "export":
        raise ValueError("not a request for memory")
    pid, address, size, skip = (_count(message, n) for n in ("pid", "address", "bytes", "skip"))
    if address + size > 1 << 64 or not size or skip > MOST_PASSED_OVER:
        raise ValueError("a range that cannot be")
    return pid, address, size, skip


def _count(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{name} is not a count")
    return value
