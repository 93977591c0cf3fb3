"""What would free devices for a pod, beside the planner's moves: one sentence for each cause."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from console.model.pods import PodRecord
from console.views.waiting.obstacles import (
    UNMATCHED,
    NodeFinding,
    Obstacle,
)
from console.views.waiting.supply import is_in_service
from console.views.waiting.survey import Survey
from facts.wording import count_of, list_first
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from mig import geometry

CORDONED: Final = "node.kubernetes.io/unschedulable:NoSchedule"
_SHORT: Final = (Obstacle.FULL, Obstacle.FEWER, Obstacle.CROWDED)
_SHOWN: Final = 3
_RESTARTS: Final = "admits pods again once the kubelet or the node agent has restarted"
_CREATES: Final = (
    "gets its new slices when the pods that hold the withdrawn ones end; the layout's rollout"
    " states until when it waits"
)
_WITHDRAWS: Final = (
    "removes slices of this resource that pods hold: when these pods end, the slices are deleted,"
    " and none becomes free"
)
_RESERVED: Final = "kubernetes.io"  # the domain of labels that describe the node itself


def find_steps(
    survey: Survey,
    pod: PodRecord,
    resource: str,
    number: int,
    nodes: Sequence[NodeFinding],
    coming: Mapping[str, int],
) -> Iterator[str]:
    """Yield what would free the devices that a pod requests.

    ``coming`` has, by node, how many devices layouts have yet to create there.
    """
    if resource == HCA_RESOURCE:
        if not any(finding.offered for finding in nodes):
            yield "No node offers HCAs: a GPUPool with spec.hcas does."
        return
    yield from _unknown_profile(survey, resource)
    matching = [finding for finding in nodes if finding.obstacle not in UNMATCHED]
    if nodes and not matching:
        yield from _match(survey, pod, number, nodes)
        return
    yield from _closed(nodes, number)
    is_whole = resource.partition("/")[2].startswith(geometry.WHOLE_RESOURCE)
    withdrawn = [finding.name for finding in nodes if finding.obstacle is Obstacle.WITHDRAWN]
    causes = {
        _RESTARTS: [finding.name for finding in nodes if finding.obstacle is Obstacle.CLOSED],
        _CREATES: [name for name in withdrawn if coming.get(name)],
        # A whole GPU that a layout divides is no slice: see _scarce.
        _WITHDRAWS: [name for name in withdrawn if not coming.get(name) and not is_whole],
    }
    for text, names in causes.items():
        if names:
            yield f"{_names(names)} {text}."
    yield from _crowded(matching, number)
    yield from _healed(matching)
    if is_whole:
        matching_names = frozenset(node.name for node in matching)
        yield from _scarce(survey, resource, number, matching_names)
        yield from _divided(survey, resource, matching_names)
    yield from _ends(survey, resource, number, matching)


def _crowded(nodes: Iterable[NodeFinding], number: int) -> Iterator[str]:
    """Yield which pods to end where some hold devices that the kubelet does not offer."""
    for finding in nodes:
        supply = finding.supply
        if not supply.is_crowded or supply.free >= number:
            continue
        gpus = _names([f"{sidelined.gpu} ({sidelined.reason})" for sidelined in supply.sidelined])
        pods = sorted({pod for sidelined in supply.sidelined for pod in sidelined.pods})
        over = supply.held + number - supply.allocatable
        end = "this pod ends" if len(pods) == 1 else "these pods end"
        if over < len(pods):
            end = f"{over} of these pods {'ends' if over == 1 else 'end'}"
        short = "" if over <= len(pods) else ", and more devices become free,"
        yield (
            f"Node {finding.name}: pods on {gpus} count against the {supply.allocatable} devices"
            f" that the kubelet offers, though theirs are not among these. When {end}{short} the"
            f" scheduler counts {number} free: {_names(pods)}."
        )


def _healed(nodes: Iterable[NodeFinding]) -> Iterator[str]:
    """Yield how many devices become free when GPUs are healthy again, by the scheduler's count."""
    gains: list[str] = []
    futile: list[str] = []
    for node in nodes:
        supply = node.supply
        for returning in supply.returning:
            # Pods on the sick GPU count against unheld devices of other GPUs until it is healthy.
            unheld_elsewhere = max(supply.unheld - supply.free, 0)
            gain = min(supply.gain_of(returning.number), returning.unheld + unheld_elsewhere)
            of_others = max(gain - returning.unheld, 0)
            other_gpus_text = (
                f"; {of_others} of these on other GPUs of {node.name}" if of_others else ""
            )
            if gain:
                link = "with" if of_others else "of"
                gains.append(f"{gain} {link} {returning.gpu} ({returning.reason}{other_gpus_text})")
            else:
                futile.append(f"{returning.gpu} ({returning.reason})")
    if gains:
        yield f"Once these GPUs are healthy again, devices become free: {_names(gains)}."
    if futile:
        yield (
            f"The health of {_names(futile)} frees no device by itself: pods hold as many as would"
            " return, or a layout has withdrawn them."
        )


