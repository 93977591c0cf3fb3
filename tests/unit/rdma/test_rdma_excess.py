"""More policies or rules of a pod than hcad can evaluate in time.

At the limit and one beyond, for each direction, for enforcing and for auditing policies.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from rdma.compiling import compiled_policy, excess
from rdma.compiling.compiled_policy import CompiledPolicy, isolation
from rdma.tables import Direction

IN, OUT = Direction.INGRESS, Direction.EGRESS


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excess, "MAX_RULES_OF_A_POD", 6)
    monkeypatch.setattr(excess, "MAX_POLICIES_OF_A_POD", 3)
    monkeypatch.setattr(compiled_policy, "MAX_POLICIES_OF_A_POD", 3)


class Noted:
    """A rule that records whether isolations refer to it."""

    def __init__(self, direction: Direction, place: int) -> None:
        self.direction, self.place, self.is_used = direction, place, False

    def set_used(self, used: bool) -> bool:
        changed, self.is_used = used != self.is_used, used
        return changed


def policy(
    name: str, rules: int, direction: Direction = IN, *, audit: bool = False, bits: int = 1
) -> Any:
    """Return a policy for the identities ``bits``, with ``rules`` rules of one direction."""
    made = [Noted(direction, 10 * ord(name[-1]) + n) for n in range(rules)]
    said = {IN: (), OUT: ()} | {direction: tuple(made)}
    facts = SimpleNamespace(
        key=f"a/{name}",
        types=frozenset({direction}),
        audit=audit,
        ingress=said[IN],
        egress=said[OUT],
        rules=lambda one: said[one],
    )
    return CompiledPolicy(facts, SimpleNamespace(bits=bits), tuple(made))  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", [IN, OUT])
@pytest.mark.parametrize("audit", [False, True], ids=["enforced", "audited"])
@pytest.mark.parametrize(
    ("rules", "allows"),
    [
        ([2, 2, 2], True),
        ([6], True),
        ([7], False),
        ([3, 4], False),
        ([1, 1, 1, 1], False),
        ([0, 0, 0, 0], False),
    ],
)
def test_an_isolation_at_its_limits(
    direction: Direction, audit: bool, rules: list[int], allows: bool
) -> None:
    """Policies of the other kind also exist, and are not counted with them."""
    mine = [policy(f"p{n}", count, direction, audit=audit) for n, count in enumerate(rules)]
    others = [policy(f"q{n}", 2, direction, audit=not audit) for n in range(3)]
    found = isolation([*mine, *others], direction)
    assert found is not None
    places, named = found.rules, found.policies
    beside, named_beside = found.audited_rules, found.audited_policies
    if audit:
        places, named, beside, named_beside = beside, named_beside, places, named
    assert list(places) == [rule.place for one in mine for rule in one.rules] * allows
    assert list(beside) == [rule.place for one in others for rule in one.rules]
    assert list(named) == [one.policy.key for one in mine][:3]
    assert list(named_beside) == [one.policy.key for one in others]
    assert found.enforced
    assert found.audited
    assert isolation(mine, OUT if direction is IN else IN) is None
    crowded = excess.crowded_identities([*mine, *others])
    assert crowded == ({} if allows else {(direction, audit): 1})
    said = [key for key, _ in excess.problems([*mine, *others])]
    assert said == ([] if allows else [one.policy.key for one in mine])


def test_rules_of_crowded_identities_alone_are_used_by_none() -> None:
    """First one of a policy's two identities is crowded, then both."""
    alone, both = policy("p", 2, IN, bits=0b01), policy("q", 2, IN, bits=0b11)
    audits, out = policy("r", 1, IN, audit=True, bits=0b01), policy("s", 1, OUT, bits=0b01)

    def use_each(crowded: dict[tuple[Direction, bool], int]) -> list[bool]:
        for one in (alone, both, audits, out):
            one.mark_used_rules(crowded)
        return [all(rule.is_used for rule in one.rules) for one in (alone, both, audits, out)]

    assert use_each({}) == [True] * 4
    assert use_each({(IN, False): 0b01}) == [False, True, True, True]
    assert use_each({(IN, False): 0b11}) == [False, False, True, True]
    assert use_each({(IN, True): 0b01, (OUT, False): 0b01}) == [True, True, False, False]


def test_a_policy_without_room_isolates_and_the_first_of_each_kind_is_named_last() -> None:
    refused = [
        policy(name, 1, IN, audit=audit)
        for name, audit in (("x", False), ("y", False), ("z", True))
    ]
    for one in refused:
        one.refusal = object()
    found = isolation([*refused, policy("p", 1, IN)], IN)
    assert found is not None
    assert found.policies == ("a/p", "a/x")
    assert found.audited_policies == ("a/z",)
    assert (len(found.rules), found.audited_rules) == (1, ())
    alone = isolation(refused[2:], IN)
    assert alone is not None
    assert (alone.enforced, alone.audited) == (False, True)
