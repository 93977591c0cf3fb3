"""Enforce policy: hcad evaluates each connection once, and again after each change of the tables.

The source is identified by the addresses that hcad assigned, the peer by the GID with which the
engine compares packets. Nothing else that a client sends affects a verdict. What is unknown is
denied: on a managed fabric without tables no client may connect. On an unmanaged fabric
everything passes.
"""

import errno
from collections.abc import Callable, Mapping
from typing import Final

from hca.binding.engine import Engine, EngineAh, EngineQp
from hca.contract.hca import HcaQpAttributes
from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.hca_objects import HcaAhCreate
from hca.daemon.cm.bindings import NOT_CONNECTED, Found
from hca.daemon.cm.policy import Refusal, Service
from hca.daemon.common.steps import StepRunner, Steps, divide, run_at_once
from hca.daemon.policy import memory_rules
from hca.daemon.policy.denials import Denials
from hca.daemon.policy.flows import Flows
from hca.daemon.policy.group_pairs import GroupPairs
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.qos import EngineClasses
from hca.daemon.policy.successors import check_successor
from hca.daemon.policy.verdicts import (
    Connection,
    ConnectionVerdict,
    End,
    FlowEvaluator,
    SwitchResult,
    denial_of,
    evaluate_raw,
    requested_peer,
)
from rdma import grants
from rdma.evaluator import Evaluator
from rdma.qos import Classes
from rdma.tables import DEFAULT_PKEY, FULL, Flow, Identity, Limits, NodeTables, Pod
from rdma.verbs import ALL, Verb

_DEFAULT: Final = DEFAULT_PKEY | FULL
_AT_ONCE: Final = 64
"""The number of connections that one step evaluates."""
_EVERYTHING: Final = ConnectionVerdict(_DEFAULT, ALL, ALL)
Apply = Callable[[HcaPolicyChange], None]


