"""The classifier of segments, run by an interpreter of eBPF: which packets it drops.

``tests/integration/rdma/test_second_layer.py`` runs the same program in a kernel, as root.
"""

import struct
from dataclasses import dataclass, field

import pytest

from device_plugin.second_layer import segments

PASS, DROP = 0xFFFF_FFFF, 2
PORT = 4791
LEAST = 16  # a base transport header and the checksum
CONTEXT, FRAME = "context", "frame"
TCP, UDP, DESTINATION_OPTIONS = 6, 17, 60


@dataclass
class Machine:
    """Interprets the part of RFC 9669 that the program uses, and the legacy packet loads."""

    code: bytes
    packet: bytes
    segment_bytes: int
    steps: int = 0
    registers: list[object] = field(default_factory=lambda: [None] * 11)
    stack: dict[int, int] = field(default_factory=dict)

    def run(self) -> int:
        """Return the classifier's verdict."""
        self.registers[1], self.registers[10] = CONTEXT, FRAME
        at = 0
        while True:
            self.steps += 1
            code, both, offset, value = struct.unpack_from("<BBhi", self.code, 8 * at)
            at += 1
            target, source = both & 15, both >> 4
            if code == 0x95:
                return self._number(0) & 0xFFFF_FFFF
            if code & 7 == 5:
                at += offset if self._jumps(code, target, source, value) else 0
            elif code & 7 == 7:
                self._compute(code, target, source, value)
            elif not self._move(code, target, source, offset, value):
                return 0  # a load beyond the packet's end

    def _number(self, register: int) -> int:
        value = self.registers[register]
        assert isinstance(value, int), f"r{register} is {value}"
        return value

    def _jumps(self, code: int, target: int, source: int, value: int) -> bool:
        if code == 0x05:
            return True
        one = self._number(target)
        other = self._number(source) if code & 8 else value % (1 << 64)
        return {
            0x10: one == other,
            0x50: one != other,
            0x20: one > other,
            0x30: one >= other,
            0xA0: one < other,
        }[code & 0xF0]

    def _compute(self, code: int, target: int, source: int, value: int) -> None:
        assert target != 10, "the frame's address cannot be written"
        if code == 0xBF:
            self.registers[target] = self.registers[source]
            return
        other = self._number(source) if code & 8 else value % (1 << 64)
        if code & 0xF0 == 0xB0:
            self.registers[target] = other
            return
        one = self._number(target)
        found = {0x00: one + other, 0x50: one & other, 0x60: one << (other & 63)}[code & 0xF0]
        self.registers[target] = found % (1 << 64)

    def _move(self, code: int, target: int, source: int, offset: int, value: int) -> bool:
        if code == 0x7B:
            assert (self.registers[target], offset % 8) == (FRAME, 0)
            assert -512 <= offset <= -8
            self.stack[offset] = self._number(source)
        elif code == 0x79:
            assert self.registers[source] == FRAME
            self.registers[target] = self.stack[offset]
        elif code == 0x61:
            assert self.registers[source] == CONTEXT
            fields = {0: len(self.packet), 176: self.segment_bytes}  # of struct __sk_buff
            self.registers[target] = fields[offset]
        else:
            return self._load(code, source, value)
        return True

    def _load(self, code: int, source: int, value: int) -> bool:
        """Execute BPF_ABS and BPF_IND: load from the packet that r6 names to r0, big-endian.

        Return False for a load beyond the packet's end.
        """
        assert self.registers[6] == CONTEXT
        size = {0x10: 1, 0x08: 2, 0x00: 4}[code & 0x18]
        assert code & 0xE7 in (0x20, 0x40), hex(code)
        begin = value + (self._number(source) if code & 0xE0 == 0x40 else 0)
        self.registers[1:6] = [None] * 5
        if begin + size > len(self.packet):
            return False
        self.registers[0] = int.from_bytes(self.packet[begin : begin + size], "big")
        return True


def classify(packet: bytes, segment_bytes: int) -> int:
    return Machine(segments.classifier_code(), packet, segment_bytes).run()


def ipv4(words: int = 5, protocol: int = UDP) -> bytes:
    header = bytearray(4 * words)
    header[0], header[9] = 0x40 | words, protocol
    return bytes(12) + b"\x08\x00" + bytes(header)


def ipv6(protocol: int = UDP) -> bytes:
    header = bytearray(40)
    header[0], header[6] = 0x60, protocol
    return bytes(12) + b"\x86\xdd" + bytes(header)


def udp(port: int = PORT) -> bytes:
    return struct.pack(">HHHH", PORT + 1, port, 0, 0)


HEADERS = [ipv6(), *(ipv4(words) for words in range(5, 16))]


