"""GPUDirect RDMA: how hcad gets device memory from the worker that owns it.

hcad does not connect to other processes: gpud connects to ``direct.sock`` in hcad's directory
(SOCK_SEQPACKET) and states whose device memory gpud can provide, as the token of a run, or zeros
for all pods of the node. Then hcad sends JSON objects

    {"type": "export", "request": n, "pid": p, "address": a, "bytes": b, "skip": k}

``pid`` is a program that has opened an HCA function; the first ``k`` of its contexts are
skipped, because they have answered ENOENT. With a field ``"range": hex`` the memory is the range
that a ``messages.SharedRange`` names, and ``address`` is an offset in it; the program has read
the ``SharedRange`` from a descriptor, and the worker that created it verifies it. gpud answers

    {"type": "exported", "request": n, "status": errno}

with ESRCH if there is no such context (any more), EINVAL, or 0 and one end of a connection whose
other end it gave to the context's worker. On that connection the worker sends a ``DirectGrant``
and, if its status is 0, the chunk's memory: a sealed memfd.

The connection stays open and represents the right to use the memory; the right ends with the
connection. A worker that frees the chunk shuts the connection down, and waits a moment for hcad
to close its end before it releases the pages. A worker that ends, fenced or not, closes the
connection.
"""

import ctypes
from typing import Any, Final, Self

from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.messages import SharedRange
from vgpu_sim.records import dataclass

SOCKET_NAME: Final = "direct.sock"
MAX_MESSAGE_BYTES: Final = 512
MOST_PASSED_OVER: Final = 64
RANGE_BYTES: Final = ctypes.sizeof(SharedRange)


class DirectGrant(ctypes.Structure):
    """A worker's answer to a request for device memory. ``status`` is an errno value; ENOENT: the
    worker has no such memory.

    The memory is ``chunk_bytes`` long, and the requested range begins at ``offset`` in it.
    """

    _fields_ = (
        ("status", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("chunk_bytes", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """hcad's request for device memory.

    The memory is identified by its address in the process ``pid``. If ``range`` is set,
    ``range`` is the content of a descriptor that identifies a range of memory, and ``address``
    is an offset in that range of memory.
    """

    request: int
    pid: int
    address: int
    size: int
    skip: int
    range: bytes = b""

    def encode(self) -> bytes:
        """Encode the request."""
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
        """Parse a request.

        Raises:
            ValueError: the data is not a valid request.
        """
        message = spawn.decode(data)
        if message["type"] != "export":
            raise ValueError("the message is not a request for memory")
        names = ("request", "pid", "address", "bytes", "skip")
        request, pid, address, size, skip = (_count(message, name) for name in names)
        export_request = cls(request, pid, address, size, skip, _range(message))
        if (
            export_request.address + export_request.size > 1 << 64
            or not export_request.size
            or export_request.skip > MOST_PASSED_OVER
        ):
            raise ValueError("the requested range is empty or out of bounds")
        return export_request


def encode_answer(request: int, status: int) -> bytes:
    """Encode gpud's answer to request number ``request``; ``status`` is an errno value or 0."""
    return spawn.encode({"type": "exported", "request": request, "status": status})


def decode_answer(data: bytes) -> tuple[int, int]:
    """Return the request number and the status of gpud's answer. Raises ValueError."""
    message = spawn.decode(data)
    if message["type"] != "exported":
        raise ValueError("the message is not an answer to a request for memory")
    return _count(message, "request"), _count(message, "status")


def _range(message: dict[str, Any]) -> bytes:
    named = message.get("range", "")
    if not isinstance(named, str) or len(named) not in (0, 2 * RANGE_BYTES):
        raise ValueError(f"'range' must be empty or {2 * RANGE_BYTES} hexadecimal digits")
    return bytes.fromhex(named)


def _count(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{name} must be an integer from 0 to 2^64 - 1")
    return value
