"""The wires of a node's pods: a pod has one while one of its programs has a function open.

A wire's sockets are in the pod's network namespace, which netd enters (see ``netd``). If there
is no netd, or netd refuses, a function reaches only functions of its own node, and ``status``
states the reason.
"""

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from hca.binding.engine import Engine, EngineWire
from hca.binding.wire import PATH_MTUS, NoWire, WireInterface
from hca.binding.wire_sockets import WireSockets
from hca.contract import hca
from hca.contract.hca_engine import HcaWireCounts
from hca.daemon.cm import private_data
from hca.daemon.cm.manager import Manager
from hca.daemon.common.functions import IpAddress
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.netd.broker import Broker, OpenedSockets
from hca.daemon.netd.daemon import SOCKET_NAME
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Party
from hca.daemon.wires import saved_wires
from hca.daemon.wires.groups import WireGroups
from hca.daemon.wires.wires import Wires
from vgpu_sim.records import dataclass
from vgpu_sim.system.pacing import LogQuota
from vgpu_sim.system.peers import PodUid

logger = logging.getLogger("tessera.hcad")

ANSWER_SECONDS: Final = 2.0
TRAFFIC: Final = ("received", "received_bytes", "sent", "sent_bytes")
_LOG_LINES_PER_MINUTE: Final = 30


@dataclass(slots=True)
class _Wire:
    users: int = 0
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: EngineWire | None = None
    sockets: WireSockets | None = None
    """The sockets, kept for a successor of this hcad; the engine has duplicates of their
    descriptors.
    """
    interface: WireInterface | None = None
    why: str = ""

    @property
    def mtu(self) -> int:
        """Return the largest ibv_mtu whose packets fit the wire's interface; without a wire, the
        engine's maximum.
        """
        return self.interface.path_mtu() if self.interface is not None else hca.HCA_MAX_MTU


@dataclass(frozen=True, slots=True)
class Netd:
    """Settings for opening wires: where netd is, and whether the kernel segments packets."""

    directory: Path | None = None
    """The folder that contains netd's socket; None: there is no netd."""
    segments: bool = True
    """Whether the kernel splits and merges buffers of packets (UDP_SEGMENT, UDP_GRO), as hardware
    would.
    """


