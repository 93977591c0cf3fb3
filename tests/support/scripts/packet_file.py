"""``python packet_file.py INTERFACE FILE``: writes RoCEv2 packets to a file until stdin ends.

Prints "ready" when it captures packets.
"""

import select
import socket
import struct
import sys
import time

PORT = 4791
ETHERNET = 1


def main() -> None:
    """Write the captured packets."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as link,
        open(sys.argv[2], "wb") as capture,
    ):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        link.bind((sys.argv[1], 0))
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, ETHERNET))
        print("ready", flush=True)
        ends = False
        while not ends:
            there, _, _ = select.select([link, sys.stdin], [], [])
            ends = sys.stdin in there
            while select.select([link], [], [], 0)[0]:
                data = link.recv(1 << 16)
                if data[12:14] == b"\x08\x00" and int.from_bytes(data[36:38]) == PORT:
                    heading = struct.pack("<IIII", int(time.time()), 0, len(data), len(data))
                    capture.write(heading + data)


if __name__ == "__main__":
    main()
