"""A pool whose clock is modelled says so: a condition, and an event when it changes."""

from dataclasses import replace
from typing import Any

from gpu_operator.api.v1alpha1.base import Condition
from gpu_operator.api.v1alpha1.gpupool import Clock
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.controllers.pools import pool_book, pools
from gpu_operator.kube.actions import Apply, Manager, Record
from support.worlds.driven_operator import CONFIG
from support.worlds.gpu_world import NOW, condition, gpu, node, pool, world

WALL, MODELLED = Clock.WALL, Clock.MODELLED


def having(clock: Clock | None, index: int = 0) -> Gpu:
    one = gpu(index=index)
    return replace(one, status=one.status.model_copy(update={"clock": clock}))


def decide(wanted: Pool, *gpus: Gpu) -> Any:
    seen = world(node(), wanted, *gpus)
    return pools.reconcile(seen, "p", CONFIG.node, "tessera-system", NOW).actions


def kinds(actions: Any) -> set[str]:
    (write,) = (a for a in actions if isinstance(a, Apply) and a.manager is Manager.STATUS)
    return {c["type"] for c in write.document["status"]["conditions"]}


def events(actions: Any) -> list[tuple[str, bool]]:
    return [(a.reason, a.warning) for a in actions if isinstance(a, Record)]


def saying(before: Pool, status: str, reason: str) -> Pool:
    told = Condition(
        type="ModelledClock", status=status, reason=reason, last_transition_time="2026-01-01"
    )
    return replace(before, status=before.status.model_copy(update={"conditions": (told,)}))


def test_a_pool_with_the_nodes_time_says_nothing_of_it() -> None:
    for clock in (WALL, None):  # None: an agent that does not report it yet
        assert "ModelledClock" not in kinds(decide(pool(), having(clock)))


def test_modelled_time_is_a_condition_and_an_event_that_is_no_warning() -> None:
    actions = decide(pool(clock=MODELLED), having(MODELLED))
    status, reason, message = condition(actions, "ModelledClock")
    assert (status, reason) == ("True", "ModelledClock")
    assert "what h100-80gb, or its slice, would take, as modelled" in message
    assert ("ModelledClock", False) in events(actions)
    again = decide(saying(pool(clock=MODELLED), "True", "ModelledClock"), having(MODELLED))
    assert "ModelledClock" not in [reason for reason, _ in events(again)]


def test_it_is_true_when_every_gpu_has_it() -> None:
    wanted = pool(clock=MODELLED, count=2)
    actions = decide(wanted, having(MODELLED), having(WALL, 1))
    assert condition(actions, "ModelledClock")[:2] == ("False", "Applying")
    assert "on 1 of 2 GPUs" in condition(actions, "ModelledClock")[2]


def test_a_pool_without_gpus_says_nothing() -> None:
    assert "ModelledClock" not in kinds(decide(pool(clock=MODELLED)))


def test_the_way_back_is_told_until_the_last_gpu_has_gone_it() -> None:
    before = saying(pool(count=2), "True", "ModelledClock")
    actions = decide(before, having(MODELLED), having(WALL, 1))
    assert condition(actions, "ModelledClock")[:2] == ("True", "Applying")
    actions = decide(before, having(WALL), having(WALL, 1))
    assert condition(actions, "ModelledClock")[:2] == ("False", "WallClock")
    assert ("WallClock", False) in events(actions)


def test_a_gpu_that_goes_no_longer_counts() -> None:
    book = pool_book.of(world(node(), pool(), having(MODELLED)), "p")
    assert book.modelled == {"n1-gpu-0"}
    book.note_gpu("n1-gpu-0", None, live=False)
    assert book.modelled == set()
