"""``python link_capture.py INTERFACE``: counts RoCEv2 packets until standard input ends.

Prints "ready" when it captures packets; then for each line of input, and at the end, a JSON list
of the packets since the previous list, by source, destination and opcode. The kernel's time of
each packet decides to which list it belongs, because many packets may not have been read yet.
"""

import errno
import json
import select
import socket
import struct
import sys
import time
from collections import Counter

PORT = 4791
IPV4 = 0x0800
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
ROOM_BYTES = 64 << 20

Counts = Counter[tuple[str, str, int]]


class Link:
    """An interface, and the packets counted on it."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.bind((name, 0))
        self._counts: Counts = Counter()

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def take(self, counts: Counts) -> int:
        """Count one packet; return its time in ns, or 0 if there is none."""
        try:
            frame, ancillary, _, _ = self._socket.recvmsg(256, 64)
        except BlockingIOError:
            return 0
        except OSError as err:
            if err.errno != errno.ENETDOWN:  # its pod has ended: reported once
                raise
            return 0
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        packet = _read(frame)
        if packet is not None:
            counts[packet] += 1
        return int(seconds * 1_000_000_000 + nanoseconds)

    def follow(self) -> None:
        """Count one packet."""
        self.take(self._counts)

    def tell(self) -> None:
        """Print the packets up to now."""
        now = time.time_ns()
        later: Counts = Counter()
        while True:
            one: Counts = Counter()
            when = self.take(one)
            (later if when > now else self._counts).update(one)
            if not 0 < when <= now:
                break
        listed = [
            {"source": source, "destination": destination, "opcode": opcode, "packets": packets}
            for (source, destination, opcode), packets in self._counts.items()
        ]
        print(json.dumps(listed), flush=True)
        self._counts = later


def main() -> None:
    """Count packets and print lists until standard input ends."""
    link = Link(sys.argv[1])
    print("ready", flush=True)
    while True:
        there, _, _ = select.select([link, sys.stdin], [], [])
        if sys.stdin in there:
            given = sys.stdin.buffer.read1(1)
            link.tell()
            if not given:
                return
        else:
            link.follow()


def _read(frame: bytes) -> tuple[str, str, int] | None:
    (kind,) = struct.unpack_from("!H", frame, 12)
    ip = frame[14:]
    if kind != IPV4 or len(ip) < 20 or ip[9] != socket.IPPROTO_UDP:
        return None
    udp = ip[(ip[0] & 15) * 4 :]
    if len(udp) < 20 or struct.unpack_from("!H", udp, 2)[0] != PORT:
        return None
    return socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20]), udp[8]


if __name__ == "__main__":
    main()
