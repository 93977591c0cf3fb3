"""Random packets to a running engine, checked against an oracle.

usage: python -m support.wire.wire_fuzz SEED SECONDS.

Packets look valid and have a correct checksum. They come from the peer's address and from
others, to RC, UC and UD queue pairs, some with a shared receive queue. Meanwhile queue pairs are
created and destroyed, policies, QoS classes and rate limits change, and the engine hands
everything over to another engine.

Every payload encodes its packet. So the contents of memory show which packet has written it, and
whether the policy at that time permitted it. Each queue pair has its own memory.
"""

import contextlib
import json
import os
import random
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

from hca.binding.engine import Engine, EngineAh, EngineFlow, EngineLimit
from hca.contract.hca import HcaQpAttributes, HcaQpModify
from hca.contract.hca_engine import HcaPolicyChange, HcaQosClass
from hca.contract.verbs import VerbsMask as Mask, VerbsOpcode as Op, VerbsQpType as Type, VerbsState
from hca.daemon.common.handover_state import HandoverState
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import AdoptedObjects
from rdma.verbs import ALL, NONE, Verb
from support.oracles import roce
from support.oracles.roce import Packet, aeth, atomic_eth, deth, reth
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Qp, Region, Srq
from support.wire import wire_rig

PEER_QPN, QKEY, MTU = 0x123456, 0x1234, 256
HALF, SIZE = 16384, 65536
# Parts of a region: for WRITEs, for atomics, for received messages, and for the owner's own use: it
# sends from there and READs into it.
WRITES, COMPARES, ADDS, RECEIVES, OWN = 0, HALF, HALF + 4096, 2 * HALF, 3 * HALF
SEND_TAG, WRITE_TAG, UD_TAG, FORGED = 0x20, 0x40, 0x60, 0xF1
SWAPPED = 0xCACACACACACACACA
WRITTEN = {roce.WRITE_FIRST: Verb.WRITE, roce.WRITE_MIDDLE: Verb.WRITE,
           roce.WRITE_LAST: Verb.WRITE, roce.WRITE_LAST_IMM: Verb.WRITE_IMM,
           roce.WRITE_ONLY: Verb.WRITE, roce.WRITE_ONLY_IMM: Verb.WRITE_IMM}  # fmt: skip
SENT = {roce.SEND_FIRST, roce.SEND_MIDDLE, roce.SEND_LAST, roce.SEND_LAST_IMM, roce.SEND_ONLY,
        roce.SEND_ONLY_IMM, roce.SEND_LAST_INV, roce.SEND_ONLY_INV}  # fmt: skip
INVALIDATING = {roce.SEND_LAST_INV, roce.SEND_ONLY_INV}
POLICIES = (ALL, ALL, ALL, NONE, Verb.WRITE_IMM, Verb.WRITE, Verb.READ, Verb.SEND, ALL & ~Verb.READ,
            ALL & ~Verb.WRITE, ALL & ~Verb.INVALIDATE, ALL & ~Verb.ATOMIC_FAA,
            ALL & ~Verb.ATOMIC_CAS, ALL & ~Verb.SEND)  # fmt: skip


class Violation(AssertionError):
    """Memory shows that an operation was executed that policy denies."""


def permitted_bytes(mask: Verb) -> set[int]:
    """Return the bytes that packets may leave in memory if the peer may use the verbs ``mask``."""
    tags = {WRITE_TAG + opcode for opcode, verb in WRITTEN.items() if verb & mask}
    for opcode in SENT:
        verbs = Verb.SEND | (Verb.INVALIDATE if opcode in INVALIDATING else NONE)
        if verbs & mask == verbs:
            tags.add(SEND_TAG + opcode)
    return tags


@dataclass
class Target:
    """A queue pair, its memory, its peer's rights, and the memory's content at the last check."""

    qp: Qp
    region: Region
    srq: Srq | None
    mask: Verb = ALL
    qos_class: int = 0
    limited: bool = False
    seen: bytes = field(default=b"", repr=False)
    past: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Type:
        """Return the queue pair's type."""
        return Type(self.qp.kind)