def _ends(
    survey: Survey, resource: str, number: int, nodes: Iterable[NodeFinding]
) -> Iterator[str]:
    """Yield which pods have to end for the request, first where the fewest devices are short.

    A pod gets all its devices on one node, so that ends on several nodes do not add up.
    """
    enough: list[tuple[int, str, list[str]]] = []
    short_holders: list[str] = []
    for node in nodes:
        if node.obstacle not in (*_SHORT, Obstacle.WITHDRAWN):
            continue
        holders = list(_holders(survey, resource, node.name))
        short = node.supply.held + number - node.supply.allocatable
        if 0 < short <= len(holders):
            enough.append((short, node.name, holders))
        else:
            short_holders += [f"{holder} on {node.name}" for holder in holders]
    for short, name, holders in sorted(enough)[:_SHOWN]:
        ends = "one pod" if short == 1 else f"pods with {short} devices"
        yield (
            f"On node {name} enough is free when {ends} of these end{'s' * (short == 1)}:"
            f" {_names(holders)}."
        )
    further_nodes = len(enough) - _SHOWN
    if further_nodes > 0:
        yield f"The end of pods frees enough on {count_of(further_nodes, 'more node')}, too."
    if short_holders and not enough:
        yield (
            f"A device becomes free when a pod that holds one ends: {_names(short_holders)}. No"
            f" node has enough by this alone: {number} requested."
        )


def _holders(survey: Survey, resource: str, node: str) -> Iterator[str]:
    """Yield the pods of a node whose end frees a device, once for each device.

    A withdrawn slice, or one that is not in service, is not offered again.
    """
    for gpu, gpu_slice in survey.slices.get((node, resource), ()):
        if gpu_slice.state is SliceState.ACTIVE and is_in_service(gpu, gpu_slice):
            for holder in gpu_slice.holders:
                yield f"{holder.namespace}/{holder.name} ({gpu_slice.place})"


def _match(
    survey: Survey, pod: PodRecord, number: int, nodes: Sequence[NodeFinding]
) -> Iterator[str]:
    """Yield what lets a pod use a node if none matches it."""
    tainted = [
        f"{finding.name} ({finding.detail})"
        for finding in nodes
        if finding.obstacle is Obstacle.TAINTED
    ]
    cordoned = [finding for finding in nodes if finding.detail == CORDONED]
    if tainted and len(cordoned) == len(tainted):
        names = [finding.name for finding in cordoned]
        yield from _closed(cordoned, number)
        yield f"The nodes that match the pod's nodeSelector are cordoned: {_names(names)}."
    elif tainted:
        yield from _closed(
            (finding for finding in nodes if finding.obstacle is Obstacle.TAINTED), number
        )
        yield (
            f"The nodes that match the pod's nodeSelector have taints: {_names(tainted)}. Remove"
            " one of the taints, or let the pod tolerate it."
        )
    if tainted:
        return
    lacking = {finding.name: _lacking_labels(survey, pod, finding.name) for finding in nodes}
    fit = [finding for finding in nodes if not any(map(_is_reserved, lacking[finding.name]))]
    change = "change the nodeSelector where the pod is created"
    if not fit:
        keys = sorted({label for labels in lacking.values() for label in labels})
        yield f"No node has the labels that the pod requests ({_names(keys)}): {change}."
        return
    best = min(
        fit,
        key=lambda finding: (_free(finding) < number, len(lacking[finding.name]), -_free(finding)),
    )
    labels = " and ".join(lacking[best.name])
    yield (
        f"No node has the labels that the pod requests: label a node with {labels}"
        f" (node {best.name} has {best.room} free), or {change}."
    )


def _free(node: NodeFinding) -> int:
    return node.offered if node.free is None else node.free