class PodWires:
    """The wires of all pods of a node."""

    def __init__(self, engine: Engine, enforcer: Enforcer, manager: Manager, netd: Netd) -> None:
        self._engine = engine
        self._parties = enforcer.parties
        self._all = Wires(engine, enforcer, manager, self._open_group)
        self._segments = netd.segments
        self._broker = netd.directory / SOCKET_NAME if netd.directory is not None else None
        self._wires: dict[tuple[PodUid, IpAddress], _Wire] = {}
        self._carried: int | None = None
        self._quota = LogQuota(_LOG_LINES_PER_MINUTE)

    @property
    def groups(self) -> WireGroups:
        """Return the multicast groups that the wires are in."""
        return self._all.groups

    @property
    def path_mtu(self) -> int | None:
        """Return the path MTU in bytes of the wire opened last; None if no wire was opened."""
        return self._carried

    @asynccontextmanager
    async def hold_wire(
        self, pod: PodUid, address: IpAddress, client: socket.socket
    ) -> AsyncIterator[int]:
        """Keep a wire for a pod's address open during the context, if possible, and yield the
        path's ibv_mtu.

        ``client`` is a socket that a program of the pod made: it identifies the pod's network
        namespace.
        """
        key = pod, address
        wire = self._wires.setdefault(key, _Wire())
        wire.users += 1
        try:
            async with wire.opening:
                if wire.made is None:
                    await self._open(wire, address, client)
            yield wire.mtu
        finally:
            wire.users -= 1
            if not wire.users:
                del self._wires[key]
                if wire.made is not None:
                    self._keep_counts(address, wire.made)
                    self._all.remove(wire.made)
                if wire.sockets is not None:
                    wire.sockets.close()

    def count_traffic(self, party: Party) -> Counter[str]:
        """Return the packets and bytes of a party's wires, open and closed, by ``TRAFFIC``."""
        sums = Counter(party.closed_wires)
        addresses = [ipaddress.ip_address(address) for address in party.addresses]
        for wire in self.engine_wires(PodUid(party.pod_uid), addresses):
            sums.update(_traffic_of(self._engine.wire_counts(wire)))
        return sums

    def _keep_counts(self, address: IpAddress, wire: EngineWire) -> None:
        """Add the counts of a wire that is about to be closed to those of its party."""
        party = self._parties.at(str(address))
        if party is not None:
            party.closed_wires.update(_traffic_of(self._engine.wire_counts(wire)))

    def engine_wires(self, pod: PodUid, addresses: Sequence[IpAddress]) -> tuple[EngineWire, ...]:
        """Return the engine's wires for a pod's addresses."""
        wires = (self._wires.get((pod, address)) for address in addresses)
        return tuple(wire.made for wire in wires if wire is not None and wire.made is not None)

    def status(self) -> Mapping[str, Any]:
        """Return the state of each wire by address.

        If an address has no wire, its state gives the reason.
        """
        return {
            "broker": str(self._broker) if self._broker is not None else "",
            "wires": [self._describe(address, wire) for (_, address), wire in self._wires.items()],
        }

    def save(self, handover_state: HandoverState) -> list[Row]:
        """Return the wires' records for a successor; no wire may be in the process of being
        opened.
        """
        return [
            {
                "pod_uid": pod,
                "address": str(address),
                "wire": saved_wires.save(wire.interface, (wire.sockets,), handover_state),
            }
            for (pod, address), wire in self._wires.items()
            if wire.sockets is not None and wire.interface is not None
        ]

    def load(self, saved: Sequence[Row], handover_state: HandoverState) -> None:
        """Restore a predecessor's wires, before the connections over them are restored.

        The caller must call ``hold_wire`` for each wire later.

        Raises:
            OSError, ValueError, KeyError, TypeError: a record is incomplete or invalid.
        """
        for row in saved:
            interface, (sockets,) = saved_wires.load(row["wire"], handover_state)
            wire = _Wire(sockets=sockets, interface=interface)
            wire.made = self._all.add(sockets, interface.path_mtu())
            self._wires[PodUid(row["pod_uid"]), ipaddress.ip_address(row["address"])] = wire
            self._carried = PATH_MTUS[wire.mtu - 1]

    def _describe(self, address: IpAddress, wire: _Wire) -> Mapping[str, Any]:
        description: dict[str, Any] = {"address": str(address), "programs": wire.users}
        if wire.made is None or wire.interface is None:
            return {**description, "same_node_only": wire.why or "being opened"}
        counts = self._engine.wire_counts(wire.made)
        return {
            **description,
            "interface": wire.interface.name,
            "interface_mtu": wire.interface.mtu,
            "segments": self._segments,
            "path_mtu": PATH_MTUS[wire.mtu - 1],
            "datagram_sources": self._all.count_sources(wire.made),
            "groups": [private_data.address_text(gid) for gid in wire.sockets.groups]
            if wire.sockets
            else [],
            "packets": {name: int(getattr(counts, name)) for name, *_ in counts._fields_},
        }

    async def _open(self, wire: _Wire, address: IpAddress, client: socket.socket) -> None:
        if self._broker is None:
            wire.why = "the chart has rdma.wire.enabled off"
            return
        descriptor = os.dup(client.fileno())  # the thread may outlive the connection
        try:
            opened = await asyncio.to_thread(
                _open_sockets, self._broker, descriptor, str(address), self._segments
            )
        except (NoWire, OSError) as err:
            wire.why = f"netd: {err}"
            if self._quota.take():
                logger.warning("no_wire address=%s reason=%r", address, wire.why)
            return
        try:
            (sockets,) = opened.wires
            if sockets.address.ip != address:
                raise NoWire(f"netd opened sockets of {sockets.address.ip} instead of {address}")
            wire.made = self._all.add(sockets, opened.interface.path_mtu())
        except (NoWire, ValueError, OSError) as err:
            opened.close()
            wire.why = str(err)
            logger.warning("no_wire address=%s reason=%r", address, wire.why)
            return
        wire.sockets, wire.interface, wire.why = sockets, opened.interface, ""
        self._carried = PATH_MTUS[wire.mtu - 1]

    async def _open_group(self, sockets: WireSockets, group: bytes) -> socket.socket:
        """Open a socket in a multicast group at a pod's address, through netd. Raises OSError."""
        if self._broker is None:
            raise OSError(errno.ENETUNREACH, "no netd is available to open sockets in groups")
        descriptor = os.dup(sockets.sockets[0].fileno())
        try:
            return await asyncio.to_thread(
                _open_group_socket, self._broker, descriptor, str(sockets.address.ip), group
            )
        except NoWire as err:
            raise OSError(errno.ENETUNREACH, f"netd: {err}") from err


def _traffic_of(counts: HcaWireCounts) -> dict[str, int]:
    """Return those of a wire's counts that state its traffic."""
    return {name: int(getattr(counts, name)) for name in TRAFFIC}


def _open_group_socket(broker: Path, descriptor: int, address: str, group: bytes) -> socket.socket:
    try:
        with _connect(broker) as link:
            return Broker(link).open_group(descriptor, address, group)
    finally:
        os.close(descriptor)


def _connect(broker: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.settimeout(ANSWER_SECONDS)
        link.connect(str(broker))
    except BaseException:
        link.close()
        raise
    return link


def _open_sockets(broker: Path, descriptor: int, address: str, segments: bool) -> OpenedSockets:
    try:
        with _connect(broker) as link:
            return Broker(link).open(descriptor, address, segments)
    finally:
        os.close(descriptor)
