"""What a MIGLayout would change if it were applied, computed by the operator's own planner.

The layout is put into a copy of the world. Roles of GPUs, targets and plans come from the code with
which the operator reconciles layouts; nothing is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml
from pydantic import ValidationError

from console.views.faults import describe_health
from console.views.geometry import draw
from console.views.manifest import KIND, ManifestError, explain_problem
from console.views.rollout import STOPPED, describe_retry, is_rolled_back
from drawing.slices import BoxState, GpuPicture, draw_places
from gpu_operator.api.v1alpha1 import GROUP, VERSION
from gpu_operator.api.v1alpha1.miglayout import (
    InstanceRequest,
    MIGLayoutSpec,
    MIGLayoutStatus,
    OnInUse,
)
from gpu_operator.api.v1alpha1.resource import Broken, Gpu, Layout, parse
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import change, plans, selection, targets
from gpu_operator.controllers.layouts.selection import Part
from mig import geometry
from mig.errors import MigError
from mig.geometry import Instance
from mig.spec import Place

_WHOLE: Final = (InstanceRequest(profile=geometry.WHOLE),)


@dataclass(frozen=True, slots=True)
class GpuChange:
    """The change of one GPU. ``problem`` says why the layout does not apply to the GPU.

    ``blocked`` are the slices that must be removed and that pods hold, with the pods' names. If
    the layout releases the GPU, ``is_released`` is set, and ``follows`` is the layout that it
    follows afterwards; without one it becomes whole.
    """

    gpu: Gpu
    before: GpuPicture
    after: GpuPicture | None = None
    create: tuple[str, ...] = ()
    destroy: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    blocked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    problem: str = ""
    is_released: bool = False
    follows: str = ""

    @property
    def is_change(self) -> bool:
        """Return whether slices are created or destroyed."""
        return bool(self.create or self.destroy)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Return what GPUs with the same change have in common."""
        shapes = [
            (*((box.name, box.state) for box in picture.boxes), picture.requests) if picture else ()
            for picture in (self.before, self.after)
        ]
        return self.gpu.spec.board, *shapes, self.problem, self.is_released, self.follows

    @property
    def pods(self) -> frozenset[str]:
        """Return the pods that hold slices which must be removed."""
        return frozenset(pod for _, names in self.blocked for pod in names)


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """GPUs with the same change; ``first`` is drawn for all of them.

    ``blocked`` are a GPU, a slice of it that must be removed, and the pods that hold the slice.
    """

    first: GpuChange
    names: tuple[str, ...]
    blocked: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutDiff:
    """The consequences of applying a layout.

    ``unchanged`` and ``not_applied`` count GPUs that it selects. ``pods`` hold slices of these GPUs
    that must be removed, and ``released_pods`` such slices of ``released``, the GPUs that follow it
    now and would not any more. ``retry`` says how to have a layout tried again that the operator
    has rolled back; empty for others.
    """

    layout: Layout
    exists: bool
    groups: tuple[ChangeGroup, ...]
    selected: int
    unchanged: int
    not_applied: int
    created: int
    destroyed: int
    pods: tuple[str, ...]
    at_a_time: int
    released: tuple[str, ...]
    released_pods: tuple[str, ...] = ()
    retry: str = ""
    sick: tuple[tuple[str, str], ...] = ()
    """GPUs that would change and are not healthy, each with its health."""

    @property
    def evicts(self) -> bool:
        """Return whether the operator evicts the pods; otherwise it waits for them."""
        return self.layout.spec.rollout.on_in_use is OnInUse.EVICT


def write_layout(layout: Layout) -> str:
    """Return the manifest of a layout, to be edited."""
    document = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": layout.name},
        "spec": layout.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=False))


def draft_layout(node: str, indices: Sequence[int], profile: str, count: int) -> str:
    """Return the manifest of a new layout for GPUs of one node, to be edited."""
    selector = {"nodeNames": [node], **({"indices": list(indices)} if indices else {})}
    document = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": "proposed"},
        "spec": {"selector": selector, "instances": [{"profile": profile, "count": count}]},
    }
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=False))


