"""``python -m support.wire.wire_capture FILE``: capture every opcode of every transport.

The packets are captured from the kernel. The last ones are marked as congested, followed by the
resulting notifications.

Run it in a separate network namespace; it sets up the loopback interface, and uses IPv4 and
IPv6.
"""

import socket
import struct
import subprocess
import sys
import time

from hca.binding import wire_sockets
from hca.contract.hca_objects import HcaMwCreate
from hca.contract.verbs import (
    VerbsAccess,
    VerbsMwType,
    VerbsOpcode as Op,
    VerbsQpType as Type,
)
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, until
from support.wire.wire_judging import QKEY, Node
from support.wire.wire_rig import RELIABLE, End, gid_of
from support.wire.wire_watcher import MARKED

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
            _invalidate(End(first, here), End(second, there))
            _play(End(first, here, kind=Type.UC), End(second, there, kind=Type.UC))
            _datagrams(Node(first, here), Node(second, there))
        wire_sockets._ECN_CAPABLE = MARKED  # as if routers had marked all packets from now on
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
            if address[2] == socket.PACKET_OUTGOING:  # lo captures each packet twice
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
    kinds = [Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM]
    if a.qp.kind == Type.RC:
        kinds.append(Op.RDMA_READ)
        for kind in (Op.ATOMIC_CMP_AND_SWP, Op.ATOMIC_FETCH_AND_ADD):
            a.qp.send(
                *(kind, [(BASE, 8, here.key)]),
                remote_address=BASE,
                remote_key=there.key,
                compare_add=5,
                swap=7,
            )
            assert a.send_cq.poll().status == 0
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
            if a.qp.kind == Type.UC and kind != Op.RDMA_WRITE:
                assert b.recv_cq.poll().status == 0
    a.close()
    b.close()


def _invalidate(a: End, b: End) -> None:
    """Send SENDs that invalidate a window, with one packet and with three."""
    a.connect(b.ip, b.qp.number, path_mtu=1)
    b.connect(a.ip, a.qp.number, path_mtu=1)
    here, there = a.region(), b.region()
    key = b.client.objects.create_window(HcaMwCreate(b.client.pd, VerbsMwType.TYPE_2)).handle
    for turn, size in enumerate((101, 700)):
        new = key & ~0xFF | turn + 1
        last = key if turn == 0 else key & ~0xFF | turn
        bound = {"remote_address": BASE, "remote_key": last, "immediate": new}
        more = {"compare_add": 64, "swap": VerbsAccess.REMOTE_WRITE, "sge_count": 0}
        b.qp.send(Op.BIND_MW, [(0, 0, there.key)], **bound, **more)
        assert b.send_cq.poll().status == 0
        b.qp.receive((BASE, 4096, there.key))
        a.qp.send(Op.SEND_WITH_INV, [(BASE, size, here.key)], immediate=new)
        assert a.send_cq.poll().status == 0
    a.close()
    b.close()


def _datagrams(a: Node, b: Node) -> None:
    for node in (a, b):
        node.qp.listen(QKEY)
    here, there = a.region(), b.region()
    for opcode in (Op.SEND, Op.SEND_WITH_IMM):
        b.qp.receive((BASE, 4096, there.key))
        a.qp.send(
            *(opcode, [(BASE, 101, here.key)]),
            address_handle=a.client.ah(b.gid),
            remote_qpn=b.qp.number,
            remote_key=QKEY,
            immediate=0x01020304,
        )
        assert b.recv_cq.poll().status == 0
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
