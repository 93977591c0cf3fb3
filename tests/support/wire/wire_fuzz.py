"""Random packets to a running engine, checked against an oracle.

usage: python -m support.wire.wire_fuzz SEED SECONDS.

Packets look valid and have a right checksum. They come from the peer's address and from others', to
RC, UC and UD queue pairs, some with a shared receive queue, while queue pairs are made and removed,
policies, QoS classes and ceilings switch, and the engine hands everything over to another one.

Every payload says by its bytes which packet it was in. So whoever looks at memory knows what has
written it, and whether the policy of that time let it. Each queue pair has memory of its own.
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
from hca.daemon.common.handover_state import Luggage
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
# A region's parts: what WRITEs are for, what atomics are for, where messages are received, and what
# is the owner's own: sent from, and read into.
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
    """Memory says that something was carried out that policy denies."""


def permitted(mask: Verb) -> set[int]:
    """Return the bytes that packets may leave behind where ``mask`` is what the peer may do."""
    tags = {WRITE_TAG + opcode for opcode, verb in WRITTEN.items() if verb & mask}
    for opcode in SENT:
        verbs = Verb.SEND | (Verb.INVALIDATE if opcode in INVALIDATING else NONE)
        if verbs & mask == verbs:
            tags.add(SEND_TAG + opcode)
    return tags


@dataclass
class Target:
    """A queue pair, its memory, what its peer may do, and what its memory held then."""

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
        """What connection it is of."""
        return Type(self.qp.kind)


class Peer(socket.socket):
    """An address elsewhere."""

    def __init__(self, ip: str = "") -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.ip = ip or wire_rig.fresh_address()
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.bind((self.ip, roce.PORT))
        self.setblocking(False)


class Fuzz:
    """One engine that serves, one that is held until it takes over, and everything beside them."""

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
        self.engine.receive_mads(self.end.wire, self._writing)
        self.spare.hold()
        self.done: dict[str, int] = {}
        for kind in (Type.RC, Type.RC, Type.UC, Type.UC, Type.UD, Type.RC, Type.UC, Type.UD):
            self.add(kind, shared=len(self.targets) > 4)

    # Queue pairs

    def add(self, kind: Type, shared: bool) -> None:
        """Make a queue pair of its own protection domain, and connect it."""
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
        """Go to RTS, and give it a policy."""
        self.check(target)
        target.mask = ALL  # nobody has judged it yet
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
        self.judge(target)

    def renew(self, target: Target) -> None:
        """Begin again with one, or with another one in its place."""
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

    def judge(self, target: Target) -> None:
        """Let its peer do something else from now on; until now it was what was said before."""
        mask = self.random.choice(POLICIES)
        target.qos_class = self.random.randrange(3)
        target.limited = self.random.random() < 0.2
        self.engine.set_policies([self.change(target, NONE)])
        self.check(target)  # by the mask before: nothing moves any more
        self.drain()  # what was answered before
        target.mask = mask
        target.past.append(f"judged {mask!r}")
        self.engine.set_policies([self.change(target, mask)])

    def change(self, target: Target, mask: Verb) -> HcaPolicyChange:
        """Return what the engine is told."""
        own = self.end.client.objects._qps[target.qp.number].engine
        out, in_, _ = self.limits[id(self.engine)] if target.limited else (0, 0, 0)
        sends = self.random.choice(POLICIES)
        change = HcaPolicyChange(own, out, in_, 0, sends, mask, 0, 0xFFFF)
        change.qos_class = target.qos_class
        return change

    def check(self, target: Target) -> None:
        """Compare its memory with what it held, and with what may have come since."""
        now = target.region.view[:]
        before, target.seen = target.seen or now, now
        if now == before:
            return
        tags = permitted(target.mask)
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

    def judge_sources(self) -> None:
        """Answer what the engine asks about who sends datagrams, or forget somebody."""
        for asked in self.engine.asked():
            gid = bytes(asked.source)
            if gid in self.sources or self.random.random() < 0.2:
                self.engine.drop_source(self.end.wire, gid)
                continue
            source = self.engine.add_source(self.end.wire, gid)
            mask = self.random.choice([Verb.UD, Verb.UD, NONE])
            known = gid == wire_rig.gid_of(self.peer.ip)
            change = HcaPolicyChange(receives=mask if known else NONE, address_handle=source)
            self.engine.set_policies([change])
            self.engine.take_source(source)
            self.sources[gid] = source, mask
        if self.sources and self.random.random() < 0.2:
            self.engine.remove_source(self.sources.pop(self.random.choice(list(self.sources)))[0])

    # Packets

    def drain(self) -> None:
        """Forget what the engine has sent so far."""
        for one in (self.peer, self.other, *self.crowd):
            with contextlib.suppress(BlockingIOError):
                while True:
                    one.recv(65536)

    def look(self) -> None:
        """Read what the engine sends; nobody may be told what he may not read."""
        may = any(one.kind == Type.RC and one.mask & Verb.READ for one in self.targets)
        with contextlib.suppress(BlockingIOError):
            for _ in range(256):
                packet = Packet.parse(self.peer.recv(65536))
                answers = roce.RESPONSE_FIRST <= packet.opcode <= roce.RESPONSE_ONLY
                if answers and not may:
                    raise Violation(f"answered to READ, which nobody may: {packet}")

    def packet(self, target: Target) -> Packet:
        """Make a packet that might be the next one."""
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
        """Send some packets to one queue pair, together or apart."""
        target = self.random.choice(self.targets)
        for _ in range(self.random.choice([1, 2, 6])):
            packet = self.packet(target)
            at = self.random.random()
            if at < 0.08:
                stranger = self.random.choice([self.other, *self.crowd])
                forged = packet.but(payload=bytes([FORGED]) * len(packet.payload))
                self.put(stranger, forged.sealed(stranger.ip, self.end.ip))
            elif at < 0.1:
                forged = packet.but(payload=bytes([FORGED]) * len(packet.payload), pkey=0x8001)
                self.put(self.peer, forged.sealed(self.peer.ip, self.end.ip))
            elif at < 0.12:
                data = packet.but(payload=bytes([FORGED]) * len(packet.payload)).encode()
                self.put(self.peer, data + b"nope")
            elif at < 0.15:  # several in one buffer, as the kernel joins them
                parts = [packet.encode()] * 3
                joined = b"".join(
                    part + roce.icrc(self.peer.ip, roce.PORT, self.end.ip, part, place)
                    for place, part in enumerate(parts)
                )
                self.peer.setsockopt(socket.IPPROTO_UDP, 103, len(parts[0]) + 4)
                self.put(self.peer, joined)
                self.peer.setsockopt(socket.IPPROTO_UDP, 103, 0)
            else:
                data = bytearray(packet.sealed(self.peer.ip, self.end.ip))
                self.put(self.peer, bytes(data))

    def put(self, sender: Peer, data: bytes) -> None:
        """Send bytes to the engine's address; some of them are marked on their way."""
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3 if self.random.random() < 0.2 else 2)
        with contextlib.suppress(BlockingIOError, OSError):
            sender.sendto(data, (self.end.ip, roce.PORT))

    def notify(self) -> None:
        """A flood of congestion notifications, right and wrong."""
        target = self.random.choice(self.targets)
        for _ in range(20):
            bth = struct.pack(
                "!BBHBBHI", 0x81, 0x40, 0xFFFF, 0x40, target.qp.number >> 16,
                target.qp.number & 0xFFFF, 0,
            )  # fmt: skip
            data = bth + bytes(self.random.choice([16, 16, 16, 12, 0]))
            self.put(self.peer, data + roce.icrc(self.peer.ip, roce.PORT, self.end.ip, data))

    def manage(self) -> None:
        """Management datagrams: more than hcad's pipe holds, and some of no use."""
        size = self.random.choice([256, 256, 256, 255, 0])
        packet = Packet(
            *(roce.UD | self.random.choice([4, 4, 5]), 1, 0, deth(0x80010000, 1)),
            bytes(size),
        )
        for _ in range(self.random.choice([1, 400])):
            self.put(self.peer, packet.sealed(self.peer.ip, self.end.ip))
        if self.random.random() < 0.3:
            os.set_blocking(self.reading, False)
            with contextlib.suppress(BlockingIOError):
                os.read(self.reading, 1 << 20)

    # Its own programs

    def post(self) -> None:
        """Let a program ask for something, and receive something."""
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
        """Drain, go on, or change what may be changed meanwhile."""
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
        """Take completions, and begin again with what has failed."""
        for target in list(self.targets):
            if target.qp.state in (VerbsState.ERR, VerbsState.SQE):
                self.renew(target)
        self.end.client.events()

    def hand_over(self) -> None:
        """Let the other engine serve from now on."""
        end, engine = self.end, self.spare
        end.engine.hold()
        for target in self.targets:
            self.check(target)
        luggage = Luggage()
        saved = json.loads(json.dumps(end.client.objects.save(luggage)))
        arrived = Luggage([os.dup(descriptor) for descriptor in luggage.descriptors])
        wire = engine.add_wire(end.sockets.structure())
        engine.receive_mads(wire, self._writing)
        handles = arrived.take_all(saved["descriptors"])
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
        engine.release()

    def forget_sources(self) -> None:
        """Forget whoever has sent datagrams."""
        for source, _ in self.sources.values():
            self.engine.remove_source(source)
        self.sources.clear()

    def unplug(self) -> None:
        """Remove the wire with all that is on its way, and put it there again."""
        self.forget_sources()
        self.engine.remove_wire(self.end.wire)
        self.end.wire = self.engine.add_wire(self.end.sockets.structure())
        self.engine.receive_mads(self.end.wire, self._writing)

    # All of it

    def step(self) -> None:
        """Do one thing."""
        (what,) = self.random.choices(
            [self.send, self.post, self.judge_one, self.judge_sources, self.look, self.notify,
             self.manage, self.classes, self.change_state, self.heal, self.hand_over,
             self.unplug, self.renew_one],
            [300, 80, 30, 20, 20, 4, 2, 4, 8, 12, 3, 1, 6],
        )  # fmt: skip
        self.done[what.__name__] = self.done.get(what.__name__, 0) + 1
        what()

    def judge_one(self) -> None:
        """Switch one queue pair's policy."""
        self.judge(self.random.choice(self.targets))

    def renew_one(self) -> None:
        """Begin again with one queue pair."""
        self.renew(self.random.choice(self.targets))

    def close(self) -> None:
        """Remove everything; the engines are as they were."""
        for target in self.targets:
            self.check(target)
        self.forget_sources()
        self.end.client.objects.close()
        self.engine.set_qos_classes([])
        self.engine.remove_wire(self.end.wire)
        self.end.sockets.close()
        self.spare.release()
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
    """Do so many random things; return how many of each, and what became of packets.

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
    """Take seeds one after another, for so many seconds."""
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    end = time.monotonic() + seconds
    with hca_rig.running_engine() as first, hca_rig.running_engine() as second:
        while time.monotonic() < end:
            print(seed, run((first, second), seed, 3000), flush=True)
            seed += 1


if __name__ == "__main__":
    main()
