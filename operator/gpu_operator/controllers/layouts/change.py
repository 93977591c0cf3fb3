"""Annotations of a GPU that record a layout's change of its instances; no other state is kept.

They record when the change began, the instances that a rollback restores, whether the GPU was
spare, and, after a rollback, the layout's version and the reason. Each write of instances for a
layout sets all of them.
"""

import datetime
from dataclasses import dataclass

from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1 import (
    CHANGED_AT,
    LAST_APPLIED,
    ROLLED_BACK,
    ROLLED_BACK_WHY,
    WAS_SPARE,
)
from gpu_operator.api.v1alpha1.gpu import PlacedInstance
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.render import gpu as gpu_render
from mig import spec
from mig.errors import SpecError
from mig.geometry import WHOLE

Places = tuple[PlacedInstance, ...]

_WHY_LENGTH = 1000  # an object's annotations may have 256 KiB in total
_LAST_START = 15  # as in the schema of a GPU
_MOST = 16  # instances, as in the schema of a GPU


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a GPU's instances. ``begun`` is None if its start is not recorded."""

    begun: datetime.datetime | None = None
    before: Places = ()
    undone: str = ""  # version of the layout that was rolled back
    why: str = ""
    spare: bool = False  # the change removed nothing that was in use: see ``is_spare``


def read_change(gpu: Gpu) -> Change:
    """Return the change that a GPU's annotations record; invalid values count as missing."""
    noted = gpu.meta.annotations
    return Change(
        begun=parse_timestamp(noted.get(CHANGED_AT, "")),
        before=read_places(noted.get(LAST_APPLIED, "")),
        undone=noted.get(ROLLED_BACK, ""),
        why=noted.get(ROLLED_BACK_WHY, ""),
        spare=WAS_SPARE in noted,
    )


def is_spare(gpu: Gpu) -> bool:
    """Return whether a GPU is unused. Dividing an unused GPU makes nothing unavailable.

    An unused GPU follows no layout, is whole, and is held by no pod.
    """
    slice_states = [(s.profile, bool(s.holders)) for s in gpu.status.slices]
    return gpu.spec.layout is None and slice_states == [(WHOLE, False)]


def layout_version(layout: Layout) -> str:
    """Return an identifier of the layout's current version."""
    return f"{layout.meta.uid}/{layout.meta.generation}"


def begin(gpu: Gpu, layout: Layout, instances: Places, current_time: datetime.datetime) -> Apply:
    """Return the write that begins a change."""
    begun = Change(current_time, _rollback_target(gpu), spare=is_spare(gpu))
    return _write(gpu, layout, instances, begun)


def retarget(gpu: Gpu, layout: Layout, instances: Places, current_time: datetime.datetime) -> Apply:
    """Return the write that gives a running change another target; its start time is kept."""
    underway = read_change(gpu)
    begun = min(underway.begun or current_time, current_time)
    moved = Change(begun, underway.before, spare=underway.spare)
    return _write(gpu, layout, instances, moved)


def restart_clock(gpu: Gpu, layout: Layout, current_time: datetime.datetime) -> Apply:
    """Return the write that sets the start of a GPU's change to now.

    The write is needed if the recorded start is in the future, because the clock that recorded
    it was ahead.
    """
    underway = read_change(gpu)
    return _write(
        gpu, layout, gpu.spec.instances, Change(current_time, underway.before, spare=underway.spare)
    )


def roll_back(gpu: Gpu, layout: Layout, why: str, current_time: datetime.datetime) -> Apply:
    """Return the write that restores the instances from before the change."""
    old_places = read_change(gpu).before
    return _write(
        gpu,
        layout,
        old_places,
        Change(current_time, old_places, layout_version(layout), why[:_WHY_LENGTH]),
    )


def _write(gpu: Gpu, layout: Layout, instances: Places, change: Change) -> Apply:
    noted = {
        CHANGED_AT: change.begun.isoformat(timespec="seconds") if change.begun else "",
        LAST_APPLIED: write_places(change.before),
    }
    if change.spare:
        noted[WAS_SPARE] = "true"
    if change.undone:
        noted |= {ROLLED_BACK: change.undone, ROLLED_BACK_WHY: change.why}
    document = gpu_render.instances(gpu.name, gpu.meta.uid, instances, layout.name, noted)
    return Apply(Manager.LAYOUT, document)


def _rollback_target(gpu: Gpu) -> Places:
    """Return the instances that a rollback restores.

    They are the current ones or, while a change is running, those from before it.
    """
    if gpu.spec.layout is None and [i.profile for i in gpu.spec.instances] == [WHOLE]:
        return gpu.spec.instances
    present_places = {s.place for s in gpu.status.slices}
    if present_places == {i.place for i in gpu.spec.instances}:
        return gpu.spec.instances
    return read_change(gpu).before


def write_places(instances: Places) -> str:
    """Format instances as one line: 3g.40gb@4,1c.2g.20gb@0.1."""
    return spec.format_places(i.place for i in instances)


def read_places(text: str) -> Places:
    """Parse the result of ``write_places``; an invalid text counts as no instances."""
    try:
        places = spec.parse_places(text)
    except SpecError:
        return ()
    if len(places) > _MOST:
        return ()
    if any(max(place.start, place.compute_start or 0) > _LAST_START for place in places):
        return ()
    return tuple(map(PlacedInstance.from_place, places))
