"""Which pods with a slice in the way are evicted, and when."""

import datetime
from typing import Any

import pytest

from gpu_operator.api.v1alpha1.gpu import Slice
from gpu_operator.controllers.common.world import Outcome
from gpu_operator.controllers.layouts import execution
from gpu_operator.kube.actions import Evict
from support.worlds.gpu_world import (
    NOW,
    agent_conditions,
    condition,
    layout,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.layout_world import HALVES, SEVEN, changing, decide, everything


def evicting(
    allocatable: str,
    since_s: float = 10,
    reported_s: float = 10,
    held: Slice | None = None,
    **changes: Any,
) -> Outcome:
    reported = NOW - datetime.timedelta(seconds=reported_s)
    moving = changing(
        held or mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=since_s,
        conditions=agent_conditions(
            ready=("False", "SliceInUse", ""), progressing_since=reported.isoformat()
        ),
    )
    there = node(allocatable={"gpu.tessera.dev/mig-1g.10gb": allocatable})
    desired = layout("l", "2x3g.40gb", rollout={"on_in_use": "Evict"})
    return decide(world(there, pool(), moving, desired, **changes))


def test_pods_are_evicted_only_on_request_and_after_withdrawal() -> None:
    """Otherwise each replacement of an evicted pod would be placed on the same slice and fail."""
    assert not any(isinstance(a, Evict) for a in evicting("7").actions)
    assert Evict("default", "x", "uid-x") in evicting("0").actions


@pytest.mark.parametrize("ages", [(2, 2), (60, 2)], ids=["just begun", "just reported"])
def test_evictions_wait_for_the_scheduler(ages: tuple[float, float]) -> None:
    outcome = evicting("0", *ages)
    assert not any(isinstance(a, Evict) for a in outcome.actions)
    assert outcome.again_in_s == execution.SETTLE_S


@pytest.mark.parametrize("ages", [(10, -900), (-900, 10), (-900, -900)])
def test_a_fast_clock_does_not_delay_evictions(ages: tuple[float, float]) -> None:
    """The fast clock may be the agent's, or an earlier operator's."""
    assert Evict("default", "x", "uid-x") in evicting("0", *ages).actions


def test_only_a_pod_whose_uid_is_known_is_evicted() -> None:
    """A name alone may belong to another pod by now, or be made up by a broken agent."""
    nameless = mig_slice("1g.10gb@6", "default/x", withdrawing=True)
    holder = nameless.holders[0].model_copy(update={"uid": ""})
    held = nameless.model_copy(update={"holders": (holder,)})
    assert not any(isinstance(a, Evict) for a in evicting("0", held=held).actions)


def test_a_refused_eviction_is_reported() -> None:
    outcome = evicting("0", refused_evictions={"uid-x": "the budget needs 1 pod"})
    assert "default/x: the budget needs 1 pod" in condition(outcome.actions, "Progressing")[2]


def test_a_slice_that_is_still_offered_is_not_evicted() -> None:
    held = changing(mig_slice("1g.10gb@6", "default/x"), want=HALVES, before=SEVEN)
    desired = layout("l", "2x3g.40gb", rollout={"on_in_use": "Evict"})
    assert not any(isinstance(a, Evict) for a in decide(everything(held, desired)).actions)
