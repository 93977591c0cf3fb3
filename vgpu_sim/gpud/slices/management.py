"""A request of NVML: read as strictly as a HELLO, because any program in a pod can send one."""

import ctypes
from dataclasses import dataclass
from typing import Protocol

from vgpu_sim.gpud.model import MigInstance
from vgpu_sim.gpud.slices import hello
from vgpu_sim.gpud.slices.hello import MalformedHello
from vgpu_sim.hal import messages
from vgpu_sim.hal.management import nvml
from vgpu_sim.hal.management.nvml import ManagementOperation, ManagementRequest
from vgpu_sim.hal.messages import Header, MessageType
from vgpu_sim.system.peers import Peer

REQUEST_BYTES = ctypes.sizeof(Header) + ctypes.sizeof(ManagementRequest)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a program asks; ``uuid`` are the 16 bytes of a GPU's or an instance's."""

    request: int
    speaks: bool
    """Whether both sides have a version of the protocol in common."""
    operation: ManagementOperation
    uuid: bytes
    profile: int
    start: int
    mode: int
    token: bytes


class Answers(Protocol):
    """Answers the requests that come in on slices' sockets."""

    async def of_slice(
        self, instance: MigInstance, ask: Ask, peer: Peer, sender: Peer | None
    ) -> bytes:
        """Return the whole reply."""


def is_request(data: bytes) -> bool:
    """Tell whether a message says that it is one for management."""
    return (
        len(data) >= ctypes.sizeof(Header)
        and Header.from_buffer_copy(data).type == MessageType.MANAGEMENT
    )


def parse(data: bytes) -> Ask:
    """Read a request.

    Raises:
        MalformedHello: wrong size, magic, type, operation or reserved fields.
    """
    header, asked = hello.read(data, (MessageType.MANAGEMENT,), ManagementRequest)
    if asked.reserved:
        raise MalformedHello("reserved fields are not zero")
    if asked.operation not in tuple(ManagementOperation):
        raise MalformedHello(f"operation {asked.operation}")
    return Ask(
        request=header.request,
        speaks=asked.version_min <= messages.PROTOCOL_VERSION
        and asked.version_max >= messages.PROTOCOL_OLDEST,
        operation=ManagementOperation(asked.operation),
        uuid=bytes(asked.uuid),
        profile=asked.profile,
        start=asked.start,
        mode=asked.mode,
        token=bytes(asked.token),
    )


def encode(ask: Ask, status: int, report: bytes = b"") -> bytes:
    """Encode a reply. Raises ValueError for a report that no client takes."""
    if len(report) > nvml.MAX_REPORT_BYTES:
        raise ValueError(f"a report of {len(report)} bytes")
    return hello.encode(MessageType.MANAGED, ask.request, report, status)
