"""Explore every state that actions of hostile and honest programs reach in a world of
``cm_model``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hca.binding.engine import Engine
from hca.daemon.cm.messages import Dreq, Rej, Req, Rtu
from support.connections.cm_facts import ALLOWED, OTHER, STRANGER, Action, Attempt, Breach
from support.connections.cm_model import World


@dataclass
class Alphabet:
    """The actions of the actors in a world, hostile ones included, after the actions ``first``."""

    actors: Mapping[str, tuple[int, ...]]
    """The queue pair numbers of each actor."""
    requests: tuple[tuple[str, int, str], ...]
    """Requests: the requesting actor, the queue pair number that it names, and the server."""
    answers: Mapping[str, tuple[int, ...]]
    """The queue pair numbers with which each server may accept."""
    points: tuple[tuple[str, int, str, int], ...]
    """Queue pairs that are set to a peer: actor, its number, the peer's actor, the peer's
    number.
    """
    turns: tuple[tuple[str, int, str], ...] = ()
    others: frozenset[str] = frozenset()
    """Further kinds of actions that are enabled; see ``enabled_actions``."""
    services: tuple[int, ...] = (ALLOWED, OTHER)
    attempts: int = 2
    holds_messages: bool = False
    """Whether the delivery of the next message is an action of its own."""
    first: tuple[Action, ...] = ()
    wire_requests: tuple[int, ...] = ()
    """The queue pair numbers in the stranger's requests."""

    def world(self, engine: Engine, policy: str) -> World:
        """Return a world with these actors."""
        more = {"holds_messages": self.holds_messages, "stranger": bool(self.wire_requests)}
        return World(engine, policy, self.actors, self.answers, **more)

    def enabled_actions(self, world: World) -> Iterator[Action]:
        """Yield the actions that make sense in the world's present state."""
        if self.holds_messages and world.fabric.queue:
            yield ("deliver",)
        if len(world.attempts) < self.attempts:
            for ask in self.requests:
                for service in self.services:
                    yield ("ask", *ask, service)
            for number in self.wire_requests:
                for service in self.services:
                    yield ("wire_ask", number, service)
        for serial, attempt in enumerate(world.attempts):
            yield from self._of_attempt(serial, attempt)
        for name, number, target, peer in self.points:
            if number not in world.actors[name].targets:
                yield ("point", name, number, target, peer)
        for name, number, target in self.turns:
            if world.actors[name].targets.get(number, (target,))[0] != target:
                yield ("turn", name, number, target)
        for kind in ("reset", "renew"):
            if kind in self.others:
                for name, number in dict.fromkeys(point[:2] for point in self.points):
                    yield (kind, name, number)
        if "timeout" in self.others and world.attempts:
            yield ("timeout",)

    def _of_attempt(self, serial: int, attempt: Attempt) -> Iterator[Action]:
        requests, serves = attempt.handles
        if attempt.asker == STRANGER:
            yield from (("wire_say", serial, kind) for kind in (Req, Rtu, Rej, Dreq))
        if serves and not attempt.over[1]:
            if not attempt.joined[1]:
                yield from (("answer", serial, n) for n in self.answers[attempt.server])
                yield from self._if("refuse", serial, 1)
            else:
                yield from self._if("leave", serial, 1)
        if requests and attempt.joined[0] and not attempt.over[0]:
            yield from self._if("confirm", serial)
            yield from self._if("refuse", serial, 0)
            yield from self._if("leave", serial, 0)
        for side, handle in enumerate(attempt.handles):
            if handle:
                yield from self._if("destroy", serial, side)

    def _if(self, kind: str, *values: int) -> Iterator[Action]:
        if kind in self.others:
            yield (kind, *values)


@dataclass
class Explored:
    """The result of an exploration."""

    states: int = 0
    steps: int = 0
    writing: int = 0
    """The number of states in which a queue pair may write."""
    breaches: dict[tuple[Action, ...], str] = field(default_factory=dict)
    """Shortest paths to states that violate a rule, with the reason; exploration stops at such
    states.
    """


def explore(alphabet: Alphabet, world: World, depth: int) -> Explored:
    """Visit and check every state that at most ``depth`` actions after the first ones reach."""
    found, seen = Explored(), dict[object, int]()
    depth += len(alphabet.first)
    stack: list[tuple[Action, ...]] = [alphabet.first]
    current: tuple[Action, ...] | None = None
    while stack:
        path = stack.pop()
        if path[:-1] == current:
            world.do(path[-1])
        else:
            world.replay(path)
        current = path
        found.steps += 1
        try:
            writing = world.check()
        except Breach as err:
            found.breaches[path] = str(err)
            continue
        key = world.key()
        if seen.get(key, depth + 1) <= len(path):
            continue
        found.states += key not in seen
        found.writing += key not in seen and bool(writing)
        seen[key] = len(path)
        if len(path) < depth:
            stack += [(*path, action) for action in alphabet.enabled_actions(world)]
    return found