class Peer(socket.socket):
    """The socket of another node."""

    def __init__(self, ip: str = "") -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.ip = ip or wire_rig.fresh_address()
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.bind((self.ip, roce.PORT))
        self.setblocking(False)


class Fuzz:
    """An engine that serves, another that is suspended until it takes over, peers, and a program's
    objects.
    """

    def __init__(self, engines: tuple[Engine, Engine], seed: int) -> None:
        self.random = random.Random(seed)
        self.engine, self.spare = engines
        self.end = wire_rig.End(self.engine, segments=True)
        self.end.client.objects.destroy_qp(self.end.qp.number)
        self.peer, self.other = Peer(), Peer()
        self.crowd = [Peer() for _ in range(4)]
        self.targets: list[Target] = []
        self.sources: dict[bytes, tuple[EngineAh, Verb]] = {}
        self.limits: dict[int, tuple[EngineFlow, EngineFlow, EngineLimit]] = {}
        for engine in engines:
            limit = engine.add_limit(20_000_000, 65536, 0, 0)
            flows = engine.add_flow(), engine.add_flow()
            engine.limit_flow(flows[0], [limit])
            self.limits[id(engine)] = (*flows, limit)
        self.reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self.engine.set_mad_pipe(self.end.wire, self._writing)
        self.spare.suspend()
        self.done: dict[str, int] = {}
        for kind in (Type.RC, Type.RC, Type.UC, Type.UC, Type.UD, Type.RC, Type.UC, Type.UD):
            self.add(kind, shared=len(self.targets) > 4)

    # Queue pairs

    def add(self, kind: Type, shared: bool) -> None:
        """Make a queue pair with a protection domain of its own, and connect it."""
        client = self.end.client
        pd = client.objects.create_pd().handle
        cq = client.cq(4096)
        srq = None
        if shared:
            before, client.pd = client.pd, pd
            srq = Srq(client)
            client.pd = before
        qp = client.qp(cq, cq, pd=pd, depth=16, kind=kind, srq=srq.handle if srq else 0)
        target = Target(qp, client.region(SIZE, pd=pd), srq)
        self.targets.append(target)
        self.connect(target)

    def connect(self, target: Target) -> None:
        """Change a queue pair to RTS, and set a policy for it."""
        self.check(target)
        target.mask = ALL  # not evaluated yet
        target.past.append("connects")
        if target.kind == Type.UD:
            target.qp.listen(QKEY)
        else:
            psn = self.random.randrange(roce.PSNS)
            target.qp.connect(
                *(target.qp,),
                **{**wire_rig.RELIABLE, "timeout": 10, "sgid_index": 1, "path_mtu": 1,
                   "dgid": wire_rig.gid_of(self.peer.ip), "dest_qpn": PEER_QPN,
                   "rq_psn": psn, "sq_psn": self.random.randrange(roce.PSNS)},
            )  # fmt: skip
        target.qp.page.send_head = target.qp.page.recv_head = 0
        self.evaluate(target)

    def renew(self, target: Target) -> None:
        """Reset a queue pair, or replace it by a new one, and connect it."""
        self.check(target)
        if self.random.random() < 0.5:
            with contextlib.suppress(OSError):
                target.qp.modify(Mask.STATE, state=VerbsState.RESET)
                self.connect(target)
            return
        objects = self.end.client.objects
        objects.destroy_qp(target.qp.number)
        objects.destroy_region(target.region.key)
        objects.destroy_segment(target.region.segment)
        target.region.view.close()
        self.targets.remove(target)
        self.add(target.kind, target.srq is not None)

    # Policy

    def evaluate(self, target: Target) -> None:
        """Change the rights of a queue pair's peer."""
        mask = self.random.choice(POLICIES)
        target.qos_class = self.random.randrange(3)
        target.limited = self.random.random() < 0.2
        self.engine.set_policies([self.change(target, NONE)])
        self.check(target)  # by the rights before; nothing moves now
        self.drain()  # drop earlier answers
        target.mask = mask
        target.past.append(f"evaluated {mask!r}")
        self.engine.set_policies([self.change(target, mask)])

    def change(self, target: Target, mask: Verb) -> HcaPolicyChange:
        """Return the policy change for the engine."""
        own = self.end.client.objects._qps[target.qp.number].engine
        out, in_, _ = self.limits[id(self.engine)] if target.limited else (0, 0, 0)
        sends = self.random.choice(POLICIES)
        change = HcaPolicyChange(own, out, in_, 0, sends, mask, 0, 0xFFFF)
        change.qos_class = target.qos_class
        return change

    def check(self, target: Target) -> None:
        """Compare the memory with its last content; changes must be by permitted packets only."""
        now = target.region.view[:]
        before, target.seen = target.seen or now, now
        if now == before:
            return
        tags = permitted_bytes(target.mask)
        if target.kind == Type.UD:
            tags = {UD_TAG}
        for at, (one, other) in enumerate(zip(before, now, strict=True)):
            if one == other or at >= OWN:
                continue
            if COMPARES <= at < ADDS:
                right = other == SWAPPED & 0xFF and bool(target.mask & Verb.ATOMIC_CAS)
            elif ADDS <= at < RECEIVES:
                right = bool(target.mask & Verb.ATOMIC_FAA)
            elif target.kind == Type.UD and at % 1024 < 40:
                right = True  # the header of a datagram
            else:
                right = other in tags and (at >= RECEIVES) == (other < WRITE_TAG or other == UD_TAG)
            if not right:
                raise Violation(f"{other:#x} at {at:#x}, where {one:#x} was: {target!r}")
        if bytes([FORGED]) * 4 in now:
            raise Violation(f"a stranger has written to {target!r}")

    def classes(self) -> None:
        """Replace the QoS classes."""
        rate = self.random.choice([0, 5_000_000, 50_000_000])
        made = [HcaQosClass(rate, 0, 1, 40, 96), HcaQosClass(0, rate, 9, 80, 96)]
        self.engine.set_qos_classes(made[: self.random.randrange(3)])

    def evaluate_sources(self) -> None:
        """Set verdicts for senders of datagrams that the engine reports, or remove one sender."""
        for request in self.engine.pending_sources():
            gid = bytes(request.source)
            if gid in self.sources or self.random.random() < 0.2:
                self.engine.drop_source(self.end.wire, gid)
                continue
            source = self.engine.add_source(self.end.wire, gid)
            mask = self.random.choice([Verb.UD, Verb.UD, NONE])
            known = gid == wire_rig.gid_of(self.peer.ip)
            change = HcaPolicyChange(receives=mask if known else NONE, address_handle=source)
            self.engine.set_policies([change])
            self.engine.process_source(source)
            self.sources[gid] = source, mask
        if self.sources and self.random.random() < 0.2:
            self.engine.remove_source(self.sources.pop(self.random.choice(list(self.sources)))[0])

    # Packets

    def drain(self) -> None:
        """Receive and drop what the engine has sent so far."""
        for one in (self.peer, self.other, *self.crowd):
            with contextlib.suppress(BlockingIOError):
                while True:
                    one.recv(65536)

    def look(self) -> None:
        """Check the engine's packets: none may reveal memory that its receiver may not read."""
        may = any(one.kind == Type.RC and one.mask & Verb.READ for one in self.targets)
        with contextlib.suppress(BlockingIOError):
            for _ in range(256):
                packet = Packet.parse(self.peer.recv(65536))
                answers = roce.RESPONSE_FIRST <= packet.opcode <= roce.RESPONSE_ONLY
                if answers and not may:
                    raise Violation(f"answered to READ, which is denied to all: {packet}")

    def packet(self, target: Target) -> Packet:
        """Make a packet that looks like the next one of a connection."""
        chosen = self.random
        saved = self.engine.save_qp(self.end.client.objects._qps[target.qp.number].engine).wire
        transport = {Type.RC: 0, Type.UC: roce.UC, Type.UD: roce.UD}[target.kind]
        if target.kind == Type.UD:
            opcode = chosen.choice([roce.SEND_ONLY, roce.SEND_ONLY_IMM])
        elif saved.message and chosen.random() < 0.8:
            opcode = chosen.choice([1, 2, 2, 3, 22] if saved.message == 1 else [7, 8, 8, 9])
        else:
            opcode = chosen.choice([*range(24), roce.READ_REQUEST, roce.WRITE_FIRST])
        if target.kind == Type.UC and opcode > roce.WRITE_ONLY_IMM:
            opcode %= roce.WRITE_ONLY_IMM + 1
        psn = saved.psn
        if roce.RESPONSE_FIRST <= opcode <= roce.ATOMIC_ACKNOWLEDGE:
            psn = saved.oldest_psn + chosen.choice([0, 0, 0, 1, 2, 5])
        elif chosen.random() < 0.2:
            psn += chosen.choice([-20, -3, -2, -1, 1, 2, 300, 1 << 22, -(1 << 22)])
        size = MTU if opcode in (0, 1, 6, 7, 13, 14) else chosen.choice([0, 1, 4, 8, 100, 255, MTU])
        whole = size
        if opcode == roce.WRITE_FIRST:
            whole = chosen.choice([MTU + 1, 2 * MTU, 3 * MTU, 1000])
        elif opcode == roce.READ_REQUEST:
            whole = chosen.choice([0, 8, 3 * MTU, 16000, 1 << 30, 0xFFFFFFFF])
        elif saved.message == 2 and opcode in (roce.WRITE_LAST, roce.WRITE_LAST_IMM):
            size = min(MTU, max(0, saved.bytes - saved.done))
        key = target.region.key ^ (chosen.random() < 0.01)
        at = BASE + chosen.randrange(HALF - 1024)
        headers = b""
        if opcode in (6, 10, 11, 12):
            headers = reth(at, key, whole)
        if opcode == roce.COMPARE_SWAP:
            place = BASE + COMPARES + 8 * chosen.randrange(500) + (chosen.random() < 0.01)
            headers = atomic_eth(place, key, SWAPPED, chosen.choice([0, 0, 5]))
        if opcode == roce.FETCH_ADD:
            headers = atomic_eth(BASE + ADDS + 8 * chosen.randrange(500), key, 1)
        if opcode in (13, 15, 16, 17, 18):
            syndrome = chosen.choice([0x1F, 0x1F, 0x1F, roce.RNR | 1, roce.NAK, 0x62, 0x7F])
            headers = aeth(syndrome)
        if opcode == roce.ATOMIC_ACKNOWLEDGE:
            headers += struct.pack("!Q", 7)
        if opcode in (3, 5, 9, 11, 22, 23):
            headers += struct.pack("!I", chosen.choice([0, key]))
        if target.kind == Type.UD:
            headers = deth(QKEY ^ (chosen.random() < 0.1), 7) + headers
        tag = UD_TAG if target.kind == Type.UD else {0: SEND_TAG, 1: WRITE_TAG}.get(opcode // 6, 1)
        if tag in (SEND_TAG, WRITE_TAG):
            tag += opcode
        if opcode in INVALIDATING and target.kind == Type.RC:
            tag = SEND_TAG + opcode
        bare = opcode in (12, 17, 18, 19, 20)
        return Packet(
            *(opcode | transport, target.qp.number, psn % roce.PSNS, headers),
            *(b"" if bare else bytes([tag]) * size, chosen.random() < 0.5),
        )

    def send(self) -> None:
        """Send some packets to one queue pair, together or separately."""
        target = self.random.choice(self.targets)
        for _ in range(self.random.choice([1, 2, 6])):
            packet = self.packet(target)
            at = self.random.random()
            if at < 0.08:
                stranger = self.random.choice([self.other, *self.crowd])
                forged = packet.but(payload=bytes([FORGED]) * len(packet.payload))
                self.put(stranger, forged.seal(stranger.ip, self.end.ip))
            elif at < 0.1:
                forged = packet.but(payload=bytes([FORGED]) * len(packet.payload), pkey=0x8001)
                self.put(self.peer, forged.seal(self.peer.ip, self.end.ip))
            elif at < 0.12:
                data = packet.but(payload=bytes([FORGED]) * len(packet.payload)).encode()
                self.put(self.peer, data + b"nope")
            elif at < 0.15:  # several in one buffer, as the kernel merges them
                parts = [packet.encode()] * 3
                joined = b"".join(
                    part + roce.icrc(self.peer.ip, roce.PORT, self.end.ip, part, place)
                    for place, part in enumerate(parts)
                )
                self.peer.setsockopt(socket.IPPROTO_UDP, 103, len(parts[0]) + 4)
                self.put(self.peer, joined)
                self.peer.setsockopt(socket.IPPROTO_UDP, 103, 0)
            else:
                data = bytearray(packet.seal(self.peer.ip, self.end.ip))
                self.put(self.peer, bytes(data))

    def put(self, sender: Peer, data: bytes) -> None:
        """Send bytes to the engine's address, sometimes with a congestion mark."""
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3 if self.random.random() < 0.2 else 2)
        with contextlib.suppress(BlockingIOError, OSError):
            sender.sendto(data, (self.end.ip, roce.PORT))

    def notify(self) -> None:
        """Send a flood of valid and invalid congestion notifications."""
        target = self.random.choice(self.targets)
        for _ in range(20):
            bth = struct.pack(
                "!BBHBBHI", 0x81, 0x40, 0xFFFF, 0x40, target.qp.number >> 16,
                target.qp.number & 0xFFFF, 0,
            )  # fmt: skip
            data = bth + bytes(self.random.choice([16, 16, 16, 12, 0]))
            self.put(self.peer, data + roce.icrc(self.peer.ip, roce.PORT, self.end.ip, data))

    def manage(self) -> None:
        """Send management datagrams: more than hcad's pipe holds, some of them invalid."""
        size = self.random.choice([256, 256, 256, 255, 0])
        packet = Packet(
            *(roce.UD | self.random.choice([4, 4, 5]), 1, 0, deth(0x80010000, 1)),
            bytes(size),
        )
        for _ in range(self.random.choice([1, 400])):
            self.put(self.peer, packet.seal(self.peer.ip, self.end.ip))
        if self.random.random() < 0.3:
            os.set_blocking(self.reading, False)
            with contextlib.suppress(BlockingIOError):
                os.read(self.reading, 1 << 20)

    # The engine's own program

    def post(self) -> None:
        """Post requests of the program: receives and one send."""
        target = self.random.choice(self.targets)
        key, chosen = target.region.key, self.random
        for _ in range(chosen.randrange(4)):
            place = (BASE + RECEIVES + 1024 * chosen.randrange(16), 1024, key)
            (target.srq or target.qp).receive(place)
        own = [(BASE + OWN + chosen.randrange(1000), chosen.choice([0, 8, 300, 9000]), key)]
        if target.kind == Type.UD:
            ah = self.end.client.ah(wire_rig.gid_of(self.peer.ip), pd=self.pd_of(target))
            target.qp.send(Op.SEND, (), b"datagram", address_handle=ah, remote_qpn=7)
            self.end.client.objects.destroy_ah(ah)
            return
        opcodes = [Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM]
        if target.kind == Type.RC:
            opcodes += [Op.RDMA_READ, Op.SEND_WITH_INV, Op.ATOMIC_CMP_AND_SWP, Op.RDMA_READ]
        opcode = chosen.choice(opcodes)
        if opcode == Op.ATOMIC_CMP_AND_SWP:
            own = [(BASE + OWN, 8, key)]
        target.qp.send(opcode, own, flags=chosen.choice([0, 2, 3]), remote_address=0, remote_key=1)

    def pd_of(self, target: Target) -> int:
        """Return a target's protection domain."""
        return int(self.end.client.objects._qps[target.qp.number].pd)

    def change_state(self) -> None:
        """Drain or resume a queue pair, or change an attribute of a drained one."""
        target = self.random.choice(self.targets)
        own = self.end.client.objects
        wanted = HcaQpAttributes(state=self.random.choice([3, 4, 4, 6]))
        mask = int(Mask.STATE)
        if target.kind == Type.RC and wanted.state == VerbsState.SQD:
            mask |= self.random.choice([0, int(Mask.MAX_DEST_RD_ATOMIC)])
            wanted.max_dest_rd_atomic = self.random.choice([0, 1, 4, 16])
        with contextlib.suppress(OSError):
            own.modify_qp(HcaQpModify(target.qp.number, mask, wanted))

    def heal(self) -> None:
        """Renew failed queue pairs, and read the client's events."""
        for target in list(self.targets):
            if target.qp.state in (VerbsState.ERR, VerbsState.SQE):
                self.renew(target)
        self.end.client.events()

    def hand_over(self) -> None:
        """Hand everything over to the other engine."""
        end, engine = self.end, self.spare
        end.engine.suspend()
        for target in self.targets:
            self.check(target)
        handover_state = HandoverState()
        saved = json.loads(json.dumps(end.client.objects.save(handover_state)))
        arrived = HandoverState([os.dup(descriptor) for descriptor in handover_state.descriptors])
        wire = engine.add_wire(end.sockets.to_hca_wire())
        engine.set_mad_pipe(wire, self._writing)
        handles = arrived.take_descriptors(saved["descriptors"])
        numbers = Numbers()
        numbers.adopt_pds(end.client.objects._numbers.last_pd)
        objects = AdoptedObjects(engine, numbers, end.gids, 1 << 30, handles)
        objects.load(saved, arrived)
        self.forget_sources()
        end.client.objects.close()
        end.engine.set_qos_classes([])
        end.engine.remove_wire(end.wire)
        self.engine, self.spare = engine, self.engine
        end.client.objects, end.engine, end.wire, end.client.engine = objects, engine, wire, engine
        for target in self.targets:
            target.past.append("handed over")
        changes = [self.change(target, target.mask) for target in self.targets]
        engine.set_policies(changes)
        engine.resume()

    def forget_sources(self) -> None:
        """Remove all known senders of datagrams."""
        for source, _ in self.sources.values():
            self.engine.remove_source(source)
        self.sources.clear()

    def unplug(self) -> None:
        """Remove the wire with everything in flight, and add it again."""
        self.forget_sources()
        self.engine.remove_wire(self.end.wire)
        self.end.wire = self.engine.add_wire(self.end.sockets.to_hca_wire())
        self.engine.set_mad_pipe(self.end.wire, self._writing)

    # Everything together

    def step(self) -> None:
        """Do one random action."""
        (what,) = self.random.choices(
            [self.send, self.post, self.evaluate_one, self.evaluate_sources, self.look, self.notify,
             self.manage, self.classes, self.change_state, self.heal, self.hand_over,
             self.unplug, self.renew_one],
            [300, 80, 30, 20, 20, 4, 2, 4, 8, 12, 3, 1, 6],
        )  # fmt: skip
        self.done[what.__name__] = self.done.get(what.__name__, 0) + 1
        what()

    def evaluate_one(self) -> None:
        """Change one queue pair's policy."""
        self.evaluate(self.random.choice(self.targets))

    def renew_one(self) -> None:
        """Renew one queue pair."""
        self.renew(self.random.choice(self.targets))

    def close(self) -> None:
        """Remove everything; the engines are then as before."""
        for target in self.targets:
            self.check(target)
        self.forget_sources()
        self.end.client.objects.close()
        self.engine.set_qos_classes([])
        self.engine.remove_wire(self.end.wire)
        self.end.sockets.close()
        self.spare.resume()
        for engine in (self.engine, self.spare):
            out, in_, limit = self.limits[id(engine)]
            engine.remove_flow(out)
            engine.remove_flow(in_)
            engine.remove_limit(limit)
        for one in (self.peer, self.other, *self.crowd):
            one.close()
        os.close(self.reading)
        os.close(self._writing)


def run(engines: tuple[Engine, Engine], seed: int, steps: int) -> dict[str, int]:
    """Do ``steps`` random actions; return how often each was done, and the wire's counters.

    Raises Violation.
    """
    fuzz = Fuzz(engines, seed)
    for _ in range(steps):
        fuzz.step()
    fuzz.heal()
    counts = fuzz.end.counts
    found = {name: getattr(counts, name) for name, _ in counts._fields_}
    fuzz.close()
    return {**fuzz.done, **found}


def main() -> None:
    """Run with one seed after another for the given seconds."""
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    end = time.monotonic() + seconds
    with hca_rig.running_engine() as first, hca_rig.running_engine() as second:
        while time.monotonic() < end:
            print(seed, run((first, second), seed, 3000), flush=True)
            seed += 1


if __name__ == "__main__":
    main()
