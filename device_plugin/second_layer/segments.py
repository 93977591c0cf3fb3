"""A classifier that drops RoCE packets which a later hop would cut into several.

A pod may hand the kernel one large datagram with UDP_SEGMENT set; it crosses a veth whole, and
rules of nftables see its first header alone. No match of nftables tells such a packet; ``gso_size``
of a BPF classifier does (``__sk_buff``, Linux 5.7). The engine judges every segment by itself and
does not need this; it closes the second layer. Datagrams of other ports pass.

The program is written here by hand, and so needs no compiler on the node.
"""

import ctypes
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_BPF_PROG_LOAD: Final = 5
_SYS_BPF: Final[Mapping[str, int]] = {"x86_64": 321, "aarch64": 280}
_SCHED_CLS: Final = 3
_PASS, _DROP = 0xFFFFFFFF, 2  # TC_ACT_UNSPEC: whoever comes next decides; TC_ACT_SHOT
_GSO_SIZE: Final = 176  # of __sk_buff
_PORT: Final = 4791
_UDP: Final = 17

# Operation codes of eBPF (RFC 9669), and the packet loads that classifiers have kept.
_MOV_REGISTER, _MOV, _AND, _SHIFT_LEFT, _EXIT = 0xBF, 0xB7, 0x57, 0x67, 0x95
_LOAD_WORD, _LOAD_PACKET_BYTE, _LOAD_PACKET_HALF = 0x61, 0x30, 0x28
_LOAD_PACKET_HALF_AT = 0x48  # at a register's value plus a constant
_IF_EQUAL, _IF_DIFFERENT, _ALWAYS = 0x15, 0x55, 0x05


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction; ``to`` names the label that a jump goes to."""

    code: int
    target: int = 0
    source: int = 0
    offset: int = 0
    value: int = 0
    to: str = ""


# r6 holds the packet for the packet loads, whose results come in r0.
_PROGRAM: Final[tuple[_Step | str, ...]] = (
    _Step(_MOV_REGISTER, 6, 1),
    _Step(_LOAD_WORD, 2, 1, _GSO_SIZE),
    _Step(_IF_EQUAL, 2, value=0, to="pass"),
    _Step(_LOAD_PACKET_HALF, value=12),
    _Step(_IF_EQUAL, 0, value=0x0800, to="ipv4"),
    _Step(_IF_EQUAL, 0, value=0x86DD, to="ipv6"),
    _Step(_ALWAYS, to="pass"),
    "ipv4",
    _Step(_LOAD_PACKET_BYTE, value=14 + 9),
    _Step(_IF_DIFFERENT, 0, value=_UDP, to="pass"),
    _Step(_LOAD_PACKET_BYTE, value=14),
    _Step(_AND, 0, value=0x0F),
    _Step(_SHIFT_LEFT, 0, value=2),
    _Step(_MOV_REGISTER, 7, 0),
    _Step(_LOAD_PACKET_HALF_AT, 0, 7, value=14 + 2),
    _Step(_IF_EQUAL, 0, value=_PORT, to="drop"),
    _Step(_ALWAYS, to="pass"),
    "ipv6",
    _Step(_LOAD_PACKET_BYTE, value=14 + 6),
    _Step(_IF_EQUAL, 0, value=6, to="pass"),  # TCP
    _Step(_IF_DIFFERENT, 0, value=_UDP, to="drop"),  # behind headers that nobody looks through
    _Step(_LOAD_PACKET_HALF, value=14 + 40 + 2),
    _Step(_IF_EQUAL, 0, value=_PORT, to="drop"),
    "pass",
    _Step(_MOV, 0, value=_PASS),
    _Step(_EXIT),
    "drop",
    _Step(_MOV, 0, value=_DROP),
    _Step(_EXIT),
)


def program() -> bytes:
    """Return the classifier's code: eBPF instructions of eight bytes."""
    places: dict[str, int] = {}
    steps: list[_Step] = []
    for entry in _PROGRAM:
        if isinstance(entry, str):
            places[entry] = len(steps)
        else:
            steps.append(entry)
    code = b""
    for place, step in enumerate(steps):
        offset = places[step.to] - place - 1 if step.to else step.offset
        registers = step.target | step.source << 4
        code += struct.pack("<BBhI", step.code, registers, offset, step.value)
    return code


def load() -> int:
    """Load the classifier and return its descriptor; a filter that has it keeps it in the kernel.

    Raises:
        OSError: the kernel refuses it, or this process may not (CAP_BPF and CAP_NET_ADMIN).
    """
    code = ctypes.create_string_buffer(program())
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    count = (len(code) - 1) // 8
    return _bpf(
        _BPF_PROG_LOAD,
        struct.pack("<IIQQ", _SCHED_CLS, count, ctypes.addressof(code), ctypes.addressof(licence)),
    )


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    padded = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = libc.syscall(
        ctypes.c_long(_SYS_BPF[os.uname().machine]),
        ctypes.c_int(command),
        padded,
        ctypes.c_uint(128),
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf: {os.strerror(number)}")
    return int(result)
