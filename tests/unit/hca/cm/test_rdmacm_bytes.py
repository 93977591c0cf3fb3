"""Each message of the connection manager as bytes, and the numbers in it, from the specification.

InfiniBand Architecture Specification volume 1, 12.6.5 to 12.6.9, 12.11 and 13.4.3. An encoder
and a decoder with the same error would agree, so the expected bytes are written out here.
"""

import ctypes
import errno

import pytest

from hca.contract import cm
from hca.daemon.cm import connection, events, mad_codec, private_data
from hca.daemon.cm.connection import Connection, State
from hca.daemon.cm.messages import (
    MOST_DATA,
    Drep,
    Dreq,
    Message,
    Mra,
    Path,
    Reason,
    Rej,
    Rejected,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
    SidrStatus,
    timeout_to_seconds,
)
from hca.daemon.cm.policy import Refusal, Service, service_of
from hca.daemon.cm.wire import _match
from support.connections.cm_rig import gid, parameters

NUMBERS = "11223344" + "55667788"  # local and remote communication id
PATH = Path(bytes(range(16)), bytes(range(16, 32)), 0xA1, 0xB2, 0xC3D4E, 0x9, 0x15)
REQ = Req(
    *(0x11223344, 0x0102030405060708, PATH, 0x0A0B0C, 0x0D0E0F, bytes(range(0x30, 0x38))),
    *(0x21, 0x22, 5, 6, 1, 1, 2, 4, 0x8123, 19, 13, b"private"),
)
REQUEST = "".join(
    (
        *("11223344", "00" * 4, "0102030405060708", "3031323334353637", "00" * 8),  # GUID; Q_Key
        *("0a0b0c21", "00000022"),  # queue pair, responder resources; EECN, initiator depth
        f"000000{19 << 3 | 2 << 1 | 1:02x}",  # EECN; remote timeout, datagrams (2), flow control
        f"0d0e0f{19 << 3 | 5:02x}",  # PSN; local timeout, retries
        *("8123", "46", f"{13 << 4 | 1 << 3:02x}"),  # MTU 4 and RNR 6; CM retries, SRQ
        *("ffff" * 2, bytes(range(32)).hex(), "c3d4e002"),  # LIDs; GIDs; flow label, rate 2
        *("a1b2", "90", f"{0x15 << 3:02x}", "00" * 44),  # class, hops; SL; timeout; no other path
    )
)
BYTES: list[tuple[Message, int, str]] = [
    (REQ, 0x10, REQUEST + b"private".hex()),
    (Mra(0x11223344, 0x55667788, Rejected.REP, 21), 0x11, NUMBERS + "40" + "a8"),
    (
        Rej(0x11223344, 0x55667788, Rejected.OTHER, 0x1234, b"no"),
        *(0x12, NUMBERS + "80" + "00" + "1234" + "00" * 72 + b"no".hex()),
    ),
    (
        Rep(0x11223344, 0x55667788, 0xABCDEF, 0x123456, bytes(range(8)), 7, 9, 5, 1, 1, b"yes"),
        0x13,
        NUMBERS
        + "00" * 4
        + "abcdef00"
        + "00" * 4
        + "12345600"
        + "0709"
        + "01"
        + "b0"
        + bytes(range(8)).hex()
        + b"yes".hex(),
    ),
    (Rtu(0x11223344, 0x55667788, b"go"), 0x14, NUMBERS + b"go".hex()),
    (Dreq(0x11223344, 0x55667788, 0x998877, b"end"), 0x15, NUMBERS + "99887700" + b"end".hex()),
    (Drep(0x11223344, 0x55667788, b"ok"), 0x16, NUMBERS + b"ok".hex()),
    (
        SidrReq(0x11223344, 0x0102030405060708, 0x8765, b"who"),
        *(0x17, "11223344" + "8765" + "0000" + "0102030405060708" + b"who".hex()),
    ),
    (
        SidrRep(0x11223344, SidrStatus.NO_QP, 0xABCDEF, 0x0102030405060708, 0x13572468, b"me"),
        0x18,
        "11223344"
        + "03000000"
        + "abcdef00"
        + "0102030405060708"
        + "13572468"
        + "00" * 72
        + b"me".hex(),
    ),
]


