"""Layouts in a world of one node: decisions about them, and GPUs that are changing."""

import datetime
from typing import Any

from gpu_operator.api.v1alpha1 import CHANGED_AT, LAST_APPLIED
from gpu_operator.api.v1alpha1.gpu import PlacedInstance
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.layouts import layouts
from gpu_operator.kube.actions import Apply, Manager
from support.worlds.gpu_world import NOW, applied_documents, gpu, node, pool, world

SEVEN = [f"1g.10gb@{i}" for i in range(7)]
HALVES = ["3g.40gb@0", "3g.40gb@4"]


def decide(seen: World, name: str = "l") -> Outcome:
    return layouts.reconcile(seen, name, NOW)


def written_instances(outcome: Outcome) -> dict[str, list[str]]:
    return {
        d["metadata"]["name"]: [
            str(PlacedInstance.model_validate(i).place) for i in d["spec"]["instances"]
        ]
        for d in applied_documents(outcome.actions, Manager.LAYOUT)
    }


def status(outcome: Outcome) -> dict[str, Any]:
    (write,) = (a for a in outcome.actions if isinstance(a, Apply) and a.status)
    found: dict[str, Any] = write.document["status"]
    return found


def everything(*items: Any, **changes: Any) -> World:
    return world(node(), pool(count=8), *items, **changes)


def changing(
    *slices: Any, want: list[str], before: list[str], since_s: float = 10, **changes: Any
) -> Any:
    """Return a GPU that has been changing to ``want`` for ``since_s`` seconds."""
    began = NOW - datetime.timedelta(seconds=since_s)
    annotations = {CHANGED_AT: began.isoformat(), LAST_APPLIED: ",".join(before)}
    return gpu(want=want, layout="l", have=slices, annotations=annotations, **changes)
