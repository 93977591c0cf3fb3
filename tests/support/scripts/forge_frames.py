"""Sends frames that no HCA sends, through raw sockets: run in a pod, with one JSON object on
standard input.

``how`` is "ip" (complete IPv4 packets in ``data``), "frame" (Ethernet frames without their
addresses) or "segments" (one UDP datagram that the kernel splits into parts of ``segment`` bytes).
A mark to ``mark`` follows on port 4792. A self-contained script: imports nothing from Tessera.
"""

import json
import socket
import sys
import time
from pathlib import Path

ETH_P_ALL = 3
UDP_SEGMENT = 103
PORT, MARK_PORT = 4791, 4792


def main():
    """Send the packets, then the mark."""
    request = json.load(sys.stdin)
    data = [bytes.fromhex(one) for one in request["data"]]
    if request["how"] == "ip":
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            for one in data:
                raw.sendto(one, (request["mark"], 0))
    elif request["how"] == "frame":
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as link:
            link.bind(("eth0", 0))
            own = bytes.fromhex(Path("/sys/class/net/eth0/address").read_text().replace(":", ""))
            for one in data:
                link.send(gateway() + own + one)
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, request["segment"])
            udp.sendto(data[0], (request["mark"], PORT))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mark:
        mark.sendto(b"mark", (request["mark"], MARK_PORT))
    print("sent")


def gateway():
    """Return the hardware address of the next hop, resolved through the default route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.sendto(b"", ("192.0.2.1", 9))
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for line in Path("/proc/net/arp").read_text().splitlines()[1:]:
            address = line.split()[3]
            if address != "00:00:00:00:00:00":
                return bytes.fromhex(address.replace(":", ""))
    raise SystemExit("no next hop")


main()
