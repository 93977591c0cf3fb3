"""Devices of a host that decapsulate packets: VXLAN of the kernel, and the others by a process.

Most kernels of test machines have no module for Geneve, GRE, IPIP, SIT and FOU. A process with a
raw or UDP socket for each and a TUN device does the same with the packets: the kernel forwards what
the process takes out of them, as it does behind a device of its own.
"""

import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from support.processes.linked_pods import A, Net, ip, udp, whole

HOST = "10.91.1.1"
GENEVE_PORT, FOU_PORT, VXLAN_PORT, OTHER_VXLAN_PORT = 6081, 7777, 8472, 9999
KINDS = ("vxlan", "geneve", "fou", "ipip", "sit", "gre")

_PROCESS = """
import fcntl, select, socket, struct, subprocess, sys
tun = open("/dev/net/tun", "r+b", buffering=0)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"overlay", 0x1001))  # TUNSETIFF: TUN, NO_PI
subprocess.run(["ip", "addr", "add", "10.244.9.0/32", "dev", "overlay"], check=True)
subprocess.run(["ip", "link", "set", "overlay", "up"], check=True)
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sockets = {}
for port, header in ((6081, 8), (7777, 0)):
    sockets[socket.socket(socket.AF_INET, socket.SOCK_DGRAM)] = header
    list(sockets)[-1].bind(("", port))
for protocol, header in ((4, 20), (41, 20), (47, 24)):
    sockets[socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)] = header
print("ready", flush=True)
for line in sys.stdin:  # a request to handle what has arrived
    count = 0
    while ready := select.select(list(sockets), [], [], 0)[0]:
        for one in ready:
            tun.write(one.recv(65536)[sockets[one]:])
            count += 1
    print(count, flush=True)
"""


@dataclass
class Decapsulator:
    """The host's devices; ``handle`` takes out the packets that arrived, and returns their count."""

    net: Net
    process: "subprocess.Popen[str]"

    def handle(self) -> int:
        self._pipe(self.process.stdin).write("\n")
        self._pipe(self.process.stdin).flush()
        return int(self._pipe(self.process.stdout).readline())

    def frame(self, kind: str, packet: bytes, vxlan_port: int = VXLAN_PORT) -> bytes:
        """Return a frame of pod 1 to the host that has ``packet`` in one of ``KINDS``."""
        return self.net.frame(encapsulate(self.net, kind, packet, HOST, vxlan_port))

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def encapsulate(net: Net, kind: str, packet: bytes, to: str, vxlan_port: int = VXLAN_PORT) -> bytes:
    """Return a packet from pod 1 that has ``packet`` inside."""
    ethertype = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    if kind == "vxlan":
        device = f"vxlan{vxlan_port}"
        ethernet = net.hardware("h", device) + b"\2" * 6 + struct.pack(">H", ethertype)
        body = udp(struct.pack(">II", 1 << 27, 1 << 8) + ethernet + packet, vxlan_port)
        return whole(ip(A, to, body))
    if kind == "geneve":
        return whole(ip(A, to, udp(struct.pack(">HHI", 0, ethertype, 0) + packet, GENEVE_PORT)))
    if kind == "fou":
        return whole(ip(A, to, udp(packet, FOU_PORT)))
    header = struct.pack(">HH", 0, ethertype) if kind == "gre" else b""
    outer = bytearray(ip(A, to, header + packet))
    outer[9] = {"ipip": 4, "sit": 41, "gre": 47}[kind]
    return whole(bytes(outer))


@contextmanager
def decapsulating_host(net: Net) -> Iterator[Decapsulator]:
    """Create the devices in the host's namespace, and remove them afterwards."""
    host = f"{net.name}h"
    ports = (VXLAN_PORT, OTHER_VXLAN_PORT)
    try:
        for number, port in enumerate(ports):
            name = f"vxlan{port}"
            add = f"link add {name} type vxlan id 1 dstport {port} local {HOST} nolearning"
            for line in (add, f"addr add 10.244.{number}.0/32 dev {name}", f"link set {name} up"):
                subprocess.run(["ip", "-n", host, *line.split()], check=True)
            # The kernel takes the larger one of a link's own setting and that of "all".
            own = f"net.ipv4.conf.{name}.rp_filter=0"
            subprocess.run(net.at("h", "sysctl", "-qw", own), check=True)
        command = net.at("h", sys.executable, "-c", _PROCESS)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                subprocess.run(
                    net.at("h", "sysctl", "-qw", "net.ipv4.conf.overlay.rp_filter=0"), check=True
                )
                yield Decapsulator(net, process)
            finally:
                process.kill()
    finally:
        for port in ports:
            subprocess.run(["ip", "-n", host, "link", "del", f"vxlan{port}"], check=False)


def read_sources(lines: list[str]) -> list[tuple[int, str]]:
    """Return the queue pair and the source of each received request."""
    fields = [line.split() for line in lines]
    return [(int(data[8:16], 16), source) for data, _, source in fields]
