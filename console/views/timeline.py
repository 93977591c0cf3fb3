"""Events and faults on one time line, the latest first."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from console.model.event_log import CLUSTER_SCOPED, EventRecord
from console.model.pods import PodRecord
from console.views import why
from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1 import GROUP, HCA_RESOURCE
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.common.world import World

SHOWN: Final = 300
WIDTH: Final = 960
_LANES: Final = ("fault", "warning", "normal")


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, or a fault that a GPUFault requests."""

    at: str
    lane: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry's position on the drawing; ``row`` is the entry's number in the list."""

    x: float
    lane: int
    row: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries with the marks of their drawing, from ``first`` to ``last``."""

    entries: tuple[Entry, ...]
    marks: tuple[Mark, ...]
    first: str
    last: str
    more: int


def relevant_events(
    world: World, events: Iterable[EventRecord], pods: Mapping[str, PodRecord]
) -> Iterator[EventRecord]:
    """Yield the events that concern devices: of the scheduler's, those of pods that request some.

    A pod that has a node by now is not stored: then the message must name a resource.
    """
    prefixes = {world.policy.resource_prefix, GROUP, HCA_RESOURCE.partition("/")[0]}
    for event in events:
        if event.is_scheduling:
            pod = pods.get(f"{event.namespace}/{event.name}")
            waits = pod is not None and why.is_pending(world, pod)
            if not waits and not any(f"{one}/" in event.message for one in prefixes):
                continue
        yield event


def view_timeline(
    world: World, events: Iterable[EventRecord], lane: str = "", text: str = ""
) -> Timeline:
    """Return the latest entries that match a lane and contain a text."""
    entries = [*map(_event, events), *_faults(world)]
    found = [one for one in entries if lane in ("", one.lane) and _matches(one, text)]
    found.sort(key=lambda one: one.at, reverse=True)
    shown = found[:SHOWN]
    marks = tuple(_marks(shown))
    ends = (shown[-1].at, shown[0].at) if shown else ("", "")
    return Timeline(tuple(shown), marks, *ends, len(found) - len(shown))


def entries_about(
    world: World, events: Iterable[EventRecord], kind: str, name: str, namespace: str = ""
) -> tuple[Entry, ...]:
    """Return the latest entries about one object."""
    every = [*map(_event, events), *_faults(world)]
    about = [one for one in every if (one.kind, one.name, one.namespace) == (kind, name, namespace)]
    return tuple(sorted(about, key=lambda one: one.at, reverse=True)[:50])


def _event(event: EventRecord) -> Entry:
    return Entry(
        at=event.last,
        lane=_lane(event),
        kind=event.kind,
        namespace="" if event.kind in CLUSTER_SCOPED else event.namespace,
        name=event.name,
        reason=event.reason,
        message=event.message,
        count=event.count,
    )


def _lane(event: EventRecord) -> str:
    """Return the lane of an event; what happened to a fault stays after its GPUFault is deleted."""
    if event.kind == "GPUFault" or (event.kind == "GPU" and event.reason == Reason.CLEARED):
        return "fault"
    return "warning" if event.warning else "normal"


def _faults(world: World) -> Iterator[Entry]:
    for name, fault in world.faults.items():
        status = fault.status
        where = f"{status.gpu}{f', slice {status.slice}' if status.slice else ''}"
        said = [one.message for one in status.conditions if one.status == "False" and one.message]
        yield Entry(
            at=fault.meta.created,
            lane="fault",
            kind="GPUFault",
            namespace="",
            name=name,
            reason=status.phase or "Pending",
            message="; ".join(filter(None, (f"{status.fault} on {where}", *said))),
        )


def _matches(entry: Entry, text: str) -> bool:
    whole = f"{entry.kind}/{entry.namespace}/{entry.name} {entry.reason} {entry.message}"
    return text.lower() in whole.lower()


def _marks(entries: list[Entry]) -> Iterator[Mark]:
    times = [(row, parse_timestamp(one.at)) for row, one in enumerate(entries)]
    known: list[tuple[int, datetime.datetime]] = [(r, t) for r, t in times if t is not None]
    if not known:
        return
    first, last = min(t for _, t in known), max(t for _, t in known)
    span_s = max((last - first).total_seconds(), 1.0)
    for row, moment in known:
        share = (moment - first).total_seconds() / span_s
        lane = _LANES.index(entries[row].lane)
        yield Mark(round(8 + share * (WIDTH - 16), 1), lane, row)