@pytest.mark.parametrize(
    ("message", "attribute", "body"), BYTES, ids=lambda one: type(one).__name__
)
def test_a_message_has_the_bytes_of_its_table(message: Message, attribute: int, body: str) -> None:
    header = "01070203" + "00" * 4 + "0011223344556677" + f"{attribute:04x}" + "00" * 6
    mad = bytes.fromhex(header + body).ljust(256, b"\0")
    assert mad_codec.encode(message, 0x0011223344556677).hex() == mad.hex()
    found, transaction = mad_codec.decode(mad)
    assert transaction == 0x0011223344556677
    room = MOST_DATA.get(type(message))
    if room is None:
        assert found == message
        return
    data = message.data.ljust(room, b"\0")
    assert found == type(message)(
        **{name: getattr(message, name) for name in message.__slots__} | {"data": data}
    )


@pytest.mark.parametrize(
    ("kind", "room"),
    [
        (Req, 92),
        (Rej, 148),
        (Rep, 196),
        (Rtu, 224),
        (Dreq, 220),
        (Drep, 224),
        (SidrReq, 216),
        (SidrRep, 136),
    ],
)
def test_private_data_fills_a_message_and_no_more(kind: type, room: int) -> None:
    assert MOST_DATA[kind] == room
    usual = next(message for message, *_ in BYTES if type(message) is kind)
    fields = {name: getattr(usual, name) for name in usual.__slots__}
    full = kind(**fields | {"data": b"x" * room})
    mad = mad_codec.encode(full, 1)
    assert (len(mad), mad[-1:]) == (256, b"x")
    assert mad_codec.decode(mad)[0] == full
    with pytest.raises(ValueError, match=f"{room + 1} bytes of private data"):
        mad_codec.encode(kind(**fields | {"data": b"x" * (room + 1)}), 1)


@pytest.mark.parametrize("size", [255, 257])
def test_a_mad_has_256_bytes(size: int) -> None:
    mad = mad_codec.encode(Rtu(1, 2), 3).ljust(size, b"\0")[:size]
    with pytest.raises(mad_codec.MalformedMad, match=f"has {size} bytes$"):
        mad_codec.decode(mad)


@pytest.mark.parametrize("attribute", [0x00, 0x0F, 0x19, 0x1A, 0x110])
def test_an_unknown_attribute_is_named_in_the_error(attribute: int) -> None:
    mad = bytearray(mad_codec.encode(Rtu(1, 2), 3))
    mad[16:18] = attribute.to_bytes(2)
    with pytest.raises(mad_codec.MalformedMad, match=f"^unsupported attribute {attribute:#x}$"):
        mad_codec.decode(bytes(mad))


def test_numbers_are_those_of_the_specification() -> None:
    """Tables 119 and 104 of volume 1 (reasons, messages), 12.11.2 (SIDR_REP status)."""
    assert {one.name: one.value for one in Reason} == {
        "NO_RESOURCES": 3,
        "TIMEOUT": 4,
        "UNSUPPORTED": 5,
        "INVALID_COMM_ID": 6,
        "INVALID_SERVICE_ID": 8,
        "STALE_CONNECTION": 10,
        "INVALID_PATH_MTU": 26,
        "CONSUMER_DEFINED": 28,
    }
    assert [one.value for one in Rejected] == [0, 1, 2]
    assert [one.value for one in SidrStatus] == [0, 1, 2, 3]
    assert Path(b"", b"") == Path(b"", b"", 0, 64, 0, 0, 18)
    usual = Req(1, 2, PATH, 3, 4)
    assert usual == Req(1, 2, PATH, 3, 4, bytes(8), 0, 0, 7, 7, 0, 0, 0, 5, 0xFFFF, 20, 15, b"")
    assert Rep(1, 2, 3, 4) == Rep(1, 2, 3, 4, bytes(8), 0, 0, 7, 0, 0, b"")
    assert Mra(1, 2, 0).service_timeout == 24
    assert SidrReq(1, 2) == SidrReq(1, 2, 0xFFFF, b"")
    assert SidrRep(1, 0) == SidrRep(1, 0, 0, 0, 0, b"")


@pytest.mark.parametrize(
    ("code", "time"),
    [
        (0, 4.096e-06),
        (1, 8.192e-06),
        (18, 4.096e-06 * 262144),
        (31, 8796.093),
        (32, 8796.093),
        (-1, 4.096e-06),
    ],
)
def test_a_timeout_of_five_bits(code: int, time: float) -> None:
    assert timeout_to_seconds(code) == pytest.approx(time)