def transport(bytes_: int, **changes: int) -> bytes:
    """Return an InfiniBand packet of this length; ``changes`` are XORed by offset, such as b3=1."""
    made = bytearray(max(bytes_, 12))
    made[:12] = bytes(range(0x81, 0x8D))
    for place, change in changes.items():
        made[int(place[1:])] ^= change
    return bytes(made[:bytes_])


@pytest.mark.parametrize("header", HEADERS, ids=len)
@pytest.mark.parametrize("size", [LEAST, LEAST + 1, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 62, 63])
def test_segments_that_are_alike_pass_whatever_is_left_for_the_last(
    header: bytes, size: int, count: int
) -> None:
    """The last segment may be shorter, but not shorter than a header and a checksum."""
    for last in {1, 11, LEAST - 1, LEAST, size}:
        packet = header + udp() + count * transport(size) + transport(last)
        assert classify(packet, size) == (PASS if last >= LEAST else DROP), last


@pytest.mark.parametrize("size", [LEAST, 40])
@pytest.mark.parametrize(
    ("rest", "verdict"), [(-LEAST, PASS), (0, PASS), (1, DROP), (LEAST, DROP), (4 * 40, DROP)]
)
def test_no_more_segments_are_looked_at_than_there_can_be(
    size: int, rest: int, verdict: int
) -> None:
    packet = ipv4() + udp() + 64 * transport(size)
    packet = packet[:rest] if rest < 0 else packet + bytes(rest)
    if size != LEAST and rest < 0:
        packet = packet[: len(packet) + LEAST - size]
    assert classify(packet, size) == verdict


@pytest.mark.parametrize("header", [ipv4(), ipv4(15), ipv6()], ids=len)
@pytest.mark.parametrize("which", [1, 2, 62, 63])
def test_the_fields_that_rules_match_must_be_equal_in_each_segment(
    header: bytes, which: int
) -> None:
    """One bit changes in the opcode, the partition key, the queue pair or the byte before it."""
    subject = {0, 2, 3, 4, 5, 6, 7}
    parts = [transport(LEAST)] * 64
    for place in range(LEAST):
        for bit in (1, 0x80):
            changed = transport(LEAST, **{f"b{place}": bit})
            packet = header + udp() + b"".join([*parts[:which], changed, *parts[which + 1 :]])
            expected = DROP if place in subject else PASS
            assert classify(packet, LEAST) == expected, (place, bit)


@pytest.mark.parametrize("header", HEADERS, ids=len)
def test_a_first_segment_that_is_no_packet_is_dropped(header: bytes) -> None:
    for size, length, expected in (
        (LEAST - 1, 64, DROP),
        (1, 64, DROP),
        (LEAST, LEAST - 1, DROP),
        (LEAST, 0, DROP),
        (LEAST, LEAST, PASS),
        (1 << 16, LEAST, PASS),
        (1 << 16, LEAST - 1, DROP),
    ):
        packet = header + udp() + transport(length)
        assert classify(packet, size) == expected, (size, length)


def test_an_unsegmented_packet_passes() -> None:
    for packet in (b"", bytes(10), ipv4() + udp(), ipv6() + udp() + transport(7)):
        assert classify(packet, 0) == PASS


DIFFERENT = transport(LEAST) + transport(LEAST, b0=1)


@pytest.mark.parametrize(
    ("packet", "verdict"),
    [
        (bytes(12) + b"\x08\x06" + bytes(28) + udp() + DIFFERENT, PASS),
        (bytes(12) + b"\x88\xdd" + ipv6()[14:] + udp() + DIFFERENT, PASS),
        (ipv4(protocol=TCP) + udp() + DIFFERENT, PASS),
        (ipv4(protocol=UDP + 1) + udp() + DIFFERENT, PASS),
        (ipv6(protocol=TCP) + udp() + DIFFERENT, PASS),
        # Other extension headers of IPv6 are not parsed.
        *((ipv6(protocol=one) + udp() + DIFFERENT, DROP) for one in (0, 43, 44, 5, 7, 16, 18)),
        (ipv6(protocol=DESTINATION_OPTIONS) + udp() + DIFFERENT, DROP),
        *((one + udp(PORT + by) + DIFFERENT, PASS) for one in HEADERS for by in (-1, 1, 256)),
        *((one + udp() + DIFFERENT, DROP) for one in HEADERS),
    ],
)
def test_only_the_port_of_roce_is_looked_at(packet: bytes, verdict: int) -> None:
    assert classify(packet, LEAST) == verdict


def test_the_program_ends_in_fewer_steps_than_a_kernel_takes() -> None:
    code = segments.classifier_code()
    assert len(code) % 8 == 0
    assert len(code) // 8 <= 4096
    machine = Machine(code, ipv4() + udp() + 64 * transport(LEAST), LEAST)
    assert machine.run() == PASS
    assert machine.steps <= 4096
