"""A model checker of the connection manager under policy, with the classes of hcad in this process.

A world has a few functions with a few queue pairs each, and the real ``Ids``, ``Manager``,
``Bindings``, ``Objects`` and ``Enforcer`` on a real engine. ``cm_explorer`` visits every state that
actions reach. In each state the rights that the engine was given are compared with an oracle. The
oracle knows calls that succeeded, events that programs have read, and queue pairs as objects; it
reads nothing of the connection manager's tables.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from hca.binding.engine import Engine
from hca.contract import cm
from hca.contract.cm import CmEvent, CmEventType as Event
from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.verbs import VerbsAccess, VerbsMask as Mask, VerbsState as State
from hca.daemon.cm import private_data
from hca.daemon.cm.messages import Dreq, Message, Path, Reason, Rej, Rejected, Req, Rtu
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from rdma.verbs import Verb
from support.connections.cm_facts import (
    ALLOWED,
    OTHER,
    POLICIES,
    SPACE,
    STRANGER,
    VICTIM,
    Action,
    Attempt,
    Breach,
    ChosenNumbers,
    Pair,
    Remembering,
)
from support.connections.cm_rig import Client as CmClient, Fabric, gid, parameters
from support.rigs import hca_rig, rdma_lab
from support.rigs.hca_rig import TO_INIT, TO_RTR, TO_RTS, Client, Qp

ENDS = (Event.REJECTED, Event.UNREACHABLE, Event.DISCONNECTED)
_PATH = {"port": 1, "is_global": 1, "av_port": 1, "path_mtu": 3, "sgid_index": 1, "retry_count": 1}


class Actor:
    """A function with a program that uses verbs and one that uses librdmacm."""

    def __init__(self, world: "World", index: int, numbers: tuple[int, ...]) -> None:
        self.hca = Client(world.engine, world.numbers, index, world.enforcer)
        self.cq = self.hca.cq()
        self.index, self.qpns = index, numbers
        self.cm: CmClient
        self.qps: dict[int, Qp] = {}
        self.targets: dict[int, tuple[str, int]] = {}
        """The peer of each queue pair: an actor's name and a number."""


