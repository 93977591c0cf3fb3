"""A host with three pods, each in a network namespace behind a link; the first sends raw
packets.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from rdma.second_layer import TABLE, Interface

A, B, APART = "10.91.1.2", "10.91.2.2", "10.91.3.2"
READ_REQUEST, READ_RESPONSE, WRITE_ONLY, ACKNOWLEDGE = 0x0C, 0x10, 0x0A, 0x11

# Runs inside a namespace: sends the packets that it reads from stdin, as JSON, one batch per line.
_SENDER = """
import json, socket, sys
for line in sys.stdin:
    how = json.loads(line)
    if how["frame"]:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as s:
            s.bind(("eth0", 0))
            for data in how["data"]:
                s.send(bytes.fromhex(data))
    elif how["raw"]:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
            for data in how["data"]:
                s.sendto(bytes.fromhex(data), (how["to"], 0))
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            if how["segment"]:
                s.setsockopt(socket.IPPROTO_UDP, 103, how["segment"])  # UDP_SEGMENT
            s.sendto(bytes.fromhex(how["data"][0]), (how["to"], how["port"]))
    print("sent", flush=True)
"""
# When the mark arrives at port 4792, prints the first 16 bytes, the length and the source of each
# datagram that has arrived at the given port: links preserve the order.
_RECEIVER = """
import socket, sys
with (
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as looked_at,
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as marked,
):
    looked_at.bind(("::", int(sys.argv[1])))  # and of IPv4
    marked.bind(("::", 4792))
    print("ready", flush=True)
    marked.settimeout(60)
    assert len(marked.recv(65536)) == 4000
    looked_at.setblocking(False)
    while True:
        try:
            data, who = looked_at.recvfrom(65536)
        except BlockingIOError:
            break
        print(data[:16].hex(), len(data), who[0].removeprefix("::ffff:"), flush=True)
