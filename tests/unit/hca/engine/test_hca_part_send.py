"""What a wire passes to the kernel, and its reaction to each result of the kernel."""

import errno
import socket
from ctypes import c_bool, c_uint8

import pytest

from support.rigs.hca_parts import Parts

WRITE_MIDDLE, WRITE_ONLY = 7, 10
PLAIN = -1


@pytest.fixture
def parts(compiled_parts) -> Parts:
    compiled_parts.begin()
    return compiled_parts


@pytest.fixture
def cutting(compiled_parts) -> Parts:
    """An engine on a kernel that segments buffers."""
    compiled_parts.begin(segments=True)
    return compiled_parts


ANSWERS = {
    "takes all": ([], [[1, 2, 3, 4]], 0, 0),
    "takes some at a time": ([1, 2], [[1, 2, 3, 4], [2, 3, 4], [4]], 0, 0),
    "has no room": ([-errno.EAGAIN], [[1, 2, 3, 4]], 4, 0),
    "has no buffers": ([-errno.ENOBUFS], [[1, 2, 3, 4]], 4, 0),
    "has room for three": ([3, -errno.EAGAIN], [[1, 2, 3, 4], [4]], 1, 0),
    "is interrupted": ([-errno.EINTR, -errno.EINTR], [[1, 2, 3, 4]] * 3, 0, 0),
    "refuses the first": ([-errno.EPERM], [[1, 2, 3, 4], [2, 3, 4]], 0, 1),
    "refuses the second": ([1, -errno.EPERM], [[1, 2, 3, 4], [2, 3, 4], [3, 4]], 0, 1),
    "refuses the last": ([3, -errno.ENETUNREACH], [[1, 2, 3, 4], [4]], 0, 1),
    "refuses two": ([-errno.EPERM] * 2, [[1, 2, 3, 4], [2, 3, 4], [3, 4]], 0, 2),
    "refuses all": ([-errno.EPERM] * 4, [[1, 2, 3, 4], [2, 3, 4], [3, 4], [4]], 0, 4),
    "takes none": ([0], [[1, 2, 3, 4], [2, 3, 4]], 0, 1),
    "refuses one and has no room": ([-errno.EPERM, -errno.EAGAIN], [[1, 2, 3, 4], [2, 3, 4]], 3, 1),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_kernel_s_errors_mean_loss_a_full_buffer_or_a_retry(parts, name):
    answers, calls, left, errors = ANSWERS[name]
    for _ in range(4):
        parts.put(0)
    assert parts.flush(*answers) == left
    assert [call.packets for call in parts.calls] == calls
    counts = parts.counts()
    assert (counts.sent, counts.send_errors, counts.full) == (4 - left, errors, left > 0)
    before = len(parts.calls)
    assert parts.flush() == 0
    assert len(parts.calls) == before, "nothing is ready any more"
    parts.put(0)
    assert parts.flush() == 0
    assert parts.calls[-1].packets == [1]
    assert parts.counts().sent == 5 - left


def test_each_socket_has_a_call_for_packets_in_a_row(parts):
    for number, wire in ((0, 0), (2, 0), (1, 0), (3, 0), (0, 1), (1, 1), (0, 0)):
        parts.put(number, wire=wire)
    assert parts.flush() == 0
    assert [(call.fd, call.packets) for call in parts.calls] == [
        *((0, [1, 2]), (1, [3, 4]), (10, [5]), (11, [6]), (0, [7])),
    ]
    assert (parts.counts(0).sent, parts.counts(1).sent) == (5, 2)


@pytest.mark.parametrize(
    ("answers", "left", "sent", "full", "fds"),
    [
        ([-errno.EAGAIN], 6, (0, 0), (1, 0), [0]),
        ([1, -errno.EAGAIN], 5, (1, 0), (1, 0), [0, 0]),
        ([2, -errno.EAGAIN], 4, (2, 0), (0, 1), [0, 10]),
        ([2, 1, -errno.EAGAIN], 3, (2, 1), (0, 1), [0, 10, 10]),
        ([2, 2, -errno.EAGAIN], 2, (2, 2), (1, 0), [0, 10, 1]),
        ([-errno.EPERM, -errno.EAGAIN], 5, (1, 0), (1, 0), [0, 0]),
    ],
)
def test_after_a_full_buffer_nothing_is_sent(parts, answers, left, sent, full, fds):
    """It does not use another socket either: the requester goes back to the first unsent packet."""
    for number, wire in ((0, 0), (0, 1), (1, 0)):
        for _ in range(2):
            parts.put(number, wire=wire)
    assert parts.flush(*answers) == left
    assert [call.fd for call in parts.calls] == fds
    assert (parts.counts(0).sent, parts.counts(1).sent) == sent
    assert (parts.counts(0).full, parts.counts(1).full) == full


FULL = 65535 - 40 - 8
"""Size of the longest datagram."""

BUFFERS = {
    "one": ([(64, 6, 2)], [(1, 64, PLAIN)]),
    "equal ones": ([(64, 6, 2)] * 3, [(1, 192, 64)]),
    "a shorter last one": ([(64, 6, 2), (64, 6, 2), (60, 6, 2)], [(1, 188, 64)]),
    "one behind a shorter one": (
        [(64, 6, 2), (60, 6, 2), (60, 6, 2)],
        [(1, 124, 64), (3, 60, PLAIN)],
    ),
    "a longer one": ([(60, 6, 2), (64, 6, 2)], [(1, 60, PLAIN), (2, 64, PLAIN)]),
    "another opcode": ([(64, 6, 2), (64, 7, 2), (64, 7, 2)], [(1, 64, PLAIN), (2, 128, 64)]),
    "another class": ([(64, 6, 2), (64, 6, 6), (64, 6, 6)], [(1, 64, PLAIN), (2, 128, 64)]),
    "as many as a buffer holds": ([(4152, 7, 2)] * 15 + [(FULL - 15 * 4152, 7, 2)],
                                  [(1, FULL, 4152)]),
    "a byte more": ([(4152, 7, 2)] * 15 + [(FULL - 15 * 4152 + 1, 7, 2)],
                    [(1, 15 * 4152, 4152), (16, FULL - 15 * 4152 + 1, PLAIN)]),
    "all of a batch": ([(64, 7, 2)] * 64, [(1, 4096, 64)]),
}  # fmt: skip


@pytest.mark.parametrize("name", BUFFERS)
def test_packets_of_one_kind_go_as_one_buffer(cutting, name):
    packets, buffers = BUFFERS[name]
    for size, opcode, tos in packets:
        cutting.put(0, size, opcode=opcode, tos=tos)
    assert cutting.flush() == 0
    (call,) = cutting.calls
    assert [(one.first, one.bytes, one.segment) for one in call.messages] == buffers
    assert cutting.counts().sent == len(packets)
    sealed, number = cutting.library.parts_sealed, 0
    for first, _, segment in buffers:
        last = next((other[0] for other in buffers if other[0] > first), len(packets) + 1)
        for place in range(last - first if segment != PLAIN else 1):
            size = packets[number][0]
            icrc = cutting.library.parts_icrc(0, 0, place, number + 1, size)
            assert sealed(number) == icrc, "as the kernel numbers what it cuts"
            number += 1
    assert number == len(packets)


def test_packets_to_several_places_are_not_one_buffer(cutting):
    for number in (0, 2, 2, 0):
        cutting.put(number)
    cutting.flush()
    (call,) = cutting.calls
    assert [(one.first, one.segment) for one in call.messages] == [(1, PLAIN), (2, 64), (4, PLAIN)]


@pytest.mark.parametrize(
    ("answers", "left", "packets"),
    [
        ([-errno.EAGAIN], 7, [[1, 4, 6]]),
        ([1, -errno.EAGAIN], 4, [[1, 4, 6], [4, 6]]),
        ([2, -errno.EAGAIN], 2, [[1, 4, 6], [6]]),
    ],
)
def test_what_is_left_is_counted_in_packets_not_buffers(cutting, answers, left, packets):
    for opcode, count in ((6, 3), (7, 2), (8, 2)):
        for _ in range(count):
            cutting.put(0, opcode=opcode)
    assert cutting.flush(*answers) == left
    assert [call.packets for call in cutting.calls] == packets
    assert cutting.counts().sent == 7 - left
    assert cutting.library.parts_segments(0)


def test_a_path_without_segmentation_gets_single_packets_from_then_on(cutting):
    for opcode in (7, 7, 8):
        cutting.put(0, opcode=opcode)
    assert cutting.flush(-errno.EIO) == 0
    assert [call.packets for call in cutting.calls] == [[1, 3], [3]]
    assert not cutting.library.parts_segments(0)
    assert cutting.library.parts_segments(1), "of another address"
    for _ in range(2):
        cutting.put(0)
    cutting.flush()
    assert cutting.calls[-1].packets == [1, 2]
    assert {one.segment for one in cutting.calls[-1].messages} == {PLAIN}


def test_a_refused_single_packet_leaves_segmentation_enabled(cutting):
    for opcode in (6, 7, 7):
        cutting.put(0, opcode=opcode)
    assert cutting.flush(-errno.EPERM) == 0
    assert cutting.library.parts_segments(0)
    assert (cutting.counts().send_errors, cutting.counts().sent) == (1, 3)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(("tos", "said"), [(2, PLAIN), (0, 0), (48 << 2, 192), (0x6A, 0x6A)])
@pytest.mark.parametrize("wire", [0, 1])
def test_each_message_has_its_address_and_its_class(compiled_parts, segments, tos, said, wire):
    compiled_parts.begin(segments)
    for _ in range(2):
        compiled_parts.put(1, wire=wire, tos=tos)
    compiled_parts.flush()
    (call,) = compiled_parts.calls
    assert call.fd == 10 * wire + 1
    for one in call.messages:
        assert (one.port, one.tos, one.segment) == (4791, said, 64 if segments else PLAIN)
        assert one.level == (socket.IPPROTO_IPV6 if wire else socket.IPPROTO_IP)
        assert (one.scope, one.name_bytes) == ((7, 28) if wire else (-1, 16))


@pytest.mark.parametrize(
    ("opcode", "payload", "size"),
    [
        *((WRITE_MIDDLE, 0, 16), (WRITE_MIDDLE, 1, 20), (WRITE_MIDDLE, 4, 20)),
        *((WRITE_MIDDLE, 4096, 4112), (WRITE_ONLY, 5, 40), (WRITE_ONLY, 8, 40)),
    ],
)
def test_a_packet_is_its_headers_its_padded_payload_and_its_checksum(parts, opcode, payload, size):
    """A packet's bytes are charged, plus a fixed cost per packet."""
    for _ in range(2):
        assert parts.library.parts_make(0, 0, opcode, payload) == size + 2048
    parts.library.parts_datagrams(1, 0, 0x28)
    parts.library.parts_make(1, 0, opcode, payload)
    assert parts.flush() == 0
    first, second = parts.calls
    assert [(one.first, one.bytes, one.tos) for one in first.messages] == [
        (opcode, size, PLAIN)
    ] * 2
    assert [(one.first, one.bytes, one.tos) for one in second.messages] == [(opcode, size, 0x28)]


def test_a_batch_that_is_full_is_sent_before_the_next_packet(parts):
    for _ in range(64):
        parts.library.parts_make(0, 0, WRITE_ONLY, 4096)
    assert parts.calls == []
    parts.library.parts_make(0, 0, WRITE_ONLY, 4096)
    assert [len(call.messages) for call in parts.calls] == [64]
    parts.flush()
    assert [len(call.messages) for call in parts.calls] == [64, 1]


@pytest.mark.parametrize(
    ("own_wire", "own", "index", "wire", "to", "found"),
    [
        *((0, 1, 1, 0, 5, 0), (1, 1, 1, 1, 5, 1), (0, 2, 1, 0, 5, -1), (0, 1, 0, 0, 5, -1)),
        *((0, 1, 2, 0, 5, -1), (0, 1, 1, 1, 5, -1), (1, 1, 1, 0, 5, -1), (0, 1, 1, 0, 1, -1)),
        *((0, 1, 1, 0, 9, -1), (1, 1, 1, 1, 9, -1), (1, 1, 1, 1, 1, -1)),
    ],
)
def test_which_wire_leads_from_one_address_to_another(parts, own_wire, own, index, wire, to, found):
    """It is a local address's wire, for a remote address of the same family."""
    towards = parts.library.parts_towards
    assert towards(own_wire, c_uint8(own), index, wire, c_uint8(to), c_bool(True)) == found
    assert towards(own_wire, c_uint8(own), index, wire, c_uint8(to), c_bool(False)) == -1


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_a_flow_label_chooses_the_port_as_rdma_core_does(parts, lanes):
    """As ibv_flow_label_to_udp_sport() and rdma_calc_flow_label() of rdma-core's util do."""
    parts.library.parts_lanes(0, lanes)
    for label, own, other in (
        *((1, 5, 9), (0x3FFF, 5, 9), (0x4000, 5, 9), (0xFFFFF, 5, 9), (0x100001, 5, 9)),
        *((0x84210, 5, 9), (0, 5, 9), (0, 9, 5), (0, 0x123456, 0xFEDCBA), (0, 0xFFFFFF, 0xFFFFFF)),
        *((0, 1 << 20, 1), (0, 1 << 20, 1 << 20), (0x100000, 7, 3)),
    ):
        wanted = label & 0xFFFFF
        if wanted == 0:
            value = own * other
            value ^= value >> 20
            value ^= value >> 40
            wanted = value & 0xFFFFF
        port = (wanted & 0x3FFF) ^ (wanted & 0xFC000) >> 14 | 0xC000
        found = parts.library.wire_lane_of(parts.wire(), label, own, other)
        assert found == (port - 0xC000) % lanes, (label, own, other)
