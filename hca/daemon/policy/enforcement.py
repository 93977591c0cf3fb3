"""Policy, enforced: every connection is judged by the tables in force, and again by each new ones.

What a client says decides nothing but whom it wants: addresses are those that hcad gave, a peer is
its GID as the engine will compare it. Closed where nothing is known: a fabric that is managed and
has no tables lets nobody connect. A fabric that nobody manages lets everything pass.
"""

import asyncio
import errno
from collections.abc import Callable, Mapping
from typing import Final

from hca.binding.engine import Engine, EngineAh, EngineQp
from hca.contract.hca import HcaQpAttributes
from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.hca_objects import HcaAhCreate
from hca.daemon.cm.bindings import NOT_CONNECTED, Found
from hca.daemon.cm.policy import Refusal, Service
from hca.daemon.policy import memory_rules
from hca.daemon.policy.audience import Audience
from hca.daemon.policy.denials import Denials
from hca.daemon.policy.flows import Flows
from hca.daemon.policy.judgements import (
    Connection,
    End,
    Judgement,
    Judging,
    Switched,
    asked_of,
    denial_of,
    judge_raw,
)
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.qos import EngineClasses
from hca.daemon.policy.successors import check_successor
from rdma import grants
from rdma.judge import Judge
from rdma.qos import Classes
from rdma.tables import DEFAULT_PKEY, FULL, Flow, Identity, Limits, NodeTables, Pod
from rdma.verbs import ALL, Verb

_DEFAULT: Final = DEFAULT_PKEY | FULL
_EVERYTHING: Final = Judgement(_DEFAULT, ALL, ALL)
Apply = Callable[[HcaPolicyChange], None]


