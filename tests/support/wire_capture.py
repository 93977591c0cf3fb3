"""``python wire_capture.py FILE``: every opcode of a reliable connection, captured from the kernel.

Last come packets that are marked as congested, and the notifications that these bring.

To be run in a network namespace of its own, whose loopback interface it sets up: over IPv4 and IPv6.
"""

import socket
import struct
import subprocess
import sys
import time

import hca_rig
from hca_rig import BASE, until
from wire_rig import RELIABLE, End, gid_of
from wire_watcher import MARKED

from vgpu_sim.fabric import wire_sockets
from vgpu_sim.hal.verbs import VerbsOpcode as Op

PAIRS = (("10.9.0.1", "10.9.0.2"), ("fd00::1", "fd00::2"))
ETHERNET = 1
SIZES = (700, 300, 101)


def main() -> None:
    """Write the capture."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in ("10.9.0.1/32", "10.9.0.2/32"):
        subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)
    for address in ("fd00::1/128", "fd00::2/128"):
        subprocess.run(["ip", "addr", "add", address, "dev", "lo", "nodad"], check=True)
    watching = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    watching.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    watching.bind(("lo", 0))
    with hca_rig.running_engine() as first, hca_rig.running_engine() as second:
        for here, there in PAIRS:
            _play(End(first, here), End(second, there))
        wire_sockets._ECN_CAPABLE = MARKED  # as if routers had marked all that is sent from now on
        for here, there in PAIRS:
            _congest(End(first, here), End(second, there))
    watching.setblocking(False)
    with open(sys.argv[1], "wb") as capture:
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, ETHERNET))
        while True:
            try:
                data, address = watching.recvfrom(1 << 16)
            except BlockingIOError:
                return
            if address[2] == socket.PACKET_OUTGOING:  # the loopback interface shows all twice
                continue
            now = int(time.time())
            capture.write(struct.pack("<IIII", now, 0, len(data), len(data)) + data)


def _play(a: End, b: End) -> None:
    values = {**RELIABLE, "path_mtu": 1, "traffic_class": 0x68}
    a.connect(b.ip, b.qp.number, **values)
    b.connect(a.ip, a.qp.number, **values)
    assert gid_of(a.ip) != gid_of(b.ip)
    here, there = a.region(), b.region()
    here.view[:] = bytes(i % 251 for i in range(len(here.view)))
    kinds = (Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM, Op.RDMA_READ)
    for size in SIZES:
        for kind in kinds:
            b.qp.receive((BASE, 4096, there.key))
            a.qp.send(
                *(kind, [(BASE, size, here.key)]),
                remote_address=BASE + 8192,
                remote_key=there.key,
                immediate=0x01020304,
            )
            assert a.send_cq.poll().status == 0
    a.close()
    b.close()


def _congest(a: End, b: End) -> None:
    a.connect(b.ip, b.qp.number, **RELIABLE)
    b.connect(a.ip, a.qp.number, **RELIABLE)
    here, there = a.region(), b.region()
    write = (Op.RDMA_WRITE, [(BASE, SIZES[0], here.key)])
    a.qp.send(*write, remote_address=BASE, remote_key=there.key)
    assert a.send_cq.poll().status == 0
    assert b.counts.np_cnp_sent == 1
    assert until(lambda: a.counts.rp_cnp_handled == 1)
    a.close()
    b.close()


if __name__ == "__main__":
    main()
