"""Two engines that reach each other over UDP on the loopback interface, perhaps by a bad
network.
"""

import contextlib
import ipaddress
import random
import secrets
import select
import socket
import threading
from collections.abc import Iterator

from hca.binding.addresses import Address, address_of
from hca.binding.engine import Engine, EngineWire
from hca.binding.wire import WireAddress
from hca.binding.wire_sockets import open_sockets
from hca.contract.hca_engine import HcaWireCounts
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.numbers import Numbers
from hca.daemon.policy.enforcement import Enforcer
from support.oracles import roce
from support.rigs.hca_rig import Client, Cq, Qp, Region

# On a busy machine a thread may wait for seconds: nothing is lost meanwhile.
RELIABLE = {"timeout": 18, "retry_count": 7, "rnr_retry": 7, "max_rd_atomic": 4,
            "max_dest_rd_atomic": 16, "min_rnr_timer": 12}  # fmt: skip


def fresh_address() -> str:
    """Return an address of the loopback interface that is unlikely to be in use."""
    return ".".join(["127", *(str(1 + secrets.randbelow(253)) for _ in range(3))])


def gid_of(ip: str) -> bytes:
    """Return an address as a GID."""
    return WireAddress(ipaddress.ip_address(ip)).gid


class End:
    """An engine with one address on the wire, and one program."""

    def __init__(
        self,
        engine: Engine,
        ip: str | None = None,
        segments: bool = False,
        kind: VerbsQpType = VerbsQpType.RC,
        bytes_per_second: int = 0,
        enforcer: Enforcer | None = None,
    ) -> None:
        self.engine, self.ip = engine, ip or fresh_address()
        address = WireAddress(ipaddress.ip_address(self.ip))
        self.sockets = open_sockets(address, lanes=2, segments=segments)
        structure = self.sockets.to_hca_wire(bytes_per_second=bytes_per_second)
        self.wire: EngineWire = engine.add_wire(structure)
        own = address_of(0)
        named = Address(own.guid, (own.gids[0], address.gid))
        self.gids = named.gids
        self.client = Client(engine, Numbers(), 0, enforcer, address=named)
        self.send_cq: Cq = self.client.cq(256)
        self.recv_cq: Cq = self.client.cq(256)
        self.qp: Qp = self.client.qp(self.send_cq, self.recv_cq, depth=64, kind=kind)

    def connect(self, ip: str, qpn: int, **values: object) -> None:
        """Change to RTS, with a queue pair elsewhere as peer."""
        self.qp.connect(self.qp, **{**RELIABLE, "sgid_index": 1, "dgid": gid_of(ip),
                                    "dest_qpn": qpn, **values})  # type: ignore[arg-type]  # fmt: skip

    def region(self, size: int = 1 << 16) -> Region:
        """Register memory."""
        return self.client.region(size)

    @property
    def counts(self) -> HcaWireCounts:
        """Return the wire's counters."""
        return self.engine.wire_counts(self.wire)

    def close(self) -> None:
        """Remove the end from its engine."""
        self.client.objects.close()
        self.engine.remove_wire(self.wire)
        self.sockets.close()


class BadNetwork:
    """A proxy between two ends that drops, repeats, delays and corrupts packets, by a random
    seed.
    """

    def __init__(self, seed: int, **chances: float) -> None:
        self.towards = [fresh_address(), fresh_address()]
        self.random = random.Random(seed)
        self.chances = chances
        self.unsound = 0
        self.done = {"drop": 0, "twice": 0, "late": 0, "corrupt": 0}
        self.passed = 0
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for bound, ip in zip(self._sockets, self.towards, strict=True):
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            bound.bind((ip, roce.PORT))
            bound.setblocking(False)
        self._late: list[tuple[int, bytes]] = []
        self._ends: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self, first: str, second: str) -> None:
        """Begin to pass packets between two addresses."""
        self._ends = [first, second]
        self._thread.start()

    def close(self) -> None:
        """Stop passing packets."""
        self._ending.set()
        self._thread.join()
        for bound in self._sockets:
            bound.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            ready, _, _ = select.select(self._sockets, [], [], 0.005)
            for bound in ready:
                with contextlib.suppress(BlockingIOError):
                    for _ in range(64):
                        data, (ip, port) = bound.recvfrom(65536)
                        self._pass(self._sockets.index(bound), data, ip, port)
            if not ready:
                self._flush()

    def _flush(self) -> None:
        for side, data in self._late:
            self._send(side, data)
        self._late.clear()

    def _pass(self, side: int, data: bytes, ip: str, port: int) -> None:
        body = data[:-4]
        if data[-4:] != roce.icrc(ip, port, self.towards[side], body):
            self.unsound += 1
        if self._happens("drop"):
            return
        other = 1 - side
        sent = body + roce.icrc(self.towards[other], roce.PORT, self._ends[other], body)
        if self._happens("corrupt"):
            place = self.random.choice([i for i in range(len(sent)) if i != 4])  # marks may change
            damaged = bytearray(sent)
            damaged[place] ^= 1 << self.random.randrange(8)
            self._send(other, bytes(damaged))
            return
        if self._happens("late"):
            self._late.append((other, sent))
            return
        self._send(other, sent)
        if self._happens("twice"):
            self._send(other, sent)
        if len(self._late) > 3:
            self._flush()

    def _happens(self, what: str) -> bool:
        happens = self.random.random() < self.chances.get(what, 0)
        self.done[what] += happens
        return happens

    def _send(self, side: int, data: bytes) -> None:
        self.passed += 1
        with contextlib.suppress(BlockingIOError):
            self._sockets[side].sendto(data, (self._ends[side], roce.PORT))


class Ends:
    """Two connected engines; ``a`` usually requests and ``b`` responds."""

    def __init__(self, first: Engine, second: Engine, network: BadNetwork | None = None,
                 segments: bool = False, kind: VerbsQpType = VerbsQpType.RC,
                 **values: object) -> None:  # fmt: skip
        self.a, self.b = (End(one, segments=segments, kind=kind) for one in (first, second))
        towards = network.towards if network else [self.b.ip, self.a.ip]
        if network:
            values = {"timeout": 14, **values}  # lost packets are soon sent again
            network.start(self.a.ip, self.b.ip)
        self.a.connect(towards[0], self.b.qp.number, **values)
        self.b.connect(towards[1], self.a.qp.number, **values)
        self.here, self.there = self.a.region(1 << 17), self.b.region(1 << 17)

    def close(self) -> None:
        """Remove both."""
        self.a.close()
        self.b.close()


@contextlib.contextmanager
def ends(first: Engine, second: Engine, **values: object) -> Iterator[Ends]:
    """Yield two connected ends without a bad network between them."""
    made = Ends(first, second, **values)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()
