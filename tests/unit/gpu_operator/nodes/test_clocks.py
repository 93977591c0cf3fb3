"""A pool with a modelled clock has a condition for it, and an event when that changes."""

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
    reported = Condition(
        type="ModelledClock", status=status, reason=reason, last_transition_time="2026-01-01"
    )
    return replace(before, status=before.status.model_copy(update={"conditions": (reported,)}))


def test_a_pool_with_the_wall_clock_has_no_clock_condition() -> None:
    for clock in (WALL, None):  # None: an agent that does not report the clock yet
        assert "ModelledClock" not in kinds(decide(pool(), having(clock)))


def test_modelled_time_causes_a_condition_and_a_normal_event() -> None:
    actions = decide(pool(clock=MODELLED), having(MODELLED))
    status, reason, message = condition(actions, "ModelledClock")
    assert (status, reason) == ("True", "ModelledClock")
    assert "the modelled time of h100-80gb, or of its slice" in message
    assert ("ModelledClock", False) in events(actions)
    again = decide(saying(pool(clock=MODELLED), "True", "ModelledClock"), having(MODELLED))
    assert "ModelledClock" not in [reason for reason, _ in events(again)]


def test_the_condition_is_true_when_every_gpu_has_the_modelled_clock() -> None:
    wanted = pool(clock=MODELLED, count=2)
    actions = decide(wanted, having(MODELLED), having(WALL, 1))
    assert condition(actions, "ModelledClock")[:2] == ("False", "Applying")
    assert "on 1 of 2 GPUs" in condition(actions, "ModelledClock")[2]


def test_a_pool_without_gpus_has_no_clock_condition() -> None:
    assert "ModelledClock" not in kinds(decide(pool(clock=MODELLED)))


def test_the_return_to_wall_time_is_reported_until_the_last_gpu() -> None:
    before = saying(pool(count=2), "True", "ModelledClock")
    actions = decide(before, having(MODELLED), having(WALL, 1))
    assert condition(actions, "ModelledClock")[:2] == ("True", "Applying")
    actions = decide(before, having(WALL), having(WALL, 1))
    assert condition(actions, "ModelledClock")[:2] == ("False", "WallClock")
    assert ("WallClock", False) in events(actions)


def test_a_deleted_gpu_does_not_count() -> None:
    book = pool_book.make_book(world(node(), pool(), having(MODELLED)), "p")
    assert book.modelled == {"n1-gpu-0"}
    book.note_gpu("n1-gpu-0", None, live=False)
    assert book.modelled == set()
