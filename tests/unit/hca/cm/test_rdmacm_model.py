"""Model check: in every order of programs' actions, policy follows the actual connections only.

``TESSERA_MODEL_DEPTH=1`` explores one more action: ten times as many states.
"""

import os
from collections.abc import Mapping

import pytest

from support.connections.cm_explorer import Alphabet, explore
from support.connections.cm_facts import ALLOWED, POLICIES, STRANGER, VICTIM

A, B, V, W, C = 17, 19, 34, 36, 51
"""Queue pairs: two of the attacker, two of the victim, and one of another client."""
MORE = int(os.environ.get("TESSERA_MODEL_DEPTH", "0"))
ALL_KINDS = frozenset({"confirm", "refuse", "leave", "destroy", "reset", "renew", "timeout"})
VERB, EVERYTHING = POLICIES
TWO = {"attacker": (A, B), "victim": (V, W)}
THREE = {"attacker": (A,), "victim": (V, W), "client": (C,)}
CONNECTED = (
    ("ask", "attacker", A, "victim", ALLOWED),
    ("point", "victim", V, "attacker", A),
    ("answer", 0, V),
    ("point", "attacker", A, "victim", V),
)
"""The actions of librdmacm for two honest programs that connect."""
WORLDS: Mapping[str, tuple[int, Alphabet]] = {
    "requests that are never accepted, or for another service": (
        4,
        Alphabet(
            TWO,
            requests=(("attacker", A, "victim"), ("attacker", V, "victim")),
            answers={"victim": (V, A)},
            points=(
                ("attacker", A, "victim", V),
                ("attacker", A, "victim", W),
                ("victim", V, "attacker", A),
                ("victim", W, "attacker", A),
            ),
            others=frozenset({"refuse", "timeout"}),
        ),
    ),
    "a connection to oneself, and then another address": (
        5,
        Alphabet(
            TWO,
            requests=(("attacker", A, "attacker"),),
            answers={"attacker": (B, V)},
            points=(
                ("attacker", A, "attacker", B),
                ("attacker", A, "attacker", V),
                ("victim", V, "attacker", A),
            ),
            turns=(("attacker", A, "victim"), ("attacker", A, "attacker")),
            others=frozenset({"destroy"}),
            services=(ALLOWED,),
            attempts=1,
        ),
    ),
    "the end of a connection, and its numbers used again": (
        3,
        Alphabet(
            TWO,
            requests=(("attacker", A, "victim"),),
            answers={"victim": (V,)},
            points=(("attacker", A, "victim", V), ("victim", V, "attacker", A)),
            turns=(("attacker", A, "attacker"), ("attacker", A, "victim")),
            others=ALL_KINDS,
            first=CONNECTED,
        ),
    ),
    "another client's connection": (
        3,
        Alphabet(
            THREE,
            requests=(
                ("attacker", A, "victim"),
                ("attacker", C, "victim"),
                ("attacker", V, "victim"),
            ),
            answers={"victim": (V, W)},
            points=(
                ("attacker", A, "victim", V),
                ("attacker", A, "victim", W),
                ("victim", W, "attacker", A),
                ("victim", W, "attacker", C),
            ),
            turns=(("victim", V, "attacker"), ("client", C, "attacker")),
            others=frozenset({"destroy", "renew", "timeout"}),
            services=(ALLOWED,),
            attempts=3,
            first=(
                ("ask", "client", C, "victim", ALLOWED),
                ("point", "victim", V, "client", C),
                ("answer", 0, V),
                ("point", "client", C, "victim", V),
            ),
        ),
    ),
    "a change of address that policy refuses": (
        4,
        Alphabet(
            THREE,
            requests=(("attacker", A, "victim"),),
            answers={"victim": (V, W)},
            points=(("attacker", A, "victim", V), ("victim", V, "attacker", A)),
            turns=(("victim", V, "client"), ("attacker", A, "client")),
            others=frozenset({"leave", "destroy", "timeout"}),
            services=(ALLOWED,),
            attempts=1,
            first=(
                ("ask", "attacker", A, "victim", ALLOWED),
                ("point", "victim", V, "attacker", A),
            ),
        ),
    ),
    "a stranger's messages over a wire": (
        4,
        Alphabet(
            {VICTIM: (V, W)},
            requests=(),
            answers={VICTIM: (V, W)},
            points=((VICTIM, V, STRANGER, A), (VICTIM, W, STRANGER, A)),
            others=frozenset({"refuse", "destroy", "renew", "timeout"}),
            wire_requests=(A,),
        ),
    ),
    "messages under way": (
        4,
        Alphabet(
            TWO,
            requests=(("attacker", A, "victim"),),
            answers={"victim": (V,)},
            points=(("attacker", A, "victim", V), ("victim", V, "attacker", A)),
            others=frozenset({"refuse", "destroy", "renew", "timeout"}),
            services=(ALLOWED,),
            holds_messages=True,
            first=(("ask", "attacker", A, "victim", ALLOWED), ("deliver",)),
        ),
    ),
}


CASES = [
    *((name, VERB) for name in WORLDS),
    *((name, EVERYTHING) for name in list(WORLDS)[:2]),
    ("a change of address that policy refuses", EVERYTHING),
]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_a_rule_for_a_service_follows_the_actual_connection(engine, name, policy):
    depth, alphabet = WORLDS[name]
    world = alphabet.world(engine, policy)
    try:
        found = explore(alphabet, world, depth + MORE)
    finally:
        world.close()
    assert not found.breaches, f"{len(found.breaches)}, as {next(iter(found.breaches.items()))}"
    assert found.states > 25
    honest = bool(alphabet.wire_requests) or alphabet.requests[0][2] == VICTIM
    assert bool(found.writing) == honest, "an honest connection by the service may write"