@pytest.mark.parametrize(
    ("address", "loopback", "multicast", "text"),
    [
        ("00000000000000000000ffff7f000001", True, False, "127.0.0.1"),
        ("00000000000000000000ffff7fffffff", True, False, "127.255.255.255"),
        ("00000000000000000000ffff7e000001", False, False, "126.0.0.1"),
        ("00000000000000000000ffff80000001", False, False, "128.0.0.1"),
        ("00000000000000000000000000000001", True, False, "::1"),
        ("00000000000000000000000000000002", False, False, "::2"),
        ("0000000000000000000000007f000001", False, False, "::7f00:1"),
        ("00000000000000000000ffffe0000001", False, True, "224.0.0.1"),
        ("00000000000000000000ffffefffffff", False, True, "239.255.255.255"),
        ("00000000000000000000ffffdfffffff", False, False, "223.255.255.255"),
        ("00000000000000000000fffff0000001", False, False, "240.0.0.1"),
        ("ff020000000000000000000000000001", False, True, "ff02::1"),
        ("fe800000000000000000000000000001", False, False, "fe80::1"),
    ],
)
def test_ipv4_and_ipv6_addresses_are_distinguished(
    address: str, loopback: bool, multicast: bool, text: str
) -> None:
    raw = bytes.fromhex(address)
    assert private_data.is_loopback(raw) is loopback
    assert private_data.is_multicast(raw) is multicast
    assert private_data.address_text(raw) == text
    assert private_data.is_mapped(raw) is ("." in text)


def test_a_header_of_ipv6_has_whole_addresses_and_36_bytes() -> None:
    one, other = bytes(range(16)), bytes(range(1, 17))
    packed = private_data.pack(private_data.Endpoints(one, 0x1234, other))
    assert packed.hex() == "0060" + "1234" + one.hex() + other.hex()
    assert private_data.HEADER_BYTES == len(packed) == 36
    assert private_data.unpack(packed) == private_data.Endpoints(one, 0x1234, other)
    for first in (b"\x00\x70", b"\x01\x60", b"\x00\x30"):
        with pytest.raises(private_data.MalformedHeader, match=f"version {first[0]}"):
            private_data.unpack(first + packed[2:])


@pytest.mark.parametrize(
    ("one", "other", "match"),
    [
        (0xFFFF, 0xFFFF, True),
        (0x8001, 0x8001, True),
        (0x8001, 0x0001, True),
        (0x0001, 0x8001, True),
        (0x0001, 0x0001, False),  # two limited members
        (0x8001, 0x8002, False),
        (0xFFFF, 0x7FFF, True),
        (0xC001, 0x8001, False),
        (0x8001, 0x9001, False),
    ],
)
def test_two_keys_share_a_partition_if_one_is_a_full_member(
    one: int, other: int, match: bool
) -> None:
    assert _match(one, other) is match


@pytest.mark.parametrize(
    ("number", "server", "service"),
    [
        (0x0106_1C06, False, Service(7174, "TCP")),
        (0x0111_FFFF, True, Service(65535, "UDP", is_server=True)),
        (0x013F_0000, False, Service(0, "IB")),
        (0x0107_0001, False, Service(1, "0x107")),
    ],
)
def test_a_service_id_names_space_and_port(number: int, server: bool, service: Service) -> None:
    assert service_of(number, is_server=server) == service


def test_a_rejection_s_data_is_cut_to_the_size_of_a_rej() -> None:
    assert (Refusal("no").code, Refusal("no").data) == (28, b"no")
    assert len(Refusal("x" * 149).data) == 148


def make_connect(**values: int) -> cm.CmConnect:
    return parameters(1, b"d", **{"qpn": 0x123456} | values)


def test_a_client_s_parameters_are_masked_to_their_width() -> None:
    path = Path(gid(0), gid(1), 7)
    connect = make_connect(
        responder_resources=3,
        initiator_depth=4,
        retry_count=8,
        rnr_retry_count=9,
        flow_control=2,
        srq=3,
        ack_timeout=33,
    )
    found = events.make_req(connect, 5, 6, path, 7, b"d", 3)
    assert found == Req(
        *(5, 6, Path(gid(0), gid(1), 7, ack_timeout=31), 0x123456, 7, bytes(8), 3, 4, 7, 7, 1, 1),
        mtu=3,
        data=b"d".ljust(92, b"\0"),
    )
    less = events.make_req(
        make_connect(retry_count=6, rnr_retry_count=5, ack_timeout=1, qpn=0xFF_123456),
        5,
        6,
        path,
        7,
        b"",
    )
    assert (less.retry_count, less.rnr_retry_count, less.path.ack_timeout) == (6, 5, 1)
    assert (less.flow_control, less.srq, less.qpn, less.mtu) == (0, 0, 0x123456, 5)
    assert events.make_req(make_connect(), 5, 6, path, 7, b"").path == path
    answer = events.make_rep(connect, 5, 6, 0x77, 8, b"y")
    assert answer == Rep(5, 6, 0x77, 8, bytes(8), 3, 4, 7, 1, 1, b"y".ljust(196, b"\0"))


