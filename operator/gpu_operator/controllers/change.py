"""What is written beside a GPU's instances when a layout changes them: the only memory of a change.

Four annotations: when the change began, which instances a rollback restores, and, after one, from
which version of which layout and why. Whoever writes instances for a layout writes all of them.
"""

import datetime
from dataclasses import dataclass

from gpu_operator.api.v1alpha1 import CHANGED_AT, LAST_APPLIED, ROLLED_BACK, ROLLED_BACK_WHY
from gpu_operator.api.v1alpha1.gpu import PlacedInstance
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.render import gpu as gpu_render
from mig import spec
from mig.errors import SpecError

Places = tuple[PlacedInstance, ...]

_WHY_LENGTH = 1000  # annotations of an object share 256 KiB
_LAST_START = 15  # as the schema of a GPU has it


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a GPU's instances. ``begun`` is None where nobody noted it."""

    begun: datetime.datetime | None = None
    before: Places = ()
    undone: str = ""  # the version of the layout that was rolled back
    why: str = ""


def of(gpu: Gpu) -> Change:
    """Read a GPU's annotations; what a person broke counts as not there."""
    noted = gpu.meta.annotations
    return Change(
        begun=moment(noted.get(CHANGED_AT, "")),
        before=read(noted.get(LAST_APPLIED, "")),
        undone=noted.get(ROLLED_BACK, ""),
        why=noted.get(ROLLED_BACK_WHY, ""),
    )


def version(layout: Layout) -> str:
    """Return what names this layout as it is now, and no edit of it."""
    return f"{layout.meta.uid}/{layout.meta.generation}"


def begin(gpu: Gpu, layout: Layout, instances: Places, now: datetime.datetime) -> Apply:
    """Return the write with which a change begins."""
    return _write(gpu, layout, instances, Change(now, _restorable(gpu)))


def move(gpu: Gpu, layout: Layout, instances: Places, now: datetime.datetime) -> Apply:
    """Return the write that gives a change underway another goal; its time goes on."""
    underway = of(gpu)
    begun = underway.begun or now
    return _write(gpu, layout, instances, Change(begun, underway.before))


def roll_back(gpu: Gpu, layout: Layout, why: str, now: datetime.datetime) -> Apply:
    """Return the write that restores the instances from before the change underway."""
    before = of(gpu).before
    return _write(gpu, layout, before, Change(now, before, version(layout), why[:_WHY_LENGTH]))


def _write(gpu: Gpu, layout: Layout, instances: Places, change: Change) -> Apply:
    noted = {
        CHANGED_AT: change.begun.isoformat(timespec="seconds") if change.begun else "",
        LAST_APPLIED: write(change.before),
    }
    if change.undone:
        noted |= {ROLLED_BACK: change.undone, ROLLED_BACK_WHY: change.why}
    document = gpu_render.instances(gpu.name, gpu.meta.uid, instances, layout.name, noted)
    return Apply(Manager.LAYOUT, document)


def _restorable(gpu: Gpu) -> Places:
    """Return what a rollback restores: the instances of now, or from before a change underway."""
    there = {(s.profile, s.start) for s in gpu.status.slices}
    if there == {(i.profile, i.start) for i in gpu.spec.instances}:
        return gpu.spec.instances
    return of(gpu).before


def write(instances: Places) -> str:
    """Write instances as one line of text: 3g.40gb@4,1g.10gb@0."""
    return spec.format_places((i.profile, i.start) for i in instances)


def read(text: str) -> Places:
    """Read what ``write`` wrote; what a person broke counts as no instances."""
    try:
        places = spec.parse_places(text)
    except SpecError:
        return ()
    if any(start > _LAST_START for _, start in places):
        return ()
    return tuple(PlacedInstance(profile=profile, start=start) for profile, start in places)


def moment(text: str) -> datetime.datetime | None:
    """Read an RFC 3339 time; what a person broke, or left without its zone, is none."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
