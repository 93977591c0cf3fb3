"""Writes over the wire between two network namespaces, compared with UDP.

``python -m benchmarks.rdma.wire``. Both move packets of the same size between the same two
interfaces; the best of each is reported. Two engines are in this process, each with a thread. With
an MTU of 1500 a third namespace routes between them, as nodes do between pods. The program runs
itself again in a network namespace, in a user namespace unless it is root: then socket buffers are
limited by net.core.rmem_max, and fewer packets are in flight.
"""

import ctypes
import mmap
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Final

from benchmarks.report import Row, Section, document, machine, table
from hca.binding.addresses import Address, address_of
from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.verbs import VerbsAccess, VerbsMask as Mask, VerbsOpcode, VerbsSend, VerbsState
from hca.daemon.common.numbers import Numbers
from hca.daemon.netd.broker import Broker, OpenedSockets
from hca.daemon.objects.client_objects import Objects

BLOCK: Final = 64 << 10
WORKING_SET: Final = 16 << 20
BLOCKS: Final = WORKING_SET // BLOCK
ROUNDS: Final = 12
PINGS: Final = 400
INSIDE: Final = "TESSERA_BENCH_NAMESPACE"
ADDRESSES: Final = ("10.79.0.2", "10.79.1.2")
NAMES: Final = ("bench_a", "bench_b")
ACCESS: Final = VerbsAccess.LOCAL_WRITE | VerbsAccess.REMOTE_WRITE
_HEADERS: Final = 12 + 16 + 4
_UDP_SEGMENT: Final = 103
_MOST_BUFFER: Final = 61440