@pytest.mark.parametrize(("most", "size", "fits"), [(9, 9, True), (9, 10, False)])
def test_private_data_has_its_stated_length_up_to_the_limit(
    most: int, size: int, fits: bool
) -> None:
    connect = parameters(1, b"x" * size)
    if fits:
        assert events.private_data(connect, most) == b"x" * size
        return
    with pytest.raises(
        OSError, match=f"{size} bytes of private data: the limit is {most}"
    ) as refused:
        events.private_data(connect, most)
    assert refused.value.errno == errno.EINVAL


def test_private_data_never_goes_beyond_the_record() -> None:
    connect = parameters(1, b"x" * cm.CM_MAX_DATA)
    assert len(events.private_data(connect, 1000)) == cm.CM_MAX_DATA == ctypes.sizeof(connect.data)
    connect.data_bytes += 1
    with pytest.raises(OSError, match="private data"):
        events.private_data(connect, 1000)


@pytest.mark.parametrize(
    ("number", "is_one"), [(0, False), (1, True), (0xFFFFFF, True), (1 << 24, False)]
)
def test_a_queue_pair_s_number_has_24_bits(number: int, is_one: bool) -> None:
    if is_one:
        assert events.queue_pair(parameters(1, qpn=number)) == number
        return
    with pytest.raises(OSError, match=f"queue pair {number}"):
        events.queue_pair(parameters(1, qpn=number))


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        (State.REQ_SENT, Rej(1, 2, Rejected.OTHER, Reason.TIMEOUT)),
        (State.REQ_RECEIVED, Rej(1, 2, Rejected.REQ, Reason.CONSUMER_DEFINED)),
        (State.REP_RECEIVED, Rej(1, 2, Rejected.REP, Reason.CONSUMER_DEFINED)),
        (State.REP_SENT, Rej(1, 2, Rejected.OTHER, Reason.CONSUMER_DEFINED)),
        (State.ESTABLISHED, Dreq(1, 2, 4)),
        (State.DREQ_RECEIVED, Drep(1, 2)),
        (State.SIDR_RECEIVED, SidrRep(2, SidrStatus.REJECTED)),
        (State.SIDR_SENT, None),
        (State.DREQ_SENT, None),
        (State.TIMEWAIT, None),
        (State.CLOSED, None),
    ],
)
def test_a_side_that_ends_sends_the_message_of_its_state(
    state: State, answer: Message | None
) -> None:
    assert connection.removal_message(Connection(state, 1, 2, 3, 4)) == answer


@pytest.mark.parametrize(
    ("code", "waits"), [(15, 16), (16, 16), (17, 17), (22, 22), (23, 22), (0, 16), (31, 22)]
)
def test_a_peer_s_mra_extends_the_wait_within_bounds(code: int, waits: int) -> None:
    path = Path(gid(0), gid(1), ack_timeout=code)
    req = Req(7, 8, path, 9, 10, response_timeout=code, max_retries=3)
    made = connection.new_responder(req, 6, 0.0)
    assert made == Connection(
        State.REQ_RECEIVED,
        *(6, 7, 0, 9, min(4 * timeout_to_seconds(waits), 69.0), 0, 3),
        wait=timeout_to_seconds(waits),
        timewait=timeout_to_seconds(waits),
        latest=69.0,
    )


@pytest.mark.parametrize(("code", "waits"), [(24, 24), (25, 25), (26, 25)])
@pytest.mark.parametrize(("state", "about"), [(State.REQ_SENT, 0), (State.REP_SENT, 1)])
def test_an_mra_for_the_awaited_message_extends_its_deadline(
    code: int, waits: int, state: State, about: int
) -> None:
    one = Connection(state, 1, 2, deadline=50.0, wait=3.0)
    assert connection.receive(one, Mra(2, 1, about, code), 40.0).connection == one._replace(
        deadline=43.0 + timeout_to_seconds(waits)
    )
    for other in {0, 1, 2} - {about}:
        assert connection.receive(one, Mra(2, 1, other, code), 40.0).connection == one


def test_a_deadline_comes_exactly_when_it_is_due() -> None:
    again = Rtu(1, 2)
    one = Connection(State.REP_SENT, 1, 2, deadline=50.0, retries=1, wait=3.0, repeat=again)
    assert connection.step_if_expired(one, 49.999) == connection.Step(one)
    first = connection.step_if_expired(one, 50.0)
    assert first == connection.Step(one._replace(deadline=53.0, retries=0), again)
    last = connection.step_if_expired(first.connection, 53.0)
    assert last.connection.state is State.CLOSED
    assert last.send == Rej(1, 2, Rejected.OTHER, Reason.TIMEOUT)