def diff(world: World, document: dict[str, Any]) -> LayoutDiff:
    """Return what applying a layout to this world would change.

    Raises:
        ManifestError: the layout's spec does not fit the schema.
    """
    name = document["metadata"]["name"]
    existing_layout = world.layouts.get(name)
    layout = _read(document, existing_layout)
    planned = replace(world, layouts={**world.layouts, name: layout}, index=None)
    roles = list(selection.roles_of(planned, layout))
    own = [_change(gpu, role, layout) for gpu, role in roles]
    is_stopped = any(is_rolled_back(gpu_change.gpu, layout) for gpu_change in own)
    if is_stopped:
        own = [_stop(gpu_change, layout) for gpu_change in own]
    earlier_layouts = selection.layouts_by_gpu(replace(world, index=None))
    planned_layouts = selection.layouts_by_gpu(planned)
    released = sorted(
        gpu for gpu, of in earlier_layouts.items() if of == name != planned_layouts.get(gpu)
    )
    releases = [
        _release(planned, planned.gpus[gpu], planned_layouts.get(gpu, "")) for gpu in released
    ]
    changes = [*own, *releases]
    return LayoutDiff(
        layout=layout,
        exists=existing_layout is not None,
        groups=tuple(
            _group(
                gpu_change for gpu_change in changes if gpu_change.is_change or gpu_change.problem
            )
        ),
        selected=len(own),
        unchanged=sum(not gpu_change.is_change and not gpu_change.problem for gpu_change in own),
        not_applied=sum(bool(gpu_change.problem) for gpu_change in own),
        created=sum(len(gpu_change.create) for gpu_change in changes),
        destroyed=sum(len(gpu_change.destroy) for gpu_change in changes),
        pods=tuple(sorted({pod for gpu_change in own for pod in gpu_change.pods})),
        at_a_time=layout.spec.rollout.unavailable_of(
            sum(not gpu_change.problem for gpu_change in own)
        ),
        released=tuple(released),
        released_pods=tuple(sorted({pod for gpu_change in releases for pod in gpu_change.pods})),
        retry=describe_retry(layout) if is_stopped else "",
        sick=tuple(
            (gpu_change.gpu.name, describe_health(gpu_change.gpu))
            for gpu_change in changes
            if gpu_change.is_change and describe_health(gpu_change.gpu) != "Healthy"
        ),
    )


def _stop(gpu_change: GpuChange, layout: Layout) -> GpuChange:
    """Return a change of a layout that the operator has rolled back: no GPU begins any more."""
    if is_rolled_back(gpu_change.gpu, layout):
        why = change.read_change(gpu_change.gpu).why
        return GpuChange(
            gpu_change.gpu, gpu_change.before, problem=f"rolled back{': ' * bool(why)}{why}"
        )
    target = targets.resolve_target(gpu_change.gpu.spec.board, layout.spec.instances)
    spec = gpu_change.gpu.spec
    has_begun = spec.layout == layout.name and targets.is_satisfied(spec.instances, target.entries)
    return (
        gpu_change
        if gpu_change.problem or has_begun
        else GpuChange(gpu_change.gpu, gpu_change.before, problem=STOPPED)
    )


def _release(world: World, gpu: Gpu, follows: str) -> GpuChange:
    """Return the change of a GPU that a layout releases."""
    requests = world.layouts[follows].spec.instances if follows else _WHOLE
    return replace(_plan(gpu, requests), is_released=True, follows=follows)


