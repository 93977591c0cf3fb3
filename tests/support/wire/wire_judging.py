"""Ends of a wire with policy: each has an enforcer, and a loop that answers the engine's
requests.
"""

import asyncio
import contextlib
import ctypes
import ipaddress
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hca.binding.addresses import Address, address_of
from hca.binding.engine import Engine
from hca.binding.wire import WireAddress
from hca.binding.wire_sockets import open_sockets
from hca.contract import hca_objects
from hca.contract.hca import HCA_MAX_MTU
from hca.contract.hca_engine import HcaWireCounts
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.numbers import Numbers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from hca.daemon.policy.sources import Sources
from hca.daemon.wires.groups import WireGroups
from rdma.objects import PodFacts
from rdma.tables import NodeTables
from support.rigs import rdma_lab
from support.rigs.hca_rig import Client, Qp, Region
from support.wire import wire_rig

QKEY = 0x1234


class Node:
    """An engine, its enforcer, and one program with a queue pair on a wire."""

    def __init__(
        self,
        engine: Engine,
        ip: str = "",
        kind: VerbsQpType = VerbsQpType.UD,
        path_mtu: int = HCA_MAX_MTU,
        depth: int = 64,
    ) -> None:
        self.engine, self.ip = engine, ip or wire_rig.fresh_address()
        self.enforcer = Enforcer(engine, Parties())
        self.sources = Sources(engine, self.enforcer)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        address = WireAddress(ipaddress.ip_address(self.ip))
        sockets = open_sockets(address, lanes=2)
        self.wire = self.do(lambda: self.sources.add_wire(sockets.to_hca_wire(path_mtu)))
        sockets.close()
        self.wire_groups = WireGroups(engine)
        self.wire_groups.add_wire(self.wire, sockets)
        own = address_of(0)
        self.gid = address.gid
        named = Address(own.guid, (own.gids[0], address.gid))
        self.client = Client(engine, Numbers(), 0, self.enforcer, named)
        self.client.objects.wire_groups = self.wire_groups
        self.send_cq, self.recv_cq = self.client.cq(256), self.client.cq(256)
        self.qp = self.client.qp(self.send_cq, self.recv_cq, depth=depth, kind=kind)

    def do(self, work: Callable[[], Any]) -> Any:
        """Call a function in the event loop, as hcad does; return its result."""

        async def called() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(10)

    def enter(self, group: bytes, qp: Qp | None = None) -> None:
        """Attach to a multicast group, as hcad does for its clients. Raises OSError."""
        number = (qp or self.qp).number
        wanted = hca_objects.HcaMcast(number, 0, (ctypes.c_uint8 * 16)(*group))

        async def entered() -> None:
            async with self.wire_groups.join(self.client.objects.gids, group):
                self.client.objects.attach(wanted)

        asyncio.run_coroutine_threadsafe(entered(), self._loop).result(60)

    def leave(self, group: bytes) -> None:
        """Detach from a group. Raises OSError."""
        wanted = hca_objects.HcaMcast(self.qp.number, 0, (ctypes.c_uint8 * 16)(*group))
        self.client.objects.detach(wanted)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Prevent the event loop from answering while the context lasts."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(done.wait, 60)
        try:
            yield
        finally:
            done.set()

    def region(self, size: int = 1 << 16) -> Region:
        """Register memory."""
        return self.client.region(size)

    def replace_tables(self, tables: NodeTables) -> None:
        """Enforce tables."""
        self.do(lambda: self.enforcer.replace_tables(tables))

    @property
    def counts(self) -> HcaWireCounts:
        """Return the wire's counters."""
        return self.engine.wire_counts(self.wire)

    def rules(self) -> list[Mapping[str, Any]]:
        """Return the operations that each rule has permitted."""

        def gathered() -> list[Mapping[str, Any]]:
            self.enforcer.flows.collect_counts()
            return list(self.enforcer.flows.to_json())

        return list(self.do(gathered))

    def close(self) -> None:
        """Remove the node from its engine."""
        self.client.objects.close()
        self.wire_groups.remove_wire(self.wire)
        self.do(lambda: self.sources.remove_wire(self.wire))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert self.enforcer.connected == 0
        assert len(self.enforcer.flows) == 0


def pods_of(*ips: str, labels: Sequence[str] = ("client", "server")) -> tuple[PodFacts, ...]:
    """Return pods at these addresses, each with a label ``app``."""
    return tuple(
        PodFacts(f"uid-{app}", "default", app, rdma_lab.NODE, {"app": app}, (ip,))
        for ip, app in zip(ips, labels, strict=True)
    )


@contextlib.contextmanager
def nodes(first: Engine, second: Engine, **values: Any) -> Iterator[tuple[Node, Node]]:
    """Yield two nodes with connected queue pairs."""
    with contextlib.ExitStack() as stack:
        a = Node(first, **values)
        stack.callback(a.close)
        b = Node(second, **values)
        stack.callback(b.close)
        yield a, b


@contextlib.contextmanager
def listening(first: Engine, second: Engine) -> Iterator[tuple[Node, Node]]:
    """Yield two nodes whose queue pairs receive datagrams."""
    with nodes(first, second) as made:
        for node in made:
            node.qp.listen(QKEY)
        yield made


def writes_alone(side: str) -> Any:
    """Return a policy that permits only writes, on the client's side ("source") or on the
    server's.
    """
    if side == "source":
        return rdma_lab.policy(
            {"app": "client"}, policyTypes=["Egress"], egress=[rdma_lab.allow("Write")]
        )
    return rdma_lab.policy({"app": "server"}, ingress=[rdma_lab.allow("Write")])
