"""Events and faults on one time line, the latest first; one object is one entry.

Entries are sorted by the second of their times. Within one second, the order is that in which the
API server stored the events last; the creation of a GPUFault is before the events of its second.
"""

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from console.model.event_log import CLUSTER_SCOPED, EventRecord, Order, order_of
from console.model.pods import PodRecord
from console.views import faults
from console.views.details import entries_of
from console.views.waiting import why
from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1 import GROUP, HCA_RESOURCE
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World

SHOWN: Final = 300
WIDTH: Final = 960
FAULT: Final = "fault"
LANES: Final = (FAULT, "warning", "normal")
PERIODS: Final[Mapping[str, int]] = MappingProxyType(
    {"5m": 300, "15m": 900, "1h": 3600, "6h": 6 * 3600, "24h": 24 * 3600}
)
"""The periods that end now, in seconds."""
_OF_HEALTH: Final = (Reason.HEALTHY, Reason.SUSPECT, Reason.UNHEALTHY, Reason.PROBATION)
_OF_FAULTS: Final = (*_OF_HEALTH, Reason.INJECTED, Reason.CLEARED, Reason.FAULT_REFUSED)
_RECOVERIES: Final = (Reason.HEALTHY, Reason.CLEARED, Reason.ENFORCED)
_NOT_DEGRADED: Final = "Degraded is False"  # a condition without a message, as an event
_REQUESTED: Final = "Requested"
_FAILED: Final = "FailedScheduling"
# as the node agent writes a change of health; the UUID is that of the GPU or of a slice
_CHANGE: Final = re.compile(
    r"(?:GPU (?=GPU-)|slice [^(]*\()(?P<uuid>[^ )]+)\)? (?P<health>is .*); before: \w+"
    r"(?:; so are .*)?$"  # a GPU's slices
)
_TOGETHER_S: Final = 60  # events of one fault are in the same minute


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, or the creation of a GPUFault; ``first`` is an earlier time of its writing.

    An event object is one entry, at the time of its last occurrence.
    """

    at: str
    lane: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    count: int = 1
    order: Order = (0, 0)
    uid: str = ""
    first: str = ""

    @property
    def look(self) -> str:
        """Return the lane, or "recovery": what is over or healthy again looks like no fault."""
        is_over = self.reason in _RECOVERIES or self.message.startswith(_NOT_DEGRADED)
        return "recovery" if is_over else self.lane


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the list: an entry, and ``others`` like it that the page does not list.

    ``names`` is how many objects they are about. ``text`` finds all of them.
    """

    entry: Entry
    others: int = 0
    names: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time in which entries are shown; None does not restrict."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    def contains(self, entry: Entry) -> bool:
        """Return whether an entry is shown: whole seconds count, as most times have no fraction.

        A span has no entry whose time is not known.
        """
        return self._has(entry.order[0])

    def place(self, entry: Entry) -> Entry | None:
        """Return an entry as the span shows it, or None.

        Kubernetes moves an event that occurs again. A span that ends before this shows the event at
        its first time, as an earlier fault would leave the list otherwise.
        """
        if self.contains(entry):
            return entry
        order = order_of(entry.first) if entry.first else (0, 0)
        if not self._has(order[0]):
            return None
        return replace(entry, at=entry.first, count=1, order=order, first="")

    def _has(self, second: int) -> bool:
        if self.since is None and self.until is None:
            return True
        is_late = self.since is None or second >= math.floor(self.since.timestamp())
        is_early = self.until is None or second <= self.until.timestamp()
        return second != 0 and is_late and is_early


ALWAYS: Final = Span()


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