"""
# Accepts one connection and echoes the received data; ``_CONNECT`` is the other end.
_ECHO = """
import socket, sys
with socket.create_server(("::", 4794), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    print("ready", flush=True)
    server.settimeout(60)
    client, _ = server.accept()
    with client:
        client.sendall(client.recv(100))
"""
_CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], 4794), timeout=60) as client:
    client.sendall(b"here")
    assert client.recv(100) == b"here"
"""


def bth(opcode: int, pkey: int = 0xFFFF, payload: bytes = bytes(16), qpn: int = 0x1234) -> bytes:
    """Return a packet that begins with a base transport header; the tests do not check the rest."""
    return struct.pack(">BBHII", opcode, 0, pkey, qpn, 7) + payload


def ip(source: str, destination: str, body: bytes, *, offset: int = 0, more: bool = False) -> bytes:
    """Return an IPv4 packet of UDP; the kernel fills in the checksum."""
    fragment = (0x2000 if more else 0) | offset // 8
    return (
        struct.pack(
            ">BBHHHBBH4s4s",
            *(0x45, 0, 20 + len(body), 77, fragment, 64, socket.IPPROTO_UDP, 0),
            *(socket.inet_aton(source), socket.inet_aton(destination)),
        )
        + body
    )


def udp(body: bytes, port: int = 4791) -> bytes:
    """Return a datagram without a checksum."""
    return struct.pack(">HHHH", 0xC000, port, 8 + len(body), 0) + body


def checksum(data: bytes) -> bytes:
    """Return the checksum of IP and UDP over an even number of bytes."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


def whole(packet: bytes) -> bytes:
    """Return an IPv4 packet with the checksum that the kernel would fill in."""
    return packet[:10] + checksum(packet[:20]) + packet[12:]


def ip6(source: str, destination: str, body: bytes) -> bytes:
    """Return an IPv6 packet of UDP, which must have its checksum."""
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(
        socket.AF_INET6, destination
    )
    pseudo = ends + struct.pack(">II", len(body), socket.IPPROTO_UDP)
    body = body[:6] + checksum(pseudo + body) + body[8:]
    return struct.pack(">IHBB", 6 << 28, len(body), socket.IPPROTO_UDP, 64) + ends + body


@dataclass
class Net:
    """A host with three pods behind a link each."""

    name: str

    def at(self, place: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", f"{self.name}{place}", *command]

    def interfaces(self) -> list[Interface]:
        """Return the host's ends of the pods' links."""
        state = json.loads(
            subprocess.run(
                ["ip", "-n", f"{self.name}h", "-j", "link"], check=True, capture_output=True
            ).stdout
        )
        index = {one["ifname"]: one["ifindex"] for one in state}
        return [
            Interface(f"pod{n}", (f"10.91.{n}.2",), n, mtu=1024, index=index[f"pod{n}"])
            for n in (1, 2, 3)
        ]

    def hardware(self, place: str, link: str) -> bytes:
        """Return the Ethernet address of a link."""
        command = ["ip", "-n", f"{self.name}{place}", "-j", "link", "show", link]
        (found,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return bytes.fromhex(found["address"].replace(":", ""))

    def frame(self, packet: bytes, *, to_all: bool = False) -> bytes:
        """Return a packet in the Ethernet frame in which pod 1 sends it to the host."""
        there = b"\xff" * 6 if to_all else self.hardware("h", "pod1")
        kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
        return there + self.hardware("1", "eth0") + struct.pack(">H", kind) + packet

    def connects(self, to: str, place: str) -> None:
        """Connect from pod 1 to an address by TCP, with empty neighbour tables."""
        for one in ("h", "1", place):
            for family in ("-4", "-6"):
                flush = ["ip", family, "-n", f"{self.name}{one}", "neigh", "flush", "all"]
                subprocess.run(flush, check=True)
        with subprocess.Popen(
            self.at(place, sys.executable, "-c", _ECHO), stdout=subprocess.PIPE, text=True
        ) as listener:
            try:
                assert listener.stdout is not None
                assert listener.stdout.readline() == "ready\n"
                subprocess.run(self.at("1", sys.executable, "-c", _CONNECT, to), check=True)
                assert listener.wait(60) == 0
            finally:
                listener.kill()

    def load(self, text: str) -> None:
        subprocess.run(self.at("h", "nft", "-f", "-"), input=text, text=True, check=True)

    def read_counter(self, name: str, family: str = "netdev") -> int:
        command = self.at("h", "nft", "-j", "list", "counter", family, TABLE, name)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return int(json.loads(done.stdout)["nftables"][1]["counter"]["packets"])

    def send_and_receive(
        self,
        *packets: bytes,
        to: str = B,
        source: str = A,
        raw: bool = True,
        segment: int = 0,
        port: int = 4791,
        frame: bool = False,
        place: str = "",
        settle: Callable[[], object] | None = None,
    ) -> list[str]:
        """Send packets from pod 1, then a mark to ``to``; return the lines for the packets received
        before the mark.

        ``settle`` waits until a process of the host has handled the packets, before the mark.
        """
        place = place or to.split(".")[2]
        receiver = subprocess.Popen(
            self.at(place, sys.executable, "-c", _RECEIVER, str(port)),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            listed = [(ip(source, to, udp(p)) if raw else p).hex() for p in packets]
            if raw and packets and packets[0][:1] == b"\x45":
                listed = [p.hex() for p in packets]
            how = {
                "frame": frame,
                "raw": raw,
                "to": to,
                "port": port,
                "segment": segment,
                "data": listed,
            }
            mark = {
                **how,
                "frame": False,
                "raw": False,
                "port": 4792,
                "segment": 0,
                "data": [bytes(4000).hex()],
            }
            batches = [[how, mark]] if settle is None else [[how], [mark]]
            command = self.at("1", sys.executable, "-c", _SENDER)
            for place_in_order, batch in enumerate(batches):
                if place_in_order and settle is not None:
                    settle()
                lines = "".join(json.dumps(sending) + "\n" for sending in batch)
                subprocess.run(
                    command, input=lines, text=True, check=True, stdout=subprocess.DEVNULL
                )
            said = receiver.communicate(timeout=60)[0]
            assert receiver.returncode == 0, "the mark did not come"
        finally:
            receiver.kill()
            receiver.wait()
        return said.split("\n")[:-1]


@contextmanager
def linked_pods() -> Iterator[Net]:
    """Create the namespaces and links, and delete them afterwards. Skips the test if this process
    lacks the permission.
    """
    net = Net(f"tsr-{os.getpid()}-")  # another run may use this machine
    tools = all(map(shutil.which, ("ip", "nft", "tc")))
    host = ["ip", "netns", "add", f"{net.name}h"]
    if not tools or subprocess.run(host, check=False).returncode:
        pytest.skip("NOT RUN: needs root, iproute2 and nftables")
    lines = [f"netns add {net.name}{place}" for place in "123"]
    for n in "123":
        pod, host = f"{net.name}{n}", f"{net.name}h"
        lines += [
            f"-n {host} link add pod{n} type veth peer name eth0 netns {pod}",
            f"-n {host} addr add 10.91.{n}.1/24 dev pod{n}",
            f"-n {host} link set pod{n} up",
            f"-n {pod} addr add 10.91.{n}.2/24 dev eth0",
            f"-n {pod} link set eth0 up",
            f"-n {pod} route add default via 10.91.{n}.1",
            f"-n {host} addr add fd91:{n}::1/64 dev pod{n} nodad",
            f"-n {pod} addr add fd91:{n}::2/64 dev eth0 nodad",
            f"-n {pod} route add default via fd91:{n}::1",
        ]
    try:
        for line in lines:
            subprocess.run(["ip", *line.split()], check=True)
        for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            subprocess.run(net.at("h", "sysctl", "-qw", setting), check=True)
        yield net
    finally:
        for place in "h123":
            subprocess.run(["ip", "netns", "del", f"{net.name}{place}"], check=False)