class Enforcer:
    """Evaluates policy for the connections of one node, and sets the verdicts in the engine."""

    def __init__(
        self,
        engine: Engine,
        parties: Parties,
        *,
        managed: bool = False,
        new_evaluator: Callable[[NodeTables], FlowEvaluator] = Evaluator,
    ) -> None:
        self._engine = engine
        self.parties = parties
        self._new_evaluator = new_evaluator
        self._evaluator: FlowEvaluator | None = None
        self._connections: dict[End, Connection] = {}
        self._steps = StepRunner()
        self._identities: Mapping[str, Identity] = {}
        self._pods: Mapping[str, Pod] = {}
        self._uses_qpn = self._uses_traffic_class = False
        self._classes = EngineClasses(engine)
        self.managed = managed
        """Whether this hcad enforces policy; once true, it stays true."""
        self.tables: NodeTables | None = None
        self.denials = Denials()
        self.flows = Flows(engine, self.denials, self._name_of, parties)
        self.group_pairs = GroupPairs(engine, self.authorize_source, self.forget)
        self.revoked = 0
        """The number of queue pairs whose peer policy has revoked since the start."""

    @property
    def connected(self) -> int:
        """Return the number of queue pairs, address handles and sources that have a peer."""
        return len(self._connections)

    def is_known(self, party: Party) -> bool:
        """Return whether a party's programs may open their function.

        On a managed fabric, the tables must contain the party.
        """
        return not self.managed or any(
            self._is_in_tables(party, address) for address in party.addresses
        )

    def replace_tables(self, tables: NodeTables) -> SwitchResult:
        """Replace the tables at once.

        When this method returns, the engine no longer transfers data that the new tables forbid.

        Raises:
            StaleTables: the new tables are older than those in force, or belong to another node.
        """
        return run_at_once(self._replace_in_steps(tables))

    async def apply_tables(self, tables: NodeTables) -> SwitchResult:
        """Replace the tables like ``replace_tables``, in steps. Raises StaleTables.

        New connections are evaluated with the new tables from the first step on.
        """
        return await self._steps.run(self._replace_in_steps(tables))

    async def collect_counts(self) -> None:
        """Update the counts of all flows in steps."""
        await self._steps.run(self._collect_in_steps())

    async def apply_owners(self) -> None:
        """Evaluate all connections again like ``reevaluate``, in steps."""
        await self._steps.run(self._reevaluate_in_steps())

    def _collect_in_steps(self) -> Steps[None]:
        yield from self.flows.collect_in_steps()

    def _replace_in_steps(self, tables: NodeTables) -> Steps[SwitchResult]:
        check_successor(self.tables, tables)
        evaluator = self._new_evaluator(tables)
        yield from self.flows.collect_in_steps()  # by the verdicts of the old tables
        self.managed, self.tables, self._evaluator = True, tables, evaluator
        ports = [port for rule in tables.rules for port in rule.ports]
        self._uses_qpn = any(port.qpns for port in ports)
        self._uses_traffic_class = Classes(tables.qos_classes).uses_traffic_class or any(
            port.traffic_class is not None or port.dscp is not None for port in ports
        )
        self._classes.replace_classes(tables.qos_classes)
        self._pods = {pod.uid: pod for pod in tables.pods}
        numbers = {identity.number: identity for identity in tables.identities}
        self._identities = {
            endpoint.address: numbers[endpoint.identity]
            for endpoint in tables.endpoints
            if endpoint.identity in numbers
        }
        self.flows.begin_switch()
        switched = yield from self._evaluate_all(tables)
        self.flows.set_rules(tables.rules)
        return switched

    def reevaluate(self) -> None:
        """Evaluate all connections again, because the owner of a function has changed."""
        run_at_once(self._reevaluate_in_steps())

    def _reevaluate_in_steps(self) -> Steps[None]:
        if self.tables is not None:
            yield from self.flows.collect_in_steps()
            yield from self._evaluate_all(self.tables)

    def authorize_peer(
        self,
        party: Party,
        qp: EngineQp,
        own_qpn: int,
        attributes: HcaQpAttributes,
        service_match: Found = NOT_CONNECTED,
        apply: Apply | None = None,
    ) -> None:
        """Evaluate policy for a queue pair and its peer, and set their rights in the engine.

        A rule that names a service's port applies to requests to the side that serves the port.
        A queue pair without rights is refused, but not while the connection in ``service_match``
        is still awaited. A refused queue pair keeps its present peer and the rights for that peer.

        ``apply`` sets both the new peer and the rights for this peer in one call to the engine.
        With two calls, the queue pair would for a moment have one peer and the rights for the
        other peer.

        Raises:
            OSError: EACCES if policy permits no operation in either direction; or any error of
            ``apply``.
        """
        requested, (service, is_awaited) = requested_peer(own_qpn, attributes), service_match
        connection = Connection(party, requested, service, is_awaited=is_awaited)
        verdict = self._evaluate(connection)
        if not is_awaited and not verdict.sends and not verdict.receives:
            self._deny(connection, verdict)
            self._release(verdict)
            raise OSError(errno.EACCES, f"{party.owner}: policy denies its peer")
        old_connection = self._connections.get(qp)
        try:
            self._enter(qp, connection, verdict, revoke=not is_awaited, apply=apply)
        except OSError:
            self._release(verdict)
            raise
        self._let_go(old_connection.verdict if old_connection is not None else ConnectionVerdict())

    def reauthorize_peer(self, qp: EngineQp, service_match: Found) -> None:
        """Evaluate policy again for a queue pair whose connection in the connection manager has
        changed.

        A queue pair that loses all rights is not put into ERR: its program receives an event
        instead. Raises OSError.
        """
        if (connection := self._connections.get(qp)) is not None:
            connection.service, connection.is_awaited = service_match
            old_verdict = connection.verdict
            self._enter(qp, connection, self._evaluate(connection), revoke=False)
            self._let_go(old_verdict)

    def adopt(
        self,
        party: Party,
        qp: EngineQp,
        own_qpn: int,
        attributes: HcaQpAttributes,
        service: Service | None,
    ) -> None:
        """Evaluate policy for a queue pair that a predecessor connected; see ``authorize_peer``.

        A denied queue pair has no rights from now on. It is put into ERR later, by the next
        evaluation of all connections, because clients must not observe a change before the
        predecessor has ended.
        """
        connection = Connection(party, requested_peer(own_qpn, attributes), service)
        verdict = self._evaluate(connection)
        if verdict.sends or verdict.receives:
            self._enter(qp, connection, verdict)
            return
        self._deny(connection, verdict)
        self._hold(connection, verdict)
        self._connections[qp] = connection

    def authorize_raw(self, party: Party, qp: EngineQp) -> None:
        """Evaluate policy for a raw packet queue pair, and set its rights in the engine.

        Raises:
            OSError: EACCES if the queue pair may neither send nor receive frames.
        """
        self.forget(qp)
        connection = Connection(party, requested_peer(0, HcaQpAttributes()), is_raw=True)
        verdict = self._evaluate(connection)
        if not verdict.sends and not verdict.receives:
            self._deny(connection, verdict)
            raise OSError(
                errno.EACCES, f"{party.owner}: policy isolates it, so it may not use raw frames"
            )
        self._enter(qp, connection, verdict)

    def adopt_raw(self, party: Party, qp: EngineQp) -> None:
        """Evaluate policy for a predecessor's raw packet queue pair.

        A denied queue pair gets no rights.
        """
        connection = Connection(party, requested_peer(0, HcaQpAttributes()), is_raw=True)
        self._enter(qp, connection, self._evaluate(connection), revoke=False)

    def authorize_path(self, party: Party, path: EngineAh, request: HcaAhCreate) -> None:
        """Evaluate policy for an address handle's peer. The engine drops denied datagrams."""
        requested = (bytes(request.dgid), 0, 0, 0, request.traffic_class)
        connection = Connection(party, requested, is_path=True)
        verdict = self._evaluate(connection)
        if not verdict.sends:
            self._deny(connection, verdict)
        self._enter(path, connection, verdict)

    def authorize_source(self, party: Party, source: EngineAh, gid: bytes) -> None:
        """Evaluate policy for a remote sender of datagrams. The engine drops denied datagrams."""
        connection = Connection(party, (gid, 0, 0, 0, 0), is_path=True)
        self._enter(source, connection, self._evaluate(connection))

    def forget(self, end: End) -> None:
        """Forget the peer of a queue pair or address handle that is destroyed or reset."""
        if (connection := self._connections.pop(end, None)) is not None:
            nothing = ConnectionVerdict().to_policy_change(end, 0, is_path=connection.is_path)
            nothing.revoke = 0
            self._engine.set_policies([nothing])
            self._let_go(connection.verdict)

    def find_refusal(self, source: str, destination: str, port: int, space: str) -> Refusal | None:
        """Evaluate policy for a connection manager's request; return the refusal, or None if the
        request is permitted.
        """
        if not self.managed:
            return None
        if self._evaluator is None:
            return Refusal("no policy is known yet")
        table_address = self.parties.address_in_tables
        source, destination = table_address(source, destination), table_address(destination, source)
        flow = Flow(source, destination, self.pkeys_at(source)[0], port, space)
        verdict = self._evaluator.evaluate(flow)
        if verdict.verbs & Verb.CM:
            return None
        denied = ", ".join(verdict.denied_by) or "; ".join(verdict.reasons)
        return Refusal(f"denied by {denied}")

    def limits_of(self, party: Party) -> Limits:
        """Return a party's limits on objects, which apply to all of its programs together."""
        if self.tables is None:
            return Limits()
        return memory_rules.limits_of(self.tables, party.addresses[0])

    def pkeys_at(self, address: str) -> tuple[int, ...]:
        """Return the P_Key table of the function that has an address, index 0 first."""
        if not self.managed:
            return (_DEFAULT,)
        identity = self._identities.get(address)
        memberships = identity.partitions if identity is not None else ()
        return tuple(
            membership.pkey | (FULL if membership.full else 0) for membership in memberships
        ) or (_DEFAULT,)

    def _enter(
        self,
        end: End,
        connection: Connection,
        verdict: ConnectionVerdict,
        *,
        revoke: bool = True,
        apply: Apply | None = None,
    ) -> None:
        change = verdict.to_policy_change(end, self._generation, is_path=connection.is_path)
        change.revoke = change.revoke and revoke
        if apply is None:
            self._engine.set_policies([change])
        else:
            apply(change)
        self._hold(connection, verdict)
        self._connections[end] = connection

    @property
    def _generation(self) -> int:
        return self.tables.generation if self.tables is not None else 0

    def _evaluate_all(self, tables: NodeTables) -> Steps[SwitchResult]:
        """Evaluate every connection again and set the verdicts in the engine, some in each step."""
        revoked = narrowed = 0
        for batch in divide(tuple(self._connections.items()), _AT_ONCE):
            # A connection that has changed since then was evaluated with the new tables. Verdicts
            # are not kept for later steps: the rows of a verdict may be removed in between.
            verdicts: dict[object, ConnectionVerdict] = {}
            changes, old = [], []
            for end, connection in batch:
                if self._connections.get(end) is not connection:
                    continue
                verdict = self._verdict_among(connection, verdicts)
                old_verdict, is_path = connection.verdict, connection.is_path
                old.append(old_verdict)
                change = verdict.to_policy_change(end, tables.generation, is_path=is_path)
                changes.append(change)
                if connection.is_awaited:
                    change.revoke = 0
                elif not verdict.sends and not verdict.receives:
                    if old_verdict.sends or old_verdict.receives:
                        revoked += not is_path
                        self._deny(connection, verdict)
                elif old_verdict.sends & ~verdict.sends or old_verdict.receives & ~verdict.receives:
                    narrowed += 1
                self._hold(connection, verdict)
            self._engine.set_policies(changes)
            for verdict in old:
                self._let_go(verdict)
            yield
        self.revoked += revoked
        return SwitchResult(tables.generation, revoked, narrowed)

    def _verdict_among(
        self, connection: Connection, verdicts: dict[object, ConnectionVerdict]
    ) -> ConnectionVerdict:
        """Return the verdict on a connection, from ``verdicts`` if a similar one is there."""
        party, requested = connection.party, connection.requested
        peer_key = requested if self._uses_qpn else (requested[0], requested[3], requested[4])
        key = (party, peer_key, connection.service, connection.is_path, connection.is_raw)
        if key not in verdicts:
            verdicts[key] = self._evaluate(connection)
        return verdicts[key]

    def _evaluate(self, connection: Connection) -> ConnectionVerdict:
        """Return the verdict on a connection, which covers both directions."""
        if not self.managed:
            return _EVERYTHING
        if connection.is_raw:
            return self._evaluate_raw(connection.party)
        peer_gid, dest_qpn, own_qpn, pkey_index, traffic_class = connection.requested
        peer = self.parties.address_of_gid(peer_gid)
        if self._evaluator is None or self.tables is None or peer is None:
            return ConnectionVerdict()
        own = connection.party.address_towards(peer)
        pkeys = self.pkeys_at(own)
        if not self._is_in_tables(connection.party, own) or pkey_index >= len(pkeys):
            return ConnectionVerdict()
        pkey = pkeys[pkey_index]
        qpns: tuple[int | None, int | None] = (None, None)
        if self._uses_qpn and not connection.is_path:
            qpns = (dest_qpn, own_qpn)
        traffic_class = traffic_class if self._uses_traffic_class else 0
        unknown: tuple[int | None, str | None] = (None, None)
        served = connection.service
        port = (served.port, served.space) if served is not None else unknown
        out, in_ = (unknown, port) if served is not None and served.is_server else (port, unknown)
        flows = (
            Flow(own, peer, pkey, *out, qpns[0], traffic_class),
            Flow(peer, own, pkey, *in_, qpns[1], traffic_class),
        )
        rules = self.tables.rules
        rows = tuple(self.flows.row(flow, self._evaluator.evaluate(flow), rules) for flow in flows)
        sends, receives = (grants.passing_verbs(row.verdict) for row in rows)
        return ConnectionVerdict(
            pkey,
            sends,
            receives,
            rows,
            self._classes.place_of(rows[0].verdict.qos_class),
            memory_rules.device_only_access(rows[1].verdict),
        )

    def _evaluate_raw(self, party: Party) -> ConnectionVerdict:
        known_addresses = [
            address for address in party.addresses if self._is_in_tables(party, address)
        ]
        identity = (
            self._identities[known_addresses[0]]
            if self.tables is not None and known_addresses
            else None
        )
        return evaluate_raw(
            identity, self.pkeys_at(known_addresses[0])[0] if known_addresses else 0
        )

    def _is_in_tables(self, party: Party, address: str) -> bool:
        """Return whether the tables contain an address of a party.

        If the party is a pod, the tables must also list the address as one of that pod.
        """
        pod = self._pods.get(party.pod_uid)
        if party.pod_uid and (pod is None or address not in pod.addresses):
            return False
        return address in self._identities

    def _name_of(self, flow: Flow) -> str:
        ends = (self.parties.at(flow.source), self.parties.at(flow.destination))
        return next((end.function for end in ends if end is not None), "")

    def _deny(self, connection: Connection, verdict: ConnectionVerdict) -> None:
        self.denials.add(denial_of(connection, verdict))

    @staticmethod
    def _hold(connection: Connection, verdict: ConnectionVerdict) -> None:
        connection.verdict = verdict
        for row in verdict.rows:
            row.holders += 1

    def _let_go(self, verdict: ConnectionVerdict) -> None:
        for row in verdict.rows:
            row.holders -= 1
        self._release(verdict)

    def _release(self, verdict: ConnectionVerdict) -> None:
        for row in verdict.rows:
            if row.holders == 0:
                self.flows.remove(row)
