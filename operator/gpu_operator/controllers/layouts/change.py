"""What is written beside a GPU's instances when a layout changes them: the only memory of a change.

Five annotations: when the change began, which instances a rollback restores, whether those were a
spare GPU, and, after a rollback, from which version of which layout and why. Whoever writes
instances for a layout writes all of them.
"""

import datetime
from dataclasses import dataclass

from gpu_operator.api.moments import moment
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

_WHY_LENGTH = 1000  # annotations of an object share 256 KiB
_LAST_START = 15  # as the schema of a GPU has it
_MOST = 16  # likewise, of instances


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a GPU's instances. ``begun`` is None where nobody noted it."""

    begun: datetime.datetime | None = None
    before: Places = ()
    undone: str = ""  # the version of the layout that was rolled back
    why: str = ""
    spare: bool = False  # it took nothing away that was in service: see ``is_spare``


def of(gpu: Gpu) -> Change:
    """Read a GPU's annotations; what a person broke counts as not there."""
    noted = gpu.meta.annotations
    return Change(
        begun=moment(noted.get(CHANGED_AT, "")),
        before=read(noted.get(LAST_APPLIED, "")),
        undone=noted.get(ROLLED_BACK, ""),
        why=noted.get(ROLLED_BACK_WHY, ""),
        spare=WAS_SPARE in noted,
    )


def is_spare(gpu: Gpu) -> bool:
    """Return whether a GPU is whole only for want of a layout, and no pod holds it.

    To divide it makes nothing unavailable that anybody counts on.
    """
    there = [(s.profile, bool(s.holders)) for s in gpu.status.slices]
    return gpu.spec.layout is None and there == [(WHOLE, False)]


def version(layout: Layout) -> str:
    """Return what names this layout as it is now, and no edit of it."""
    return f"{layout.meta.uid}/{layout.meta.generation}"


def begin(gpu: Gpu, layout: Layout, instances: Places, now: datetime.datetime) -> Apply:
    """Return the write with which a change begins."""
    begun = Change(now, _restorable(gpu), spare=is_spare(gpu))
    return _write(gpu, layout, instances, begun)


def move(gpu: Gpu, layout: Layout, instances: Places, now: datetime.datetime) -> Apply:
    """Return the write that gives a change underway another goal; its time goes on."""
    underway = of(gpu)
    begun = min(underway.begun or now, now)
    moved = Change(begun, underway.before, spare=underway.spare)
    return _write(gpu, layout, instances, moved)


def date(gpu: Gpu, layout: Layout, now: datetime.datetime) -> Apply:
    """Return the write that has a change underway begin now: it was dated by a clock ahead."""
    underway = of(gpu)
    return _write(
        gpu, layout, gpu.spec.instances, Change(now, underway.before, spare=underway.spare)
    )


def roll_back(gpu: Gpu, layout: Layout, why: str, now: datetime.datetime) -> Apply:
    """Return the write that restores the instances from before the change underway."""
    before = of(gpu).before
    return _write(gpu, layout, before, Change(now, before, version(layout), why[:_WHY_LENGTH]))


def _write(gpu: Gpu, layout: Layout, instances: Places, change: Change) -> Apply:
    noted = {
        CHANGED_AT: change.begun.isoformat(timespec="seconds") if change.begun else "",
        LAST_APPLIED: write(change.before),
    }
    if change.spare:
        noted[WAS_SPARE] = "true"
    if change.undone:
        noted |= {ROLLED_BACK: change.undone, ROLLED_BACK_WHY: change.why}
    document = gpu_render.instances(gpu.name, gpu.meta.uid, instances, layout.name, noted)
    return Apply(Manager.LAYOUT, document)


def _restorable(gpu: Gpu) -> Places:
    """Return what a rollback restores: the instances of now, or from before a change underway."""
    if gpu.spec.layout is None and [i.profile for i in gpu.spec.instances] == [WHOLE]:
        return gpu.spec.instances
    there = {s.place for s in gpu.status.slices}
    if there == {i.place for i in gpu.spec.instances}:
        return gpu.spec.instances
    return of(gpu).before


def write(instances: Places) -> str:
    """Write instances as one line of text: 3g.40gb@4,1c.2g.20gb@0.1."""
    return spec.format_places(i.place for i in instances)


def read(text: str) -> Places:
    """Read what ``write`` wrote; what a person broke counts as no instances."""
    try:
        places = spec.parse_places(text)
    except SpecError:
        return ()
    if len(places) > _MOST:
        return ()
    if any(max(place.start, place.compute_start or 0) > _LAST_START for place in places):
        return ()
    return tuple(map(PlacedInstance.at, places))
