"""The requests that each call of librdmacm sends to hcad, and the handling of the replies."""

import ctypes
import errno
import socket
import struct
import subprocess
from ctypes import (
    c_bool,
    c_char,
    c_int,
    c_uint8,
    c_uint16,
    c_uint32,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path
from typing import TypeVar

import pytest

from hca.contract.cm import CmAddress, CmBind, CmConnect, CmMessage, CmPair, CmReject, CmRoute
from hca.contract.verbs import VerbsQpType
from vgpu_sim.native import build, catalogue

T = TypeVar("T", bound=ctypes.Structure)
CALLS = Path(__file__).parents[3] / "support/native/rdmacm_parts/calls.c"
RC, UD = VerbsQpType.RC, VerbsQpType.UD
DEFAULT = 0xFF
V4, V4_IN = "192.0.2.7", bytes(10) + b"\xff\xff" + socket.inet_aton("192.0.2.7")
V6, V6_IN = "2001:db8::9", socket.inet_pton(socket.AF_INET6, "2001:db8::9")


class Param(ctypes.Structure):
    """``struct rdma_conn_param``."""

    _fields_ = (
        ("data", c_void_p),
        *((name, c_uint8) for name in ("data_len", "responder_resources", "initiator_depth")),
        *((name, c_uint8) for name in ("flow_control", "retry_count", "rnr_retry_count", "srq")),
        ("qp_num", c_uint32),
    )


class Seen(ctypes.Structure):
    """The effects of a call: its last request, and how often it did other things."""

    _fields_ = (
        *((name, c_uint32) for name in ("type", "bytes", "completions")),
        *((name, c_uint32) for name in ("bindings", "failures", "connections")),
        *(("resources", c_uint8), ("depth", c_uint8), ("payload", c_uint8 * 512)),
    )


class Library:
    """Some of the library's files, linked with a substitute for the sending of requests."""

    def __init__(self, output: Path) -> None:
        native = catalogue.RDMA_CLIENTS
        command = [build.compiler(), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared"]
        command += ["-fPIC", *(f"-I{one / 'librdmacm'}" for one in (native, catalogue.GENERATED))]
        command += [f"-I{native / 'libibverbs'}", f"-I{catalogue.COMMON}", f"-I{catalogue.INCLUDE}"]
        sources = ("addresses.c", "connect.c", "sockets.c")
        command += [str(CALLS), *(str(native / "librdmacm" / one) for one in sources)]
        subprocess.run([*command, "-o", str(output)], check=True)
        self.calls = ctypes.CDLL(str(output), use_errno=True)
        self.calls.cm_begin.restype = c_void_p
        self.calls.cm_seen.restype = ctypes.POINTER(Seen)
        for name in ("get_src_port", "get_dst_port"):
            getattr(self.calls, f"tsr_rdma_{name}").restype = c_uint16
        self.begin()

    def begin(self, kind: int = RC, has_qp: bool = False, has_srq: bool = False) -> None:
        """Reset the library's state, and create an id."""
        self.id = c_void_p(self.calls.cm_begin(c_int(kind), c_bool(has_qp), c_bool(has_srq)))

    def answer(
        self, error: int = 0, device: int = 0, qp: int = 0, route: CmRoute | None = None
    ) -> None:
        """Set the replies to the next calls."""
        given = ctypes.byref(route) if route is not None else None
        self.calls.cm_answer(error, device, qp, given)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function with the id; return 0 or the errno."""
        ctypes.set_errno(0)
        result = getattr(self.calls, f"tsr_rdma_{name}")(self.id, *arguments)
        assert result in (0, -1)
        assert (result == 0) or ctypes.get_errno() != 0
        return ctypes.get_errno() if result else 0

    @property
    def seen(self) -> Seen:
        return self.calls.cm_seen().contents  # type: ignore[no-any-return]

    def request(self, kind: type[T], message: CmMessage) -> T:
        """Return the last request, which must be of this type."""
        assert (self.seen.type, self.seen.bytes) == (message, ctypes.sizeof(kind))
        return kind.from_buffer_copy(bytes(self.seen.payload))

    def addresses(self) -> tuple[bytes, bytes]:
        """Return the id's source and destination, as socket addresses."""
        found = (c_char * 28)(), (c_char * 28)()
        self.calls.cm_addresses(*found)
        return found[0].raw, found[1].raw


@pytest.fixture(scope="module")
def rdmacm_calls(tmp_path_factory) -> Library:
    return Library(tmp_path_factory.mktemp("rdmacm") / "calls.so")


@pytest.fixture
def cm(rdmacm_calls) -> Library:
    rdmacm_calls.begin()
    return rdmacm_calls


def sock(text: str, port: int) -> bytes:
    """Return a socket's address, 28 bytes long."""
    if ":" in text:
        packed = socket.inet_pton(socket.AF_INET6, text)
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + packed + bytes(4)
    return (struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(text)
            + bytes(20))  # fmt: skip


def make_sockaddr(text: str | None, port: int = 0) -> object:
    return None if text is None else create_string_buffer(sock(text, port), 28)


def there(address: bytes, port: int) -> CmAddress:
    return CmAddress((c_uint8 * 16)(*address), port)


def pair(one: CmAddress) -> tuple[bytes, int]:
    return bytes(one.address), one.port


@pytest.mark.parametrize(
    ("text", "port", "wanted"),
    [
        *((V4, 0x1234, V4_IN), (V6, 0x1234, V6_IN), ("0.0.0.0", 7, bytes(16))),
        *(("::", 7, bytes(16)), ("0.0.0.1", 0, bytes(10) + b"\xff\xff" + bytes(3) + b"\1")),
    ],
    ids=["IPv4", "IPv6", "any IPv4", "any IPv6", "no port"],
)
def test_an_address_goes_to_hcad_with_its_port(cm, text, port, wanted):
    assert cm.call("bind_addr", make_sockaddr(text, port)) == 0
    request = cm.request(CmBind, CmMessage.BIND)
    assert (request.handle, request.reuse) == (0x51, 1)
    assert (pair(request.source), pair(request.destination)) == ((wanted, port), (bytes(16), 0))


@pytest.mark.parametrize(
    ("text", "route", "source"),
    [
        ("0.0.0.0", (V4_IN, 9), sock(V4, 9)),
        (V4, (V6_IN, 9), sock(V6, 9)),
        ("0.0.0.0", (bytes(16), 9), sock("0.0.0.0", 9)),
        ("::", (bytes(16), 0x102), sock("::", 0x102)),
    ],
    ids=["any IPv4", "another family", "still any", "still any IPv6"],
)
@pytest.mark.parametrize("device", [0, 1])
def test_a_bound_id_has_the_address_that_hcad_chose(cm, text, route, source, device):
    cm.answer(route=CmRoute(there(*route), has_device=device))
    assert cm.call("bind_addr", make_sockaddr(text, 5)) == 0
    assert cm.addresses()[0] == source
    assert cm.calls.tsr_rdma_get_src_port(cm.id) == struct.unpack("=H", source[2:4])[0]
    assert cm.calls.tsr_rdma_get_dst_port(cm.id) == 0
    assert cm.seen.bindings == device


@pytest.mark.parametrize(
    ("source", "destination"),
    [((V4, V4_IN, 3), (V6, V6_IN, 4)), ((V6, V6_IN, 4), ("::", bytes(16), 0))],
    ids=["both families", "no destination"],
)
def test_a_route_is_both_of_an_ids_addresses(cm, source, destination):
    route = CmRoute(there(*source[1:]), there(*destination[1:]))
    cm.calls.tsr_id_set_route(cm.id, ctypes.byref(route))
    assert cm.addresses() == (sock(source[0], source[2]), sock(destination[0], destination[2]))


def test_a_refused_call_leaves_an_id_unchanged(cm):
    unknown = create_string_buffer(b"\1\0" + bytes(26), 28)
    assert cm.call("bind_addr", None) == errno.EINVAL
    assert cm.call("bind_addr", unknown) == errno.EAFNOSUPPORT
    assert cm.call("resolve_addr", make_sockaddr(V4), None, 1) == errno.EINVAL
    assert cm.call("resolve_addr", None, unknown, 1) == errno.EAFNOSUPPORT
    assert cm.call("resolve_addr", unknown, make_sockaddr(V4), 1) == errno.EAFNOSUPPORT
    assert cm.seen.type == 0, "hcad has got no request"
    cm.answer(error=errno.EADDRINUSE)
    assert cm.call("bind_addr", make_sockaddr(V4, 5)) == errno.EADDRINUSE
    assert cm.call("resolve_addr", None, make_sockaddr(V4), 1) == errno.EADDRINUSE
    assert cm.call("resolve_route", 1) == errno.EADDRINUSE
    assert cm.call("listen", 1) == errno.EADDRINUSE
    assert cm.addresses() == (bytes(28), bytes(28))
    assert (cm.seen.completions, cm.seen.bindings) == (0, 0)
    cm.answer(device=errno.ENODEV, route=CmRoute(there(V4_IN, 9), has_device=1))
    assert cm.call("bind_addr", make_sockaddr(V4, 5)) == errno.ENODEV


@pytest.mark.parametrize(("source", "wanted"), [(None, (bytes(16), 0)), (V6, (V6_IN, 3))], ids=str)
def test_addresses_are_resolved_from_a_source_or_from_any(cm, source, wanted):
    assert cm.call("resolve_addr", make_sockaddr(source, 3), make_sockaddr(V4, 4), 1) == 0
    request = cm.request(CmBind, CmMessage.RESOLVE_ADDRESS)
    assert (request.handle, request.reuse) == (0x51, 1)
    assert (pair(request.source), pair(request.destination)) == (wanted, (V4_IN, 4))
    assert cm.seen.completions == 1
    assert cm.call("resolve_route", 1) == 0
    assert (cm.seen.type, cm.seen.completions) == (CmMessage.RESOLVE_ROUTE, 2)


@pytest.mark.parametrize(("backlog", "wanted"), [(-1, 0), (0, 0), (1, 1), (70000, 70000)])
def test_a_listener_has_the_port_that_hcad_chose(cm, backlog, wanted):
    cm.answer(route=CmRoute(there(V4_IN, 0x0908), there(V6_IN, 7)))
    assert cm.call("listen", backlog) == 0
    request = cm.request(CmPair, CmMessage.LISTEN)
    assert (request.handle, request.value) == (0x51, wanted)
    assert cm.calls.tsr_rdma_get_src_port(cm.id) == socket.htons(0x0908)


LIMITS = [(0, 0, 0), (1, 1, 1), (16, 16, 16), (17, 16, 16), (254, 16, 16)]


@pytest.mark.parametrize(("wanted", "of_connect", "of_accept"), [*LIMITS, (DEFAULT, 16, None)])
def test_how_many_reads_a_connection_has_is_limited(cm, wanted, of_connect, of_accept):
    """If the program sets no limit, an acceptance uses the peer's limit."""
    for call, message, found in (
        ("connect", CmMessage.CONNECT, (of_connect, of_connect)),
        ("accept", CmMessage.ACCEPT, (5, 6) if of_accept is None else (of_accept, of_accept)),
    ):
        param = Param(responder_resources=wanted, initiator_depth=wanted)
        assert cm.call(call, ctypes.byref(param)) == 0
        request = cm.request(CmConnect, message)
        assert (request.responder_resources, request.initiator_depth) == found
        if wanted == DEFAULT:
            assert cm.call(call, None) == 0
            request = cm.request(CmConnect, message)
            assert (request.responder_resources, request.initiator_depth) == found
            assert (request.retry_count, request.rnr_retry_count) == (7, 7)


@pytest.mark.parametrize("call", ["connect", "accept"])
@pytest.mark.parametrize("has_qp", [True, False])
@pytest.mark.parametrize(("has_srq", "srq"), [(False, 0), (True, 0), (False, 1)])
def test_a_connection_is_requested_with_each_parameter(cm, call, has_qp, has_srq, srq):
    cm.begin(RC, has_qp, has_srq)
    data = create_string_buffer(bytes(range(1, 225)), 224)
    param = Param(ctypes.addressof(data), 224, 2, 3, 1, 4, 5, srq, 0x99)
    assert cm.call(call, ctypes.byref(param)) == 0
    request = cm.request(CmConnect, CmMessage[call.upper()])
    assert (request.handle, request.qkey) == (0x51, 0x71)
    assert (request.traffic_class, request.ack_timeout) == (0x81, 0x19)
    assert request.qpn == (0x61 if has_qp else 0x99)
    assert request.srq == (has_srq or (srq == 1 and not has_qp))
    assert (request.responder_resources, request.initiator_depth) == (2, 3)
    assert (request.flow_control, request.retry_count, request.rnr_retry_count) == (1, 4, 5)
    assert bytes(request.data[: request.data_bytes]) == data.raw
    assert cm.seen.completions == 1
    assert cm.seen.connections == (call == "accept" and has_qp)
    if cm.seen.connections:
        assert (cm.seen.resources, cm.seen.depth) == (2, 3)
    param.data_len = 225
    assert cm.call(call, ctypes.byref(param)) == errno.EINVAL
    param.data_len = 0
    assert cm.call(call, ctypes.byref(param)) == 0
    param.data, param.data_len = None, 8
    assert cm.call(call, ctypes.byref(param)) == 0
    assert cm.request(CmConnect, CmMessage[call.upper()]).data_bytes == 0


@pytest.mark.parametrize(("kind", "completions"), [(RC, 1), (UD, 0)])
def test_datagrams_are_accepted_at_once_and_not_ended(cm, kind, completions):
    cm.begin(kind, has_qp=True)
    assert cm.call("accept", None) == 0
    assert (cm.seen.completions, cm.seen.connections) == (completions, completions)
    assert cm.call("disconnect") == (errno.EINVAL if kind == UD else 0)
    assert (cm.seen.completions, cm.seen.failures) == (2 * completions, completions)


def test_an_acceptance_that_fails_ends_its_queue_pair(cm):
    cm.begin(RC, has_qp=True)
    cm.answer(qp=-1)
    assert cm.call("accept", None) == errno.EPERM
    assert (cm.seen.type, cm.seen.failures) == (0, 0)
    cm.answer(error=errno.ECONNABORTED)
    assert cm.call("accept", None) == errno.ECONNABORTED
    assert (cm.seen.failures, cm.seen.completions) == (1, 0)
    assert cm.call("connect", None) == errno.ECONNABORTED
    assert cm.call("disconnect") == errno.ECONNABORTED
    assert (cm.seen.failures, cm.seen.completions) == (2, 0)


@pytest.mark.parametrize(("size", "error"), [(0, 0), (1, 0), (224, 0), (225, errno.EINVAL)])
def test_a_rejection_has_its_data(cm, size, error):
    data = bytes(range(30, 30 + min(size, 225)))
    assert cm.call("reject", data if size else None, c_uint8(size)) == error
    if error == 0:
        request = cm.request(CmReject, CmMessage.REJECT)
        assert (request.handle, request.data_bytes) == (0x51, size)
        assert bytes(request.data[:size]) == data
    else:
        assert cm.seen.type == 0


def test_events_before_a_connection_is_established(cm):
    assert cm.call("notify", 3) == errno.EINVAL
    assert cm.call("notify", 5) == errno.EINVAL
    assert cm.seen.type == 0
    assert cm.call("notify", 4) == 0
    assert (cm.seen.type, cm.seen.payload[0]) == (CmMessage.NOTIFY, 0x51)
    assert cm.call("establish") == 0
    assert (cm.seen.type, cm.seen.payload[0]) == (CmMessage.ESTABLISH, 0x51)
    cm.begin(RC, has_qp=True)
    assert cm.call("establish") == errno.EINVAL
