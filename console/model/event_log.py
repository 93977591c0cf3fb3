"""Events that concern GPUs, layouts, RDMA policies and pods that wait for slices.

Everyone who may create events in a namespace decides on their content. So an event about an object
without a namespace counts only from the namespace in which Kubernetes stores such events, and each
namespace has a bound of its own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gpu_operator.api.timestamps import parse_timestamp

Document = dict[str, Any]
MOST: Final = 4000  # events in memory
MOST_OF_NAMESPACE: Final = 250
MOST_OF_OPERATOR: Final = 1000  # in the namespace of events about objects that have none
OPERATOR_SPACE: Final = "default"
CLUSTER_SCOPED: Final = (
    "GPU",
    "GPUPool",
    "MIGLayout",
    "GPUPolicy",
    "GPUFault",
    "Node",
    "RDMANetwork",
)
_OWN_GROUPS: Final = ("gpu.tessera.dev", "rdma.tessera.dev")
_LONGEST: Final = 1024
_LONGEST_UID: Final = 128
_MOST_DIGITS: Final = 19
Order = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event of the Kubernetes API; times are RFC 3339 texts.

    ``space`` is the namespace in which the event is stored, and ``is_scheduling`` whether the
    scheduler reports a pod that it cannot place. ``version`` is the resource version, which grows
    with each write: it orders the events of one second; 0 if it is not a number. ``uid`` is that
    of the object, of which a later one can have the same name. ``first`` is when a repeated event
    was recorded first; empty if it has one time only.
    """

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    warning: bool
    last: str
    count: int
    component: str
    space: str = ""
    is_scheduling: bool = False
    version: int = 0
    uid: str = ""
    first: str = ""

    @property
    def order(self) -> Order:
        """Return a key that sorts by time, the oldest first."""
        return order_of(self.last, self.version)


def order_of(time: str, version: int = 0) -> Order:
    """Return a key that sorts by the second of a time, then by the resource version.

    Most events have whole seconds, so that fractions of others would not order them.
    """
    moment = parse_timestamp(time)
    return (math.floor(moment.timestamp()) if moment is not None else 0, version)


def read_event(document: Document) -> EventRecord | None:
    """Parse an event; return None if it concerns nothing that the console shows."""
    about = document.get("involvedObject") or {}
    source = document.get("source") or {}
    component = str(source.get("component") or document.get("reportingComponent") or "")
    reason, message = str(document.get("reason") or ""), str(document.get("message") or "")
    metadata = document.get("metadata") or {}
    space, kind = str(metadata.get("namespace") or ""), str(about.get("kind") or "")
    if kind in CLUSTER_SCOPED and (
        space != OPERATOR_SPACE or about.get("namespace") not in (None, "", OPERATOR_SPACE)
    ):
        return None
    own = str(about.get("apiVersion") or "").partition("/")[0] in _OWN_GROUPS
    scheduling = reason == "FailedScheduling" and kind == "Pod"
    if not (own or scheduling or component.startswith("tessera")):
        return None
    series = document.get("series") or {}
    created = metadata.get("creationTimestamp")
    last_time = (
        series.get("lastObservedTime")
        or document.get("lastTimestamp")
        or document.get("eventTime")
        or created
    )
    first = str(document.get("firstTimestamp") or document.get("eventTime") or "")
    return EventRecord(
        kind=kind,
        namespace=str(about.get("namespace") or ""),
        name=str(about.get("name") or ""),
        reason=reason,
        message=message[:_LONGEST],
        warning=document.get("type") == "Warning",
        last=str(last_time or ""),
        count=int(series.get("count") or document.get("count") or 1),
        component=component,
        space=space,
        is_scheduling=scheduling,
        version=_read_version(metadata.get("resourceVersion")),
        uid=str(about.get("uid") or "")[:_LONGEST_UID],
        first="" if first == str(last_time) else first,
    )


def _read_version(text: Any) -> int:
    digits = str(text or "")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(digits) if is_number else 0


class EventLog:
    """The latest events of each namespace, by the key of their object in the API.

    The scheduler's events, most of which concern other pods, have bounds of their own.
    """

    def __init__(self, most_events: int = MOST) -> None:
        self._most = most_events
        self._groups: dict[tuple[str, bool], dict[str, EventRecord]] = {}
        self._group_of: dict[str, tuple[str, bool]] = {}

    def put(self, key: str, event: EventRecord) -> None:
        """Store an event, and drop the oldest of its namespace if that has too many.

        If there are too many in all, the oldest of the namespace with the most is dropped.
        """
        self.remove(key)
        name = event.space, event.is_scheduling
        self._groups.setdefault(name, {})[key] = event
        self._group_of[key] = name
        is_operator = event.space == OPERATOR_SPACE and not event.is_scheduling
        if len(self._groups[name]) > (MOST_OF_OPERATOR if is_operator else MOST_OF_NAMESPACE):
            self._drop_oldest(name)
        elif len(self._group_of) > self._most:
            self._drop_oldest(max(self._groups, key=lambda group: len(self._groups[group])))

    def remove(self, key: str) -> None:
        """Drop an event that the API server has deleted."""
        name = self._group_of.pop(key, None)
        if name is None:
            return
        del self._groups[name][key]
        if not self._groups[name]:
            del self._groups[name]

    def all(self) -> Iterator[EventRecord]:
        """Yield the events, in no particular order."""
        for group in self._groups.values():
            yield from group.values()

    def _drop_oldest(self, name: tuple[str, bool]) -> None:
        group = self._groups[name]
        self.remove(min(group, key=lambda key: group[key].order))
