"""A classifier that drops RoCE packets with a segment whose fields differ from the first one's.

A pod may give the kernel one large datagram with UDP_SEGMENT set. The datagram crosses a veth
unsegmented, and nftables rules see only its first header. hcad itself sends such datagrams. No
match of nftables reads the data after the first header, but a BPF classifier can (``gso_size``
of ``__sk_buff``, Linux 5.7). It requires that the fields that rules match (opcode, partition and
queue pair) are the same in every segment, so that a verdict on the first segment holds for all.
The engine checks every segment by itself and does not need the classifier, which closes a gap of
the second layer only. Datagrams to other ports pass.

The program is assembled here by hand, so the node needs no compiler.
"""

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_sim.records import dataclass

_BPF_PROG_LOAD: Final = 5
_SYS_BPF: Final[Mapping[str, int]] = {"x86_64": 321, "aarch64": 280}
_SCHED_CLS: Final = 3
_PASS, _DROP = 0xFFFFFFFF, 2  # TC_ACT_UNSPEC: the next classifier decides; TC_ACT_SHOT
_LENGTH, _GSO_SIZE = 0, 176  # offsets in __sk_buff
_PORT: Final = 4791
_UDP: Final = 17

_ETHERNET, _IPV6, _UDP_HEADER, _BTH = 14, 40, 8, 12
_LEAST_SEGMENT: Final = _BTH + 4  # with ICRC; shorter segments are not packets
_MOST_SEGMENTS: Final = 64  # UDP_MAX_SEGMENTS was 64 until Linux 6.9; hcad sends at most 63
# Operation codes of eBPF (RFC 9669), and the legacy packet loads, which classifiers may still use.
_MOV_REGISTER, _MOV, _AND, _SHIFT_LEFT, _EXIT = 0xBF, 0xB7, 0x57, 0x67, 0x95
_ADD, _ADD_REGISTER, _LOAD, _STORE = 0x07, 0x0F, 0x79, 0x7B  # double words on the stack
_IF_NOT_BELOW_REGISTER, _IF_ABOVE_REGISTER, _IF_DIFFERENT_REGISTER = 0x3D, 0x2D, 0x5D
_IF_BELOW = 0xA5
_LOAD_PACKET_BYTE_AT, _LOAD_PACKET_WORD_AT = 0x50, 0x40
_LOAD_WORD, _LOAD_PACKET_BYTE, _LOAD_PACKET_HALF = 0x61, 0x30, 0x28
_LOAD_PACKET_HALF_AT = 0x48  # at a register's value plus a constant
_IF_EQUAL, _IF_DIFFERENT, _ALWAYS = 0x15, 0x55, 0x05


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction; if it is a jump, ``to`` names the label to which it goes."""

    code: int
    target: int = 0
    source: int = 0
    offset: int = 0
    value: int = 0
    to: str = ""


# For each compared field of the base transport header: the load instruction, the offset, and the
# stack offset of the first segment's value. The last field is a reserved byte and the queue pair.
_COMPARED: Final = (
    (_LOAD_PACKET_BYTE_AT, 0, -8),
    (_LOAD_PACKET_HALF_AT, 2, -16),
    (_LOAD_PACKET_WORD_AT, 4, -24),
)
_FRAME, _LENGTH_AT, _SIZE_AT = 10, -32, -40


def _save(register: int, place: int) -> _Step:
    return _Step(_STORE, _FRAME, register, place)


def _restore(register: int, place: int) -> _Step:
    return _Step(_LOAD, register, _FRAME, place)


def _first() -> Iterator[_Step | str]:
    for load, at, place in _COMPARED:
        yield _Step(load, 0, 7, value=_ETHERNET + _UDP_HEADER + at)
        yield _save(0, place)


def _others() -> Iterator[_Step | str]:
    """Yield the code that compares each further segment with the first one.

    Packet loads do not change the registers r6 to r9 or the stack.
    """
    for _ in range(_MOST_SEGMENTS - 1):
        yield _restore(1, _SIZE_AT)
        yield _Step(_ADD_REGISTER, 7, 1)
        yield _Step(_MOV_REGISTER, 8, 7)
        yield _Step(_ADD, 8, value=_ETHERNET + _UDP_HEADER)
        yield _restore(1, _LENGTH_AT)
        yield _Step(_IF_NOT_BELOW_REGISTER, 8, 1, to="pass")  # there is no further segment
        yield _Step(_ADD, 8, value=_LEAST_SEGMENT)
        # A load beyond the end would end the program, and let the packet pass.
        yield _Step(_IF_ABOVE_REGISTER, 8, 1, to="drop")
        for load, at, place in _COMPARED:
            yield _Step(load, 0, 7, value=_ETHERNET + _UDP_HEADER + at)
            yield _restore(1, place)
            yield _Step(_IF_DIFFERENT_REGISTER, 0, 1, to="drop")
    yield _restore(1, _SIZE_AT)
    yield _Step(_ADD_REGISTER, 7, 1)
    yield _Step(_ADD, 7, value=_ETHERNET + _UDP_HEADER)
    yield _restore(1, _LENGTH_AT)
    yield _Step(_IF_NOT_BELOW_REGISTER, 7, 1, to="pass")
    yield _Step(_ALWAYS, to="drop")  # more segments than any sender produces


# r6 holds the packet for the packet loads, whose results come in r0; r7 is the offset of the UDP
# header after the Ethernet header, then that of a segment as if it had its own headers.
_PROGRAM: Final[tuple[_Step | str, ...]] = (
    _Step(_MOV_REGISTER, 6, 1),
    _Step(_LOAD_WORD, 2, 1, _GSO_SIZE),
    _Step(_IF_EQUAL, 2, value=0, to="pass"),
    _save(2, _SIZE_AT),
    _Step(_LOAD_WORD, 3, 1, _LENGTH),
    _save(3, _LENGTH_AT),
    _Step(_LOAD_PACKET_HALF, value=12),
    _Step(_IF_EQUAL, 0, value=0x0800, to="ipv4"),
    _Step(_IF_EQUAL, 0, value=0x86DD, to="ipv6"),
    _Step(_ALWAYS, to="pass"),
    "ipv4",
    _Step(_LOAD_PACKET_BYTE, value=_ETHERNET + 9),
    _Step(_IF_DIFFERENT, 0, value=_UDP, to="pass"),
    _Step(_LOAD_PACKET_BYTE, value=_ETHERNET),
    _Step(_AND, 0, value=0x0F),
    _Step(_SHIFT_LEFT, 0, value=2),
    _Step(_MOV_REGISTER, 7, 0),
    _Step(_ALWAYS, to="udp"),
    "ipv6",
    _Step(_LOAD_PACKET_BYTE, value=_ETHERNET + 6),
    _Step(_IF_EQUAL, 0, value=6, to="pass"),  # TCP
    _Step(_IF_DIFFERENT, 0, value=_UDP, to="drop"),  # extension headers, which are not parsed
    _Step(_MOV, 7, value=_IPV6),
    "udp",
    _Step(_LOAD_PACKET_HALF_AT, 0, 7, value=_ETHERNET + 2),
    _Step(_IF_DIFFERENT, 0, value=_PORT, to="pass"),
    _restore(2, _SIZE_AT),
    _Step(_IF_BELOW, 2, value=_LEAST_SEGMENT, to="drop"),
    _Step(_MOV_REGISTER, 8, 7),
    _Step(_ADD, 8, value=_ETHERNET + _UDP_HEADER + _LEAST_SEGMENT),
    _restore(1, _LENGTH_AT),
    _Step(_IF_ABOVE_REGISTER, 8, 1, to="drop"),
    *_first(),
    *_others(),
    "pass",
    _Step(_MOV, 0, value=_PASS),
    _Step(_EXIT),
    "drop",
    _Step(_MOV, 0, value=_DROP),
    _Step(_EXIT),
)


def classifier_code() -> bytes:
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
    """Load the classifier into the kernel and return its descriptor.

    After the descriptor is closed, the classifier stays in the kernel as long as a filter uses
    it.

    Raises:
        OSError: the kernel refuses it, or this process lacks CAP_BPF or CAP_NET_ADMIN.
    """
    code = ctypes.create_string_buffer(classifier_code())
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