class _End:
    """An engine with one address, one queue pair, and memory."""

    def __init__(self, opened: OpenedSockets) -> None:
        self.opened, self.engine = opened, Engine()
        self.gid = opened.wires[0].address.gid
        self.wire = self.engine.add_wire(opened.wires[0].to_hca_wire())
        own = Address(address_of(0).guid, (address_of(0).gids[0], self.gid))
        self.objects = Objects(self.engine, Numbers(), own.gids, 1 << 30)
        self.page = hca.HcaClientPage.from_buffer(_map(self.objects.page_fd, hca.HCA_PAGE_BYTES))
        pd = self.objects.create_pd().handle
        cq, cq_fd = self.objects.create_cq(hca.HcaCqCreate(1024, 0))
        self.cq = hca.HcaCqPage.from_buffer(_map(cq_fd, cq.page_bytes))
        self.made, qp_fd = self.objects.create_qp(
            hca.HcaQpCreate(pd, cq.handle, cq.handle, 2, BLOCKS, 1, 0)
        )
        rings = _map(qp_fd, self.made.page_bytes)
        self.ring = hca.HcaQpPage.from_buffer(rings)
        self.slots = (hca.HcaSendSlot * BLOCKS).from_buffer(rings, ctypes.sizeof(hca.HcaQpPage))
        segment, fd = self.objects.create_segment(hca.HcaSegmentCreate(WORKING_SET))
        self.memory = _map(fd, WORKING_SET)
        self.memory[:] = b"x" * WORKING_SET
        region = hca.HcaMrCreate(pd, ACCESS, 0, WORKING_SET, 1)
        region.pieces[0] = hca.HcaPiece(segment.handle, 0, 0, WORKING_SET)
        self.key = self.objects.create_region(region).handle

    def connect(self, peer: "_End") -> None:
        """Move to RTS."""
        attributes = hca.HcaQpAttributes(
            path_mtu=self.opened.interface.path_mtu(),
            dest_qpn=peer.made.handle,
            access=ACCESS,
            port=1,
            is_global=1,
            av_port=1,
            sgid_index=1,
            timeout=14,
            retry_count=7,
        )
        ctypes.memmove(attributes.dgid, peer.gid, 16)
        to_rtr = Mask.AV | Mask.PATH_MTU | Mask.DEST_QPN | Mask.RQ_PSN | Mask.MAX_DEST_RD_ATOMIC
        to_rts = Mask.TIMEOUT | Mask.RETRY_CNT | Mask.RNR_RETRY | Mask.SQ_PSN
        for state, attribute_mask in (
            (VerbsState.INIT, Mask.PKEY_INDEX | Mask.PORT | Mask.ACCESS_FLAGS),
            (VerbsState.RTR, to_rtr | Mask.MIN_RNR_TIMER),
            (VerbsState.RTS, to_rts | Mask.MAX_QP_RD_ATOMIC),
        ):
            attributes.state = state
            self.objects.modify_qp(
                hca.HcaQpModify(self.made.handle, Mask.STATE | attribute_mask, attributes)
            )

    def write_s(self, key: int, count: int, size: int) -> float:
        """Write ``count`` blocks of ``size`` bytes; return the time in seconds."""
        start_head, first = self.cq.head, self.ring.send_head
        for i in range(count):
            slot = self.slots[(first + i) % BLOCKS]
            slot.remote_address, slot.remote_key = i * size, key
            slot.opcode, slot.sge_count = VerbsOpcode.RDMA_WRITE, 1
            slot.payload.sges[0] = hca.HcaSge(i * size, size, self.key)
            slot.flags = VerbsSend.SIGNALED if i == count - 1 else 0
        started = time.perf_counter()
        self.ring.send_head = first + count
        self.page.dirty[self.made.index // 64] = 1 << self.made.index % 64
        os.write(self.objects.doorbell_fd, b"x")
        while self.cq.head == start_head:
            if count > 1:
                time.sleep(0.0002)  # the engines need the CPUs
        elapsed_s = time.perf_counter() - started
        self.cq.tail = self.cq.head
        return elapsed_s

    def close(self) -> None:
        """Close the engine and its resources."""
        self.objects.close()
        self.engine.remove_wire(self.wire)
        self.engine.close()
        self.opened.close()


def _map(fd: int, size: int) -> mmap.mmap:
    return mmap.mmap(fd, size)


class _Namespaces:
    """Two namespaces connected by a veth, or each by a veth to a router; a broker for both."""

    def __init__(self, stack: ExitStack, *, routed: bool) -> None:
        self._holders = [self._holder(stack) for _ in range(3 if routed else 2)]
        self._fds = [os.open(f"/proc/{h.pid}/ns/net", os.O_RDONLY) for h in self._holders[:2]]
        own_socket, broker_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            sys.executable,
            "-m",
            "hca.daemon.netd.broker",
            "--socket-fd",
            str(broker_socket.fileno()),
        ]
        self._process = subprocess.Popen(command, pass_fds=(broker_socket.fileno(),))
        broker_socket.close()
        stack.callback(self._process.wait, 20)
        self._broker = Broker(stack.enter_context(own_socket))
        self._links = [(0, NAMES[0]), (1, NAMES[1])]
        if routed:
            for node, name in enumerate(NAMES):
                self._veth(node, name, 2, f"route{node}")
            self._do(2, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        else:
            self._veth(0, NAMES[0], 1, NAMES[1])
        prefix = 24 if routed else 16
        for node, (name, address) in enumerate(zip(NAMES, ADDRESSES, strict=True)):
            self._do(node, "ip", "addr", "add", f"{address}/{prefix}", "dev", name)
            if routed:
                gateway = address.rpartition(".")[0] + ".1"
                self._do(2, "ip", "addr", "add", f"{gateway}/24", "dev", f"route{node}")
                self._do(node, "ip", "route", "add", "default", "via", gateway)

    def _veth(self, node: int, name: str, peer: int, peer_name: str) -> None:
        veth = f"ip link add {name} type veth peer name {peer_name} netns {self._holders[peer].pid}"
        self._do(node, *veth.split())
        for where, link in ((node, name), (peer, peer_name)):
            self._do(where, "ip", "link", "set", link, "up")
            if (where, link) not in self._links:
                self._links.append((where, link))

    def set_mtu(self, mtu: int) -> None:
        """Give all interfaces an MTU in bytes."""
        for node, name in self._links:
            self._do(node, "ip", "link", "set", name, "mtu", str(mtu))

    def open(self, node: int, segments: bool) -> OpenedSockets:
        """Open a node's sockets."""
        return self._broker.open(self._fds[node], ADDRESSES[node], segments)

    def _do(self, node: int, *command: str) -> None:
        pid = str(self._holders[node].pid)
        subprocess.run(["nsenter", "-n", "-t", pid, *command], check=True)

    @staticmethod
    def _holder(stack: ExitStack) -> "subprocess.Popen[bytes]":
        holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo ready; exec sleep 1000"], stdout=subprocess.PIPE
        )
        stack.callback(holder.communicate)
        stack.callback(holder.kill)
        assert holder.stdout is not None
        holder.stdout.readline()
        return holder


