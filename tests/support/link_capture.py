"""``python link_capture.py INTERFACE``: count RoCEv2 packets until standard input ends.

Prints "ready" when it sees packets, and for each line that it is given, and at the end, a JSON list
of who sent how many of which opcode since the one before.
"""

import errno
import json
import select
import socket
import struct
import sys
from collections import Counter

PORT = 4791
IPV4 = 0x0800


def main() -> None:
    """Count."""
    counts: Counter[tuple[str, str, int]] = Counter()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as link:
        link.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        link.bind((sys.argv[1], 0))
        print("ready", flush=True)
        while True:
            there, _, _ = select.select([link, sys.stdin], [], [])
            if link in there:
                _take(link, counts)
                continue
            given = sys.stdin.buffer.read1(1)
            _tell(counts)
            counts.clear()
            if not given:
                return


def _take(link: socket.socket, counts: Counter[tuple[str, str, int]]) -> None:
    try:
        _count(link.recv(256), counts)
    except OSError as err:
        if err.errno != errno.ENETDOWN:  # its pod has ended: told once
            raise


def _tell(counts: Counter[tuple[str, str, int]]) -> None:
    listed = [
        {"source": source, "destination": destination, "opcode": opcode, "packets": packets}
        for (source, destination, opcode), packets in counts.items()
    ]
    print(json.dumps(listed), flush=True)


def _count(frame: bytes, counts: Counter[tuple[str, str, int]]) -> None:
    (kind,) = struct.unpack_from("!H", frame, 12)
    ip = frame[14:]
    if kind != IPV4 or len(ip) < 20 or ip[9] != socket.IPPROTO_UDP:
        return
    udp = ip[(ip[0] & 15) * 4 :]
    if len(udp) < 20 or struct.unpack_from("!H", udp, 2)[0] != PORT:
        return
    source, destination = (socket.inet_ntoa(part) for part in (ip[12:16], ip[16:20]))
    counts[source, destination, udp[8]] += 1


if __name__ == "__main__":
    main()