def _lacking_labels(survey: Survey, pod: PodRecord, name: str) -> list[str]:
    node_labels = survey.world.nodes[name].labels
    return [f"{key}={value}" for key, value in pod.node_selector if node_labels.get(key) != value]


def _is_reserved(label: str) -> bool:
    """Return whether a label describes the node itself, so that a person cannot choose it."""
    prefix, separator, _ = label.partition("=")[0].partition("/")
    return bool(separator) and (prefix == _RESERVED or prefix.endswith(f".{_RESERVED}"))


def _unknown_profile(survey: Survey, resource: str) -> Iterator[str]:
    """Yield that no board has the profile of a resource, in which case nothing creates it."""
    short = resource.partition("/mig-")[2]
    boards = {gpu.spec.board for gpu in survey.examples}
    if not short or not offers.is_ours(resource, survey.world.policy.resource_prefix):
        return
    profile_names = sorted({profile.name for key in boards for profile in _profiles(key)})
    if profile_names and not any(_is_named(key, short) for key in boards):
        yield (
            f"No board of the cluster has this profile; its boards have {', '.join(profile_names)}."
        )


def _closed(nodes: Iterable[NodeFinding], number: int) -> Iterator[str]:
    """Yield the nodes that have enough, and that something else keeps the pod off."""
    for finding in nodes:
        if finding.free is None or finding.free < number:
            continue
        has = f"Node {finding.name} has {finding.free} free, but"
        match finding.obstacle:
            case Obstacle.TAINTED if finding.detail == CORDONED:
                yield f"{has} is cordoned: `kubectl uncordon {finding.name}` lets pods on it."
            case Obstacle.TAINTED:
                yield (
                    f"{has} is tainted {finding.detail}: without the taint, or if the pod tolerates"
                    " it, the pod can use the node."
                )
            case Obstacle.SELECTOR:
                yield f"{has} does not match the pod's nodeSelector: {finding.detail}."
            case Obstacle.NOT_READY:
                yield f"{has} is not ready."
            case Obstacle.CLOSED:
                pass  # stated for all such nodes together
            case _:
                pass


def _scarce(survey: Survey, resource: str, number: int, nodes: Container[str]) -> Iterator[str]:
    """Yield which layouts divide GPUs, where no node has as many whole ones as are requested."""
    whole: Counter[str] = Counter()
    layouts = set()
    for gpu in survey.world.gpus.values():
        if gpu.spec.node_name not in nodes:
            continue
        if any(device.resource == resource for device in gpu.status.slices):
            whole[gpu.spec.node_name] += 1
        elif gpu.spec.layout and gpu.status.slices:
            layouts.add(gpu.spec.layout)
    if layouts and max(whole.values(), default=0) < number:
        count = "an undivided GPU" if number == 1 else f"{number} undivided GPUs"
        names = _names(sorted(layouts))
        divide = f"layout {names} divides" if len(layouts) == 1 else f"layouts {names} divide"
        yield f"No node has {count}: {divide} them."


def _divided(survey: Survey, resource: str, nodes: Container[str]) -> Iterator[str]:
    """Yield the divided GPUs of some nodes that no pod or claim holds, which can become whole."""
    every = (gpu for gpu in survey.world.gpus.values() if gpu.spec.node_name in nodes)
    empty = [gpu for gpu in every if _is_empty(gpu, resource)]
    if empty:
        by = sorted({gpu.spec.layout for gpu in empty if gpu.spec.layout})
        layouts = f" (layouts: {_names(by)})" if by else ""
        yield (
            f"No pod holds a slice of {_names([gpu.name for gpu in empty])}{layouts}: a GPU that no"
            " layout selects is whole."
        )


def _is_empty(gpu: Gpu, resource: str) -> bool:
    slices = gpu.status.slices
    divided = bool(slices) and all(gpu_slice.resource != resource for gpu_slice in slices)
    is_held = any(gpu_slice.holders for gpu_slice in slices) or bool(gpu.status.claims)
    return divided and not is_held and gpu.status.health == "Healthy"


def _profiles(board: str) -> Iterable[geometry.DeviceProfile]:
    return geometry.BOARDS[board].device_profiles if board in geometry.BOARDS else ()


def _is_named(board: str, short: str) -> bool:
    return any(profile.resource_name == f"mig-{short}" for profile in _profiles(board))


def _names(names: Sequence[str]) -> str:
    return list_first(names, _SHOWN)