class World:
    """Actors, their queue pairs, and the state of their connections.

    ``servers`` have listeners. With ``holds_messages``, messages are delivered only by an action.
    The ``stranger`` is on another node, has every queue pair number, and may send any message.
    """

    def __init__(
        self,
        engine: Engine,
        policy: str,
        actors: Mapping[str, tuple[int, ...]],
        servers: Collection[str],
        *,
        holds_messages: bool = False,
        stranger: bool = False,
    ) -> None:
        self.engine, self.policy, self.servers = engine, policy, servers
        self.holds_messages = holds_messages
        self.numbers = ChosenNumbers()
        self.enforcer = Enforcer(engine, Parties(), new_evaluator=Remembering)
        self.masks: dict[int, Any] = {}
        names = [*actors, *([STRANGER] if stranger else [])]
        self.gids = {name: gid(place) for place, name in enumerate(names)}
        pods = [
            rdma_lab.pod(place, app="server" if name == VICTIM else "client")
            for place, name in enumerate(names)
        ]
        self.enforcer.replace_tables(rdma_lab.tables(1, pods, [POLICIES[policy]]))
        self._given, self._set = engine.set_policies, engine.set_qp
        engine.set_policies = self._record  # type: ignore[method-assign]
        engine.set_qp = self._record_peer  # type: ignore[method-assign]
        self.actors = {
            name: Actor(self, place, numbers)
            for place, (name, numbers) in enumerate(actors.items())
        }
        self.begin()

    def close(self) -> None:
        """Remove everything."""
        self._end()
        for actor in self.actors.values():
            actor.hca.objects.close()
        self.engine.set_policies = self._given  # type: ignore[method-assign]
        self.engine.set_qp = self._set  # type: ignore[method-assign]

    def _record(self, changes: list[Any]) -> None:
        for change in changes:
            self.masks[change.queue_pair] = change
        self._given(changes)

    def _record_peer(self, *given: Any) -> bool:
        done = self._set(*given)
        *_, policy = given
        if done and isinstance(policy, HcaPolicyChange):
            self.masks[policy.queue_pair] = policy
        return done

    def begin(self) -> None:
        """Set the first state: listeners, and queue pairs in INIT."""
        self.fabric = Fabric()
        self.fabric.manager.wire = lambda *_: None
        self.attempts: list[Attempt] = []
        for name, actor in self.actors.items():
            actor.hca.objects.bindings = self.fabric.manager.bindings
            actor.cm = CmClient(self.fabric, actor.index)
            for number in actor.qpns:
                self._make(name, number)
            if name in self.servers:
                for service in (ALLOWED, OTHER):
                    actor.cm.listener(service)

    def _end(self) -> None:
        for actor in self.actors.values():
            actor.cm.close()
            for number in list(actor.qps):
                actor.hca.objects.destroy_qp(number)
            actor.qps.clear()
            actor.targets.clear()

    def replay(self, path: tuple[Action, ...]) -> None:
        """Return to the first state and perform these actions."""
        self._end()
        self.begin()
        for action in path:
            self.do(action)

    def _make(self, name: str, number: int) -> None:
        actor = self.actors[name]
        self.numbers.next = number
        actor.qps[number] = actor.hca.qp(actor.cq, actor.cq)
        self._initialise(actor.qps[number])

    @staticmethod
    def _initialise(qp: Qp) -> None:
        qp.modify(TO_INIT, state=State.INIT, port=1, access=hca_rig.QP_ACCESS)

    # Actions of programs.

    def do(self, action: Action) -> None:
        """Perform an action, deliver messages and read events."""
        kind, *values = action
        getattr(self, f"_{kind}")(*values)
        if not self.holds_messages:
            self.fabric.run()
        for name in self.actors:
            self._read(name)

    def _ask(self, name: str, number: int, server: str, service: int) -> None:
        actor = self.actors[name]
        one = actor.cm.new_routed_id(self.gids[server], service)
        serial = bytes([len(self.attempts)])
        pair = actor.qps.get(number)
        try:
            actor.cm.ids.connect(parameters(one, serial, number))
        except OSError:
            actor.cm.ids.destroy_id(one)
            return
        attempt = Attempt(name, server, service, [one, 0], [pair, None], [number, 0])
        self.attempts.append(attempt)
        self._number(attempt, 0)

    def _answer(self, serial: int, number: int) -> None:
        attempt = self.attempts[serial]
        actor = self.actors[attempt.server]
        try:
            actor.cm.ids.accept(parameters(attempt.handles[1], b"", number))
        except OSError:
            return
        attempt.pairs[1], attempt.named[1] = actor.qps.get(number), number
        attempt.joined[1] = True

    def _confirm(self, serial: int) -> None:
        attempt = self.attempts[serial]
        self._call(serial, 0, self.actors[attempt.asker].cm.ids.establish)

    def _refuse(self, serial: int, side: int) -> None:
        attempt = self.attempts[serial]
        ids = self.actors[attempt.side(side)].cm.ids
        if self._call(serial, side, lambda handle: ids.reject(cm.CmReject(handle))):
            attempt.over[side] = True

    def _leave(self, serial: int, side: int) -> None:
        attempt = self.attempts[serial]
        if self._call(serial, side, self.actors[attempt.side(side)].cm.ids.disconnect):
            attempt.over[side] = True

    def _destroy(self, serial: int, side: int) -> None:
        attempt = self.attempts[serial]
        self._call(serial, side, self.actors[attempt.side(side)].cm.ids.destroy_id)
        attempt.over[side] = True
        attempt.handles[side] = 0

    def _call(self, serial: int, side: int, call: Any) -> bool:
        try:
            call(self.attempts[serial].handles[side])
        except OSError:
            return False
        return True

    def _point(self, name: str, number: int, target: str, peer: int) -> None:
        """Change a queue pair from INIT to RTS, with a number of an actor as its peer."""
        actor = self.actors[name]
        qp = actor.qps[number]
        path = {**_PATH, "dgid": self.gids[target], "dest_qpn": peer}
        try:
            qp.modify(TO_RTR, state=State.RTR, **path)
        except PermissionError:
            return
        actor.targets[number] = target, peer
        qp.modify(TO_RTS, state=State.RTS)

    def _turn(self, name: str, number: int, target: str) -> None:
        """Change a queue pair from RTS to SQD, to another peer address with the same number, and
        back.

        If policy refuses the change, the queue pair keeps its peer.
        """
        actor = self.actors[name]
        qp = actor.qps[number]
        qp.modify(Mask.STATE, state=State.SQD)
        _, peer = actor.targets[number]
        path = {**_PATH, "dgid": self.gids[target]}
        with suppress(PermissionError):
            qp.modify(Mask.STATE | Mask.AV, state=State.SQD, **path)
            actor.targets[number] = target, peer
        qp.modify(Mask.STATE, state=State.RTS)

    def _reset(self, name: str, number: int) -> None:
        actor = self.actors[name]
        actor.targets.pop(number, None)
        actor.qps[number].modify(Mask.STATE, state=State.RESET)
        self._initialise(actor.qps[number])

    def _renew(self, name: str, number: int) -> None:
        """Destroy a queue pair and make another one of the same number."""
        actor = self.actors[name]
        actor.targets.pop(number, None)
        actor.hca.objects.destroy_qp(number)
        self._make(name, number)

    # Messages of the stranger to the victim.

    def _wire_ask(self, number: int, service: int) -> None:
        serial, source, destination = len(self.attempts), self.gids[STRANGER], self.gids[VICTIM]
        header = private_data.pack(private_data.Endpoints(source, 4000, destination))
        data = (header + bytes([serial])).ljust(92, b"\0")
        attempt = Attempt(
            *(STRANGER, VICTIM, service, [0, 0], [(STRANGER, number), None], [number, 0])
        )
        attempt.numbers[0] = 1000 + serial
        path = Path(source, destination)
        attempt.request = Req(1000 + serial, SPACE | service, path, number, 1, data=data)
        self.attempts.append(attempt)
        self.fabric.manager.receive(source, destination, attempt.request)

    def _wire_say(self, serial: int, kind: type[Message]) -> None:
        attempt = self.attempts[serial]
        numbers = attempt.numbers
        message: Message = Rtu(*numbers)
        if kind is Req:
            assert attempt.request is not None
            message = attempt.request
        elif kind is Rej:
            message = Rej(*numbers, Rejected.REP, Reason.CONSUMER_DEFINED)
        elif kind is Dreq:
            message = Dreq(*numbers, attempt.named[1])
        self.fabric.manager.receive(self.gids[STRANGER], self.gids[VICTIM], message)

    def _deliver(self) -> None:
        self.fabric.queue.popleft()()

    def _timeout(self) -> None:
        """Lose all messages in flight, and all later ones until the deadlines have passed."""
        for _ in range(20):
            self.fabric.queue.clear()
            self.fabric.now += 20
            self.fabric.manager.tick()
        self.fabric.queue.clear()

    def _read(self, name: str) -> None:
        for event in self.actors[name].cm.events():
            if event.type == Event.CONNECT_REQUEST:
                attempt = self.attempts[event.data[0]]
                attempt.handles[1] = event.handle
                self._number(attempt, 1)
                continue
            for attempt in self.attempts:
                for side in (0, 1):
                    if attempt.side(side) == name and attempt.handles[side] == event.handle:
                        self._learn(attempt, side, event)

    @staticmethod
    def _learn(attempt: Attempt, side: int, event: CmEvent) -> None:
        if event.type == Event.CONNECT_RESPONSE:
            attempt.joined[0], attempt.named[1] = True, event.qpn
        elif event.type in ENDS:
            attempt.over[side] = True

    # The oracle.

    def may_write(self, name: str, number: int) -> bool:
        """Return whether a connection by the allowed service joins a queue pair and its peer."""
        target, peer_number = self.actors[name].targets[number]
        own: Pair = self.actors[name].qps[number]
        peer: Pair | None = (target, peer_number)
        if target != STRANGER:
            peer = self.actors[target].qps.get(peer_number)
        return peer is not None and any(
            attempt.service == ALLOWED
            and attempt.joined[side]
            and not attempt.over[side]
            and attempt.pairs[side] == own
            and attempt.pairs[1 - side] == peer
            for attempt in self.attempts
            for side in (0, 1)
            if attempt.side(side) == name
        )

    def check(self) -> int:
        """Compare the rights of every queue pair with the oracle; return how many may write. Raises
        Breach.
        """
        writing = 0
        for name, actor in self.actors.items():
            for number, (target, _) in actor.targets.items():
                if (name == VICTIM) == (target == VICTIM):
                    continue  # a peer in the same pod, or one that no policy selects
                expected = self.may_write(name, number)
                writing += expected
                for what, allowed in self._given_to(name, number).items():
                    if allowed != expected:
                        what = what if allowed else f"no {what}"
                        raise Breach(f"{what} at {name}'s {number}, set to {actor.targets[number]}")
        return writing

    def _given_to(self, name: str, number: int) -> Mapping[str, bool]:
        """Return, for the rights that the service grants, whether the engine grants them to one
        end.
        """
        change = self.masks[self.actors[name].hca.objects._qps[number].engine]
        verbs = change.receives if name == VICTIM else change.sends
        given = {"atomics": bool(verbs & Verb.ATOMIC_CAS)}
        if name == VICTIM:  # only the responder checks memory access
            host = not change.device_only & VerbsAccess.REMOTE_WRITE
            given["writes to the host's memory"] = bool(verbs & Verb.WRITE) and host
        return given

    def key(self) -> object:
        """Return a value that is equal for two states if the same can follow from both."""
        held = {id(qp): number for a in self.actors.values() for number, qp in a.qps.items()}
        attempts = tuple(
            (
                *(a.asker, a.server, a.service, *a.named, *a.joined, *a.over),
                *(held.get(id(pair), isinstance(pair, tuple)) for pair in a.pairs),
                *(self._connection(a, side) for side in (0, 1)),
            )
            for a in self.attempts
        )
        pairs = tuple(
            (number, actor.targets.get(number), actor.hca.objects._qps[number].found)
            for actor in self.actors.values()
            for number in actor.qps
        )
        return attempts, pairs, tuple(self._messages())

    def _number(self, attempt: Attempt, side: int) -> None:
        ids = self.actors[attempt.side(side)].cm.ids
        _, endpoint = ids.get_connected(attempt.handles[side])
        attempt.numbers[side] = endpoint.connection.local_id

    def _connection(self, attempt: Attempt, side: int) -> object:
        handle = attempt.handles[side]
        if not handle:
            return None
        endpoint = self.actors[attempt.side(side)].cm.ids.get(handle).endpoint
        return endpoint and (endpoint.connection.state, endpoint.connection.retries)

    def _messages(self) -> Iterator[object]:
        for call in self.fabric.queue:
            values = {
                name: cell.cell_contents
                for name, cell in zip(
                    call.__code__.co_freevars, call.__closure__ or (), strict=True
                )
            }
            message = values["message"]
            yield values["source"], values["destination"], type(message), self._serial(message)

    def _serial(self, message: Any) -> object:
        number = getattr(message, "local_id", 0) or getattr(message, "remote_id", 0)
        return tuple(
            one.numbers.index(number) if number in one.numbers else 2 for one in self.attempts
        )
