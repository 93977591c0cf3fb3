"""NVML requests: parsed as strictly as a HELLO, because any program in a pod can send one."""

import ctypes
from typing import Protocol

from vgpu_sim.gpud.model import MigInstance
from vgpu_sim.gpud.slices import hello
from vgpu_sim.gpud.slices.hello import MalformedHello
from vgpu_sim.hal import messages
from vgpu_sim.hal.management import nvml
from vgpu_sim.hal.management.nvml import ManagementOperation, ManagementRequest
from vgpu_sim.hal.messages import Header, MessageType
from vgpu_sim.records import dataclass
from vgpu_sim.system.peers import Peer

REQUEST_BYTES = ctypes.sizeof(Header) + ctypes.sizeof(ManagementRequest)


@dataclass(frozen=True, slots=True)
class Ask:
    """A parsed NVML request. ``uuid`` holds the 16 bytes of a GPU's or an instance's UUID."""

    request: int
    speaks: bool
    """Whether the client and gpud support a common version of the protocol."""
    operation: ManagementOperation
    uuid: bytes
    profile: int
    start: int
    mode: int
    token: bytes


class Answers(Protocol):
    """Answers the requests that arrive on slices' sockets."""

    async def answer_slice_request(
        self, instance: MigInstance, ask: Ask, peer: Peer, sender: Peer | None
    ) -> bytes:
        """Return the whole reply to an NVML request that arrived on an instance's socket."""


def is_request(data: bytes) -> bool:
    """Return whether a message has the type of an NVML request."""
    return (
        len(data) >= ctypes.sizeof(Header)
        and Header.from_buffer_copy(data).type == MessageType.MANAGEMENT
    )


def parse(data: bytes) -> Ask:
    """Parse an NVML request.

    Raises:
        MalformedHello: wrong size, magic, type, operation or reserved fields.
    """
    header, request = hello.read(data, (MessageType.MANAGEMENT,), ManagementRequest)
    if request.reserved:
        raise MalformedHello("reserved fields are not zero")
    if request.operation not in tuple(ManagementOperation):
        raise MalformedHello(f"unknown operation {request.operation}")
    return Ask(
        request=header.request,
        speaks=request.version_min <= messages.PROTOCOL_VERSION
        and request.version_max >= messages.PROTOCOL_OLDEST,
        operation=ManagementOperation(request.operation),
        uuid=bytes(request.uuid),
        profile=request.profile,
        start=request.start,
        mode=request.mode,
        token=bytes(request.token),
    )


def encode(ask: Ask, status: int, report: bytes = b"") -> bytes:
    """Encode the reply to an NVML request. Raises ValueError if the report is larger than clients
    accept.
    """
    if len(report) > nvml.MAX_REPORT_BYTES:
        raise ValueError(f"a report has {len(report)} bytes; the limit is {nvml.MAX_REPORT_BYTES}")
    return hello.encode(MessageType.MANAGED, ask.request, report, status)