class Enforcer:
    """Judges connections of one node, for the engine's data path."""

    def __init__(
        self,
        engine: Engine,
        parties: Parties,
        *,
        managed: bool = False,
        judge_of: Callable[[NodeTables], Judging] = Judge,
    ) -> None:
        self._engine = engine
        self.parties = parties
        self._judge_of = judge_of
        self._judge: Judging | None = None
        self._connections: dict[End, Connection] = {}
        self._identities: Mapping[str, Identity] = {}
        self._pods: Mapping[str, Pod] = {}
        self._asks_qpn = self._asks_class = False
        self._classes = EngineClasses(engine)
        self._changed = asyncio.Event()
        self.managed = managed
        """Whether policy decides at all. Once true it stays."""
        self.tables: NodeTables | None = None
        self.denials = Denials()
        self.flows = Flows(engine, self.denials, self._name_of)
        self.audience = Audience(engine, self.connect_source, self.forget)
        self.revoked = 0
        """Queue pairs since the start."""

    @property
    def connected(self) -> int:
        """How many queue pairs have a peer."""
        return len(self._connections)

    def knows(self, party: Party) -> bool:
        """Tell whether its programs may open their function: tables say who they are."""
        return not self.managed or any(self._is_known(party, one) for one in party.addresses)

    async def until_known(self, party: Party, seconds: float) -> bool:
        """Wait for tables that know somebody; tell whether they came."""
        try:
            async with asyncio.timeout(seconds):
                while not self.knows(party):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def switch(self, tables: NodeTables) -> Switched:
        """Enforce other tables: when it returns nothing moves any more that they forbid.

        Raises:
            StaleTables: they are older than those in force, or another node's.
        """
        check_successor(self.tables, tables)
        judge = self._judge_of(tables)
        self.flows.gather()  # by the verdicts of the old ones
        self.managed, self.tables, self._judge = True, tables, judge
        ports = [port for rule in tables.rules for port in rule.ports]
        self._asks_qpn = any(port.qpns for port in ports)
        self._asks_class = Classes(tables.qos_classes).asks_traffic_class or any(
            port.traffic_class is not None or port.dscp is not None for port in ports
        )
        self._classes.follow(tables.qos_classes)
        self._pods = {pod.uid: pod for pod in tables.pods}
        numbers = {identity.number: identity for identity in tables.identities}
        self._identities = {
            one.address: numbers[one.identity]
            for one in tables.endpoints
            if one.identity in numbers
        }
        switched = self._judge_all(tables)
        self.flows.follow(tables.rules)
        self._changed.set()
        return switched

    def parties_changed(self) -> None:
        """A function has another owner: judge again who is connected."""
        if self.tables is not None:
            self.flows.gather()
            self._judge_all(self.tables)
        self._changed.set()

    def connect(
        self,
        party: Party,
        qp: EngineQp,
        own_qpn: int,
        attributes: HcaQpAttributes,
        found: Found = NOT_CONNECTED,
        apply: Apply | None = None,
    ) -> None:
        """Judge a queue pair's peer, and give the engine what it may do.

        A rule for a service's port is about requests to the side that serves it. While ``found`` is
        awaited, a queue pair that may do nothing is not refused. A refused one keeps the rights of
        the peer that it has: it is still set to that peer. ``apply`` gives the engine the policy
        together with the peer: in between, either peer would have the other's rights.

        Raises:
            OSError: EACCES, the two may do nothing with each other; or what ``apply`` raises.
        """
        asked, (service, is_awaited) = asked_of(own_qpn, attributes), found
        connection = Connection(party, asked, service, is_awaited=is_awaited)
        judgement = self._judged(connection)
        if not is_awaited and not judgement.sends and not judgement.receives:
            self._deny(connection, judgement)
            self._release(judgement)
            raise OSError(errno.EACCES, f"{party.owner}: policy denies its peer")
        before = self._connections.get(qp)
        try:
            self._enter(qp, connection, judgement, revoke=not is_awaited, apply=apply)
        except OSError:
            self._release(judgement)
            raise
        self._let_go(before.judgement if before is not None else Judgement())

    def connect_again(self, qp: EngineQp, found: Found) -> None:
        """Judge a queue pair whose connection of the connection manager has changed.

        What may do nothing from now on is not ended: its program reads an event. Raises OSError.
        """
        if (connection := self._connections.get(qp)) is not None:
            connection.service, connection.is_awaited = found
            before = connection.judgement
            self._enter(qp, connection, self._judged(connection), revoke=False)
            self._let_go(before)

    def adopt(
        self,
        party: Party,
        qp: EngineQp,
        own_qpn: int,
        attributes: HcaQpAttributes,
        service: Service | None,
    ) -> None:
        """Judge a queue pair that a predecessor has connected, as ``connect``.

        Denied, it may do nothing, and ends when all are judged again: until the predecessor has
        gone nothing of its clients may change.
        """
        connection = Connection(party, asked_of(own_qpn, attributes), service)
        judgement = self._judged(connection)
        if judgement.sends or judgement.receives:
            self._enter(qp, connection, judgement)
            return
        self._deny(connection, judgement)
        self._hold(connection, judgement)
        self._connections[qp] = connection

    def connect_raw(self, party: Party, qp: EngineQp) -> None:
        """Judge frames that a program writes itself: see ``judge_raw``.

        Raises:
            OSError: EACCES, it may neither send nor get any.
        """
        self.forget(qp)
        connection = Connection(party, asked_of(0, HcaQpAttributes()), is_raw=True)
        judgement = self._judged(connection)
        if not judgement.sends and not judgement.receives:
            self._deny(connection, judgement)
            raise OSError(errno.EACCES, f"{party.owner}: policy isolates it: no frames of its own")
        self._enter(qp, connection, judgement)

    def adopt_raw(self, party: Party, qp: EngineQp) -> None:
        """Judge one of a predecessor's, as ``connect_raw``; denied, it may do nothing."""
        connection = Connection(party, asked_of(0, HcaQpAttributes()), is_raw=True)
        self._enter(qp, connection, self._judged(connection), revoke=False)

    def connect_path(self, party: Party, path: EngineAh, wanted: HcaAhCreate) -> None:
        """Judge an address handle's peer. Datagrams that policy denies go nowhere."""
        asked = (bytes(wanted.dgid), 0, 0, 0, wanted.traffic_class)
        connection = Connection(party, asked, is_path=True)
        judgement = self._judged(connection)
        if not judgement.sends:
            self._deny(connection, judgement)
        self._enter(path, connection, judgement)

    def connect_source(self, party: Party, source: EngineAh, gid: bytes) -> None:
        """Judge whose datagrams come to somebody here; what is denied is dropped."""
        connection = Connection(party, (gid, 0, 0, 0, 0), is_path=True)
        self._enter(source, connection, self._judged(connection))

    def forget(self, end: End) -> None:
        """A queue pair or an address handle has no peer any more: it goes, or begins again."""
        if (connection := self._connections.pop(end, None)) is not None:
            nothing = Judgement().change(end, 0, is_path=connection.is_path)
            nothing.revoke = 0
            self._engine.set_policies([nothing])
            self._let_go(connection.judgement)

    def may_connect(self, source: str, destination: str, port: int, space: str) -> Refusal | None:
        """Judge a request of the connection manager, between addresses; None: it may pass."""
        if not self.managed:
            return None
        if self._judge is None:
            return Refusal("no policy is known yet")
        known = self.parties.known_as
        source, destination = known(source, destination), known(destination, source)
        flow = Flow(source, destination, self.pkeys_at(source)[0], port, space)
        verdict = self._judge.judge(flow)
        if verdict.verbs & Verb.CM:
            return None
        denied = ", ".join(verdict.denied_by) or "; ".join(verdict.reasons)
        return Refusal(f"denied by {denied}")

    def limits_of(self, party: Party) -> Limits:
        """Return how many objects somebody's programs may have together."""
        if self.tables is None:
            return Limits()
        return memory_rules.limits_of(self.tables, party.addresses[0])

    def pkeys_at(self, address: str) -> tuple[int, ...]:
        """Return the P_Key table of who is at an address, index 0 first."""
        if not self.managed:
            return (_DEFAULT,)
        identity = self._identities.get(address)
        memberships = identity.partitions if identity is not None else ()
        return tuple(one.pkey | (FULL if one.full else 0) for one in memberships) or (_DEFAULT,)

    def _enter(
        self,
        end: End,
        connection: Connection,
        judgement: Judgement,
        *,
        revoke: bool = True,
        apply: Apply | None = None,
    ) -> None:
        change = judgement.change(end, self._generation, is_path=connection.is_path)
        change.revoke = change.revoke and revoke
        if apply is None:
            self._engine.set_policies([change])
        else:
            apply(change)
        self._hold(connection, judgement)
        self._connections[end] = connection

    @property
    def _generation(self) -> int:
        return self.tables.generation if self.tables is not None else 0

    def _judge_all(self, tables: NodeTables) -> Switched:
        """Judge every connection again, and tell the engine in one call."""
        known: dict[object, Judgement] = {}
        changes, old = [], []
        revoked = narrowed = 0
        for qp, connection in self._connections.items():
            party, asked = connection.party, connection.asked
            same = asked if self._asks_qpn else (asked[0], asked[3], asked[4])
            key = (party, same, connection.service, connection.is_path, connection.is_raw)
            judgement = known.get(key)
            if judgement is None:
                judgement = known[key] = self._judged(connection)
            before, is_path = connection.judgement, connection.is_path
            old.append(before)
            change = judgement.change(qp, tables.generation, is_path=is_path)
            changes.append(change)
            if connection.is_awaited:
                change.revoke = 0
            elif not judgement.sends and not judgement.receives:
                if before.sends or before.receives:
                    revoked += not is_path
                    self._deny(connection, judgement)
            elif before.sends & ~judgement.sends or before.receives & ~judgement.receives:
                narrowed += 1
            self._hold(connection, judgement)
        self._engine.set_policies(changes)
        for before in old:
            self._let_go(before)
        self.revoked += revoked
        return Switched(tables.generation, revoked, narrowed)

    def _judged(self, connection: Connection) -> Judgement:
        """Judge both directions of a connection."""
        if not self.managed:
            return _EVERYTHING
        if connection.is_raw:
            return self._judged_raw(connection.party)
        peer_gid, dest_qpn, own_qpn, pkey_index, traffic_class = connection.asked
        peer = self.parties.address_of_gid(peer_gid)
        if self._judge is None or self.tables is None or peer is None:
            return Judgement()
        own = connection.party.address_towards(peer)
        pkeys = self.pkeys_at(own)
        if not self._is_known(connection.party, own) or pkey_index >= len(pkeys):
            return Judgement()
        pkey = pkeys[pkey_index]
        qpns: tuple[int | None, int | None] = (None, None)
        if self._asks_qpn and not connection.is_path:
            qpns = (dest_qpn, own_qpn)
        traffic_class = traffic_class if self._asks_class else 0
        nobody: tuple[int | None, str | None] = (None, None)
        served = connection.service
        asked = (served.port, served.space) if served is not None else nobody
        out, in_ = (nobody, asked) if served is not None and served.is_server else (asked, nobody)
        flows = (
            Flow(own, peer, pkey, *out, qpns[0], traffic_class),
            Flow(peer, own, pkey, *in_, qpns[1], traffic_class),
        )
        rules = self.tables.rules
        rows = tuple(self.flows.row(flow, self._judge.judge(flow), rules) for flow in flows)
        sends, receives = (grants.passing(row.verdict) for row in rows)
        return Judgement(
            *(pkey, sends, receives, rows, self._classes.place_of(rows[0].verdict.qos_class)),
            memory_rules.device_only(rows[1].verdict),
        )

    def _judged_raw(self, party: Party) -> Judgement:
        known = [one for one in party.addresses if self._is_known(party, one)]
        identity = self._identities[known[0]] if self.tables is not None and known else None
        return judge_raw(identity, self.pkeys_at(known[0])[0] if known else 0)

    def _is_known(self, party: Party, address: str) -> bool:
        """Tell whether tables say who is at an address, and that it is this pod if it is one."""
        pod = self._pods.get(party.pod_uid)
        if party.pod_uid and (pod is None or address not in pod.addresses):
            return False
        return address in self._identities

    def _name_of(self, flow: Flow) -> str:
        ends = (self.parties.at(flow.source), self.parties.at(flow.destination))
        return next((end.function for end in ends if end is not None), "")

    def _deny(self, connection: Connection, judgement: Judgement) -> None:
        self.denials.add(denial_of(connection, judgement))

    @staticmethod
    def _hold(connection: Connection, judgement: Judgement) -> None:
        connection.judgement = judgement
        for row in judgement.rows:
            row.holders += 1

    def _let_go(self, judgement: Judgement) -> None:
        for row in judgement.rows:
            row.holders -= 1
        self._release(judgement)

    def _release(self, judgement: Judgement) -> None:
        for row in judgement.rows:
            if row.holders == 0:
                self.flows.remove(row)
