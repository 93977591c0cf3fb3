"""What would free devices for a pod, beside the planner's moves: one sentence for each cause."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from console.views.obstacles import NodeFinding, Obstacle
from console.views.survey import Survey
from facts.wording import list_first
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from mig import geometry

CORDONED: Final = "node.kubernetes.io/unschedulable:NoSchedule"
_SHOWN: Final = 3
_CAUSES: Final = (
    (Obstacle.CLOSED, "admits pods again once the kubelet or the node agent has restarted"),
    (
        Obstacle.WITHDRAWN,
        "gets its new slices when the pods that hold the withdrawn ones end; the layout's rollout"
        " states until when it waits",
    ),
)


def find_steps(
    survey: Survey, resource: str, number: int, nodes: Sequence[NodeFinding]
) -> Iterator[str]:
    """Yield what would free the devices that a pod requests."""
    if resource == HCA_RESOURCE:
        if not any(one.offered for one in nodes):
            yield "No node offers HCAs: a GPUPool with spec.hcas does."
        return
    yield from _unknown_profile(survey, resource)
    yield from _closed(nodes, number)
    for obstacle, text in _CAUSES:
        names = [one.name for one in nodes if one.obstacle is obstacle]
        if names:
            yield f"{_names(names)} {text}."
    sick = [cause for one in nodes for cause in one.sick]
    if sick:
        yield f"Once these GPUs are healthy again, their devices return: {_names(sick)}."
    if resource.partition("/")[2].startswith(geometry.WHOLE_RESOURCE):
        yield from _divided(survey, resource)
    if any(one.obstacle is Obstacle.FULL for one in nodes):
        yield "A device becomes free when a pod that holds one ends."


def _unknown_profile(survey: Survey, resource: str) -> Iterator[str]:
    """Yield that no board has the profile of a resource, in which case nothing creates it."""
    short = resource.partition("/mig-")[2]
    boards = {gpu.spec.board for gpu in survey.examples}
    if not short or not offers.is_ours(resource, survey.world.policy.resource_prefix):
        return
    known = sorted({one.name for key in boards for one in _profiles(key)})
    if known and not any(_is_named(key, short) for key in boards):
        yield f"No board of the cluster has this profile; its boards have {', '.join(known)}."


def _closed(nodes: Iterable[NodeFinding], number: int) -> Iterator[str]:
    """Yield the nodes that have enough, and that something else keeps the pod off."""
    for one in nodes:
        if one.free is None or one.free < number:
            continue
        has = f"Node {one.name} has {one.free} free, but"
        match one.obstacle:
            case Obstacle.TAINTED if one.detail == CORDONED:
                yield f"{has} is cordoned: `kubectl uncordon {one.name}` lets pods on it."
            case Obstacle.TAINTED:
                yield (
                    f"{has} is tainted {one.detail}: without the taint, or if the pod tolerates"
                    " it, the pod can use the node."
                )
            case Obstacle.SELECTOR:
                yield f"{has} does not match the pod's nodeSelector: {one.detail}."
            case Obstacle.NOT_READY:
                yield f"{has} is not ready."
            case Obstacle.CLOSED:
                pass  # stated for all such nodes together
            case _:
                pass


def _divided(survey: Survey, resource: str) -> Iterator[str]:
    """Yield the divided GPUs that no pod or claim holds, which can become whole."""
    empty = [gpu for gpu in survey.world.gpus.values() if _is_empty(gpu, resource)]
    if empty:
        by = sorted({gpu.spec.layout for gpu in empty if gpu.spec.layout})
        layouts = f" (layouts: {_names(by)})" if by else ""
        yield (
            f"No pod holds a slice of {_names([gpu.name for gpu in empty])}{layouts}: a GPU that no"
            " layout selects is whole."
        )


def _is_empty(gpu: Gpu, resource: str) -> bool:
    slices = gpu.status.slices
    divided = bool(slices) and all(one.resource != resource for one in slices)
    held = any(one.holders for one in slices) or bool(gpu.status.claims)
    return divided and not held and gpu.status.health == "Healthy"


def _profiles(board: str) -> Iterable[geometry.DeviceProfile]:
    return geometry.BOARDS[board].device_profiles if board in geometry.BOARDS else ()


def _is_named(board: str, short: str) -> bool:
    return any(one.resource_name == f"mig-{short}" for one in _profiles(board))


def _names(names: Sequence[str]) -> str:
    return list_first(names, _SHOWN)
