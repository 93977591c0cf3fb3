"""rdma_getaddrinfo(): the effect of hints, and the content of the result (rdma/rdma_cma.h)."""

import ctypes
import errno
import socket
import struct
from ctypes import POINTER, byref, c_char, c_int, c_uint, c_void_p

import pytest

from support.kept import native_parts
from vgpu_sim.native import build, catalogue

PASSIVE, NUMERIC_HOST = 1, 2
RC, UD = 2, 4
TCP, UDP = 0x106, 0x111
EAI_NONAME, EAI_ADDRFAMILY = -2, -9


class AddrInfo(ctypes.Structure):
    """``struct rdma_addrinfo``."""


AddrInfo._fields_ = (
    *((name, c_int) for name in ("flags", "family", "qp_type", "port_space")),
    *((name, c_uint) for name in ("src_len", "dst_len")),
    *((name, c_void_p) for name in ("src_addr", "dst_addr", "src_name", "dst_name")),
    *(("route_len", ctypes.c_size_t), ("route", c_void_p)),
    *(("connect_len", ctypes.c_size_t), ("connect", c_void_p)),
    ("next", POINTER(AddrInfo)),
)


@pytest.fixture(scope="module")
def cm() -> ctypes.CDLL:
    native_parts.build_once("libibverbs.so.1", "librdmacm.so.1")
    folder = build.LIBRARIES / catalogue.RDMA
    ctypes.CDLL(str(folder / "libibverbs.so.1"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(folder / "librdmacm.so.1"), use_errno=True)


def address(text: str, port: int) -> bytes:
    packed = socket.inet_pton(socket.AF_INET, text)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + packed + bytes(8)


def resolve_addresses(
    cm, node: bytes | None, service: bytes | None, hints: AddrInfo | None
) -> list[tuple]:
    """Return the results' fields, with addresses as bytes, and free them."""
    made, rows = POINTER(AddrInfo)(), []
    given = None if hints is None else byref(hints)
    assert cm.rdma_getaddrinfo(node, service, given, byref(made)) == 0
    one = made
    while one:
        its = one.contents
        ends = tuple(
            ctypes.string_at(start, size) if start else size
            for start, size in ((its.src_addr, its.src_len), (its.dst_addr, its.dst_len))
        )
        rows.append((its.flags, its.family, its.qp_type, its.port_space, *ends))
        one = its.next
    cm.rdma_freeaddrinfo(made)
    return rows


@pytest.mark.parametrize("ends", [(True, False), (False, True), (True, True)])
def test_without_a_name_the_hints_are_the_answer(cm, ends):
    texts = (address("192.0.2.1", 7), address("192.0.2.2", 8))
    buffers = [(c_char * 16)(*text) for text in texts]
    hints = AddrInfo(flags=NUMERIC_HOST, family=2, qp_type=77, port_space=88)
    for name, buffer, has in zip(("src", "dst"), buffers, ends, strict=True):
        if has:
            setattr(hints, f"{name}_len", 16)
            setattr(hints, f"{name}_addr", ctypes.addressof(buffer))
    expected = (text if has else 0 for text, has in zip(texts, ends, strict=True))
    assert resolve_addresses(cm, None, None, hints) == [(NUMERIC_HOST, 2, 77, 88, *expected)]


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ((0, 0), (RC, TCP)),
        ((UD, 0), (UD, UDP)),
        ((0, UDP), (UD, UDP)),
        ((RC, 0), (RC, TCP)),
        ((0, TCP), (RC, TCP)),
        ((9, UDP), (9, UDP)),
        ((UD, TCP), (UD, TCP)),
    ],
)
@pytest.mark.parametrize("flags", [NUMERIC_HOST, NUMERIC_HOST | PASSIVE])
def test_a_name_resolves_to_the_requested_end_s_address(cm, requested, answered, flags):
    own, its = address("192.0.2.1", 7), address("192.0.2.7", 4791)
    source = (c_char * 16)(*own)
    hints = AddrInfo(
        flags=flags, family=2, qp_type=requested[0], port_space=requested[1], src_len=16
    )
    hints.src_addr = ctypes.addressof(source)
    ends = (its, 0) if flags & PASSIVE else (own, its)
    assert resolve_addresses(cm, b"192.0.2.7", b"4791", hints) == [(flags, 2, *answered, *ends)]


def test_what_no_name_is_given_for_is_left_out(cm):
    assert resolve_addresses(cm, b"192.0.2.7", None, None) == [
        (0, 2, RC, TCP, 0, address("192.0.2.7", 0))
    ]
    (any_address,) = resolve_addresses(cm, None, b"9", AddrInfo(flags=PASSIVE, family=2))
    assert any_address == (PASSIVE, 2, RC, TCP, address("0.0.0.0", 9), 0)
    (any_port,) = resolve_addresses(cm, None, None, AddrInfo(flags=PASSIVE, family=2))
    assert any_port == (PASSIVE, 2, RC, TCP, address("0.0.0.0", 0), 0)


def test_what_is_no_address_is_refused(cm):
    made = POINTER(AddrInfo)()
    for hints in (None, byref(AddrInfo(flags=NUMERIC_HOST))):
        ctypes.set_errno(0)
        assert cm.rdma_getaddrinfo(None, None, hints, byref(made)) == -1
        assert ctypes.get_errno() == errno.EINVAL
    numeric = AddrInfo(flags=NUMERIC_HOST)
    assert cm.rdma_getaddrinfo(b"localhost", None, byref(numeric), byref(made)) == EAI_NONAME
    sixth = AddrInfo(flags=NUMERIC_HOST, family=socket.AF_INET6)
    assert cm.rdma_getaddrinfo(b"192.0.2.7", None, byref(sixth), byref(made)) == EAI_ADDRFAMILY