def _udp_s(spaces: _Namespaces, payload: int, segments: bool) -> float:
    """Return the time to send WORKING_SET in plain packets of the same size to a child, in
    seconds.
    """
    sender, receiver = (spaces.open(node, segments) for node in (0, 1))
    sending, receiving = sender.wires[0].sockets[0], receiver.wires[0].sockets[0]
    receiving.setblocking(True)
    sending.setblocking(True)
    size = payload + _HEADERS
    together = _MOST_BUFFER // size if segments else 1
    if segments:
        sending.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, size)
    done_reading, done_writing = os.pipe()
    child = os.fork()
    if child == 0:
        buffer = bytearray(1 << 16)
        while receiving.recv_into(buffer) > 1:
            pass
        os.write(done_writing, b"x")
        os._exit(0)
    data = bytes(size * together)
    started = time.perf_counter()
    for _ in range(WORKING_SET // payload // together):
        sending.sendto(data, (ADDRESSES[1], 4791))
    if segments:
        sending.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, 0)
    sending.sendto(b"e", (ADDRESSES[1], 4791))
    os.read(done_reading, 1)
    elapsed_s = time.perf_counter() - started
    os.waitpid(child, 0)
    for descriptor in (done_reading, done_writing):
        os.close(descriptor)
    sender.close()
    receiver.close()
    return elapsed_s


def _measure(spaces: _Namespaces, mtu: int, segments: bool) -> tuple[float, float, float, float]:
    """Return GB/s of writes, both engines' CPU time in s/GB, GB/s of UDP, an 8-byte write's time.

    The last is half of the round trip in microseconds.
    """
    spaces.set_mtu(mtu)
    a, b = (_End(spaces.open(node, segments)) for node in (0, 1))
    a.connect(b)
    b.connect(a)
    start_cpu_s = time.process_time()
    writes = [a.write_s(b.key, BLOCKS, BLOCK) for _ in range(ROUNDS)]
    spent = (time.process_time() - start_cpu_s) / ROUNDS / (WORKING_SET / 1e9)
    pings = sorted(a.write_s(b.key, 1, 8) for _ in range(PINGS))
    path_mtu = 128 << a.opened.interface.path_mtu()
    a.close()
    b.close()
    bare = [_udp_s(spaces, path_mtu, segments) for _ in range(ROUNDS)]
    written, copied = WORKING_SET / 1e9 / min(writes), WORKING_SET / 1e9 / min(bare)
    return written, spent, copied, pings[PINGS // 2] / 2e-6


def measure() -> Section:
    """Measure, where the kernel permits namespaces. Raises OSError."""
    rows: list[Row] = []
    for mtu, segments, goal in (
        (9000, False, 0.8),
        (9000, True, 2.5),
        (1500, False, None),
        (1500, True, 0.3),
    ):
        with ExitStack() as stack:
            routed = mtu == 1500
            written, spent, bare, half_us = _measure(
                _Namespaces(stack, routed=routed), mtu, segments
            )
            name = f"{'routed' if routed else 'wire'}, MTU {mtu}, "
            name += "UDP_SEGMENT" if segments else "packets"
            rows += [
                Row("wire", f"{name}: writes of 64 KiB", written, "GB/s", goal, at_least=True),
                Row("wire", f"{name}: CPU time of both ends", spent, "s/GB"),
                Row("wire", f"{name}: bare UDP", bare, "GB/s"),
                Row(
                    "wire",
                    f"{name}: 8 B write and answer, half, median",
                    half_us,
                    "us",
                    10.0 if mtu == 9000 and not segments else None,
                ),
            ]
    return Section("wire", tuple(rows))


def inside(*options: str) -> list[str]:
    """Return the command that measures in a new network namespace."""
    how = "-n" if os.geteuid() == 0 else "-Urn"
    own = [sys.executable, "-m", "benchmarks.rdma.wire", *options]
    return ["unshare", how, "env", f"{INSIDE}=1", *own]


def _main() -> int:
    if INSIDE not in os.environ:
        return subprocess.run(inside(*sys.argv[1:]), check=False).returncode
    if "--json" in sys.argv:
        print(document([measure()]))
        return 0
    print(machine(), flush=True)
    section = measure()
    print(table([section]))
    return int(any(row.verdict == "MISSED" for row in section.rows))


if __name__ == "__main__":
    sys.exit(_main())