def read_time(text: str) -> datetime.datetime | None:
    """Parse a time of a query, which is in UTC unless it has a time zone; None if it is invalid."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    except ValueError:
        return None


def read_span(period: str, since: str, until: str, moment: datetime.datetime) -> Span:
    """Return the span that a query names; with a period, the later of two beginnings counts."""
    first = read_time(since)
    if period in PERIODS:
        recent = moment - datetime.timedelta(seconds=PERIODS[period])
        first = max(first, recent) if first is not None else recent
    return Span(first, read_time(until))


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
            if not waits and not any(f"{prefix}/" in event.message for prefix in prefixes):
                continue
        yield event


def view_timeline(
    world: World,
    events: Iterable[EventRecord],
    lane: str = "",
    text: str = "",
    span: Span = ALWAYS,
) -> Timeline:
    """Return the latest entries of a lane and a span of time that contain a text."""
    matches = [
        placed
        for timeline_entry in _entries(world, events)
        if lane in ("", timeline_entry.lane) and _matches(timeline_entry, text)
        if (placed := span.place(timeline_entry)) is not None
    ]
    matches.sort(key=lambda timeline_entry: timeline_entry.order, reverse=True)
    shown_entries = matches[:SHOWN]
    marks = tuple(_marks(shown_entries))
    return Timeline(
        entries=tuple(shown_entries),
        marks=marks,
        first=shown_entries[-1].at if shown_entries else "",
        last=shown_entries[0].at if shown_entries else "",
        more=len(matches) - len(shown_entries),
    )


def group_entries(world: World, entries: Iterable[Entry]) -> tuple[Line, ...]:
    """Return a line for each group of entries that have one cause, in the order of the latest.

    One fault changes the health of a GPU and of its slices, which is an event on each pod that
    holds one; the scheduler repeats its verdict about a pod while it waits.
    """
    groups: dict[tuple[str, ...], list[Entry]] = {}
    every = tuple(entries)
    owners = _find_owners(world, every)
    for place, timeline_entry in enumerate(every):
        groups.setdefault(_cause(timeline_entry, owners) or (str(place),), []).append(
            timeline_entry
        )
    lines = []
    for key, (first, *repeats) in groups.items():
        names = len(
            {
                (timeline_entry.namespace, timeline_entry.name)
                for timeline_entry in (first, *repeats)
            }
        )
        lines.append(Line(first, len(repeats), names, key[-1] if repeats else ""))
    return tuple(lines)


def _find_owners(world: World, entries: Iterable[Entry]) -> Mapping[str, str]:
    """Return the names of the GPUs of which the entries name a UUID, by this UUID.

    A large cluster has tens of thousands of slices. The events of most causes include one about the
    GPU itself, so the GPUs that entries name are searched first, and others only for what is left.
    """
    changes = [
        (timeline_entry, health_change["uuid"])
        for timeline_entry in entries
        if (health_change := _change_of(timeline_entry))
    ]
    named_uuids = {uuid for _, uuid in changes}
    named = dict.fromkeys(
        timeline_entry.name for timeline_entry, _ in changes if timeline_entry.kind == "GPU"
    )
    first = (world.gpus[name] for name in named if name in world.gpus)
    owners: dict[str, str] = {}
    for gpu in chain(first, world.gpus.values()):
        if len(owners) == len(named_uuids):
            break
        uuids = (gpu.spec.uuid, *(gpu_slice.uuid for gpu_slice in entries_of(gpu)))
        owners.update((uuid, gpu.name) for uuid in uuids if uuid in named_uuids)
    return owners


def _change_of(entry: Entry) -> re.Match[str] | None:
    """Return the parts of an entry about a change of health; None for others."""
    if entry.lane != FAULT or entry.reason not in _OF_HEALTH:
        return None
    return _CHANGE.match(entry.message)


def _cause(entry: Entry, owners: Mapping[str, str]) -> tuple[str, ...]:
    """Return what events with one cause have in common; the last part is in all their texts.

    ``owners`` has the names of GPUs, by their UUIDs and those of their slices.
    """
    if entry.kind == "Pod" and entry.reason == _FAILED:
        return (entry.kind, entry.namespace, entry.name, _FAILED, f"{entry.namespace}/{entry.name}")
    health_change = _change_of(entry)
    if health_change is None or health_change["uuid"] not in owners:
        return ()
    minute = str(int(entry.order[0]) // _TOGETHER_S)
    return (owners[health_change["uuid"]], minute, health_change["health"])


def entries_about(
    world: World,
    events: Iterable[EventRecord],
    kind: str,
    name: str,
    namespace: str = "",
    uid: str = "",
) -> tuple[Entry, ...]:
    """Return the latest entries about one object; with ``uid``, not those about another one that
    had its name.
    """
    about = [
        timeline_entry
        for timeline_entry in _entries(world, events)
        if (timeline_entry.kind, timeline_entry.name, timeline_entry.namespace)
        == (kind, name, namespace)
        and (not uid or timeline_entry.uid in ("", uid))
    ]
    return tuple(sorted(about, key=lambda timeline_entry: timeline_entry.order, reverse=True)[:50])


def health_changes(events: Iterable[EventRecord], gpu: Gpu, since: str) -> tuple[Entry, ...]:
    """Return the changes of health of a GPU and its slices from a time on, the oldest first: the
    events about the GPU, and those about the pods that held the slices then.
    """
    uuids = {gpu.spec.uuid, *(gpu_slice.uuid for gpu_slice in entries_of(gpu))}
    start = order_of(since)[0]
    changes = [
        timeline_entry
        for timeline_entry in map(_event, events)
        if timeline_entry.order[0] >= start
        and (change := _change_of(timeline_entry))
        and change["uuid"] in uuids
    ]
    return tuple(sorted(changes, key=lambda timeline_entry: timeline_entry.order)[:SHOWN])


def _entries(world: World, events: Iterable[EventRecord]) -> Iterator[Entry]:
    for event in events:
        yield _event(event)
    yield from _faults(world)


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
        order=event.order,
        uid=event.uid,
        first=event.first,
    )


def _lane(event: EventRecord) -> str:
    """Return the lane of an event; what happened to a fault stays after its GPUFault is deleted.

    Changes of health are in the lane of faults: on the GPU, and on the pods whose slice is lost or
    restored.
    """
    is_fault = event.kind == faults.KIND or event.reason in _OF_FAULTS
    return FAULT if is_fault else "warning" if event.warning else "normal"


def _faults(world: World) -> Iterator[Entry]:
    for name, fault in world.faults.items():
        status = fault.status
        where = f"{status.gpu}{f', slice {status.slice}' if status.slice else ''}"
        phase_text = (
            f"it is {status.phase} now" if status.phase else "the operator has not processed it"
        )
        refusals = [
            condition.message
            for condition in status.conditions
            if condition.status == "False" and condition.message
        ]
        summary = f"{status.fault} on {where}: {phase_text}" if status.gpu else phase_text
        yield Entry(
            at=fault.meta.created,
            lane=FAULT,
            kind=faults.KIND,
            namespace="",
            name=name,
            reason=_REQUESTED,
            message="; ".join((summary, *refusals)),
            order=order_of(fault.meta.created),
            uid=fault.meta.uid,
        )


def _matches(entry: Entry, text: str) -> bool:
    whole = f"{entry.kind}/{entry.namespace}/{entry.name} {entry.reason} {entry.message}"
    return text.lower() in whole.lower()


def _marks(entries: list[Entry]) -> Iterator[Mark]:
    times = [
        (row, parse_timestamp(timeline_entry.at)) for row, timeline_entry in enumerate(entries)
    ]
    timed_rows: list[tuple[int, datetime.datetime]] = [(r, t) for r, t in times if t is not None]
    if not timed_rows:
        return
    first, last = min(t for _, t in timed_rows), max(t for _, t in timed_rows)
    span_s = max((last - first).total_seconds(), 1.0)
    for row, moment in timed_rows:
        share = (moment - first).total_seconds() / span_s
        lane = LANES.index(entries[row].lane)
        yield Mark(round(8 + share * (WIDTH - 16), 1), lane, row)