def _read(document: dict[str, Any], existing_layout: Layout | None) -> Layout:
    metadata = {"name": document["metadata"]["name"], "labels": {}, "annotations": {}}
    if existing_layout is not None:  # an edit keeps the age, which decides between layouts
        metadata |= {
            "uid": existing_layout.meta.uid,
            "creationTimestamp": existing_layout.meta.created,
            "generation": existing_layout.meta.generation,
        }
    else:
        metadata |= {"uid": "planned", "creationTimestamp": "9999-12-31T23:59:59Z"}
    try:
        read = parse(
            {"kind": KIND, "metadata": metadata, "spec": document.get("spec")},
            MIGLayoutSpec,
            MIGLayoutStatus,
        )
    except (ValidationError, TypeError, AttributeError, RecursionError) as err:
        raise ManifestError(f"spec: {str(err)[:300]}") from err
    if isinstance(read, Broken):
        raise ManifestError(explain_problem(read.problem))
    # The API server counts edits of the spec.
    if existing_layout is not None and read.spec != existing_layout.spec:
        return replace(
            read, meta=replace(read.meta, generation=existing_layout.meta.generation + 1)
        )
    return read


def _change(gpu: Gpu, role: selection.Role, layout: Layout) -> GpuChange:
    match role.part:
        case Part.TAKEN:
            return GpuChange(gpu, draw(gpu), problem=f"follows the older layout {role.follows}")
        case Part.CLAIMS:
            return GpuChange(gpu, draw(gpu), problem="only ResourceClaims can use this GPU")
        case Part.OWN | Part.UNPLACEABLE:
            return _plan(gpu, layout.spec.instances)  # states what is not placeable


def _plan(gpu: Gpu, wanted_slices: tuple[InstanceRequest, ...]) -> GpuChange:
    """Return the change of a GPU that gets some slices."""
    earlier_picture = draw(gpu)
    target = targets.resolve_target(gpu.spec.board, wanted_slices)
    if target.problem:
        return GpuChange(gpu, earlier_picture, problem=target.problem)
    if not gpu.status.conditions:
        return GpuChange(gpu, earlier_picture, problem="the node agent has not reported yet")
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, target.entries, gpu.status.claims)
    except MigError as err:
        return GpuChange(gpu, earlier_picture, problem=targets.one_line(err))
    present_places = {gpu_slice.place for gpu_slice in gpu.status.slices}
    planned_places = [instance.place for instance in plan.instances]
    created_places = [place for place in planned_places if place not in present_places]
    return GpuChange(
        gpu,
        earlier_picture,
        after=_picture(gpu, planned_places),
        create=tuple(map(str, created_places)),
        destroy=tuple(str(gpu_slice.place) for gpu_slice in plan.removed),
        keep=tuple(str(place) for place in planned_places if place in present_places),
        blocked=tuple(
            (str(blocker.place), tuple(f"{h.namespace}/{h.name}" for h in blocker.holders))
            for blocker in plan.blockers
        ),
    )


def _picture(gpu: Gpu, planned_places: Sequence[Place]) -> GpuPicture:
    """Draw the GPU as it would be; slices that stay keep their holders' colour."""
    board = geometry.board(gpu.spec.board)
    held_places = {gpu_slice.place for gpu_slice in gpu.status.slices if gpu_slice.holders}
    present_places = {gpu_slice.place for gpu_slice in gpu.status.slices}
    claimed = [claim.place for claim in gpu.status.claimed]
    states: dict[Instance, BoxState] = {}
    for place in (*planned_places, *claimed):
        if place in claimed:
            states[board.instance(*place)] = BoxState.CLAIMED
        elif place not in present_places:
            states[board.instance(*place)] = BoxState.COMING
        else:
            states[board.instance(*place)] = (
                BoxState.HELD if place in held_places else BoxState.FREE
            )
    return draw_places(board, states)


def _group(changes: Iterator[GpuChange]) -> Iterator[ChangeGroup]:
    """Yield the changes, equal ones together, in the order of their first GPU."""
    groups: dict[tuple[Any, ...], list[GpuChange]] = {}
    for gpu_change in changes:
        groups.setdefault(gpu_change.signature, []).append(gpu_change)
    for equal_changes in groups.values():
        blocked = ((c.gpu.name, place, pods) for c in equal_changes for place, pods in c.blocked)
        yield ChangeGroup(
            equal_changes[0],
            tuple(gpu_change.gpu.name for gpu_change in equal_changes),
            tuple(blocked),
        )
