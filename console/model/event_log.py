"""Events that concern GPUs, layouts, RDMA policies and pods that wait for slices."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

Document = dict[str, Any]
MOST: Final = 2000  # events in memory; the oldest are dropped first
_OWN_GROUPS: Final = ("gpu.tessera.dev", "rdma.tessera.dev")
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event of the Kubernetes API; times are RFC 3339 texts."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    warning: bool
    last: str
    count: int
    component: str


def read_event(document: Document) -> EventRecord | None:
    """Parse an event; return None if it concerns nothing that the console shows."""
    about = document.get("involvedObject") or {}
    source = document.get("source") or {}
    component = str(source.get("component") or document.get("reportingComponent") or "")
    reason, message = str(document.get("reason") or ""), str(document.get("message") or "")
    own = str(about.get("apiVersion") or "").partition("/")[0] in _OWN_GROUPS
    scheduling = reason == "FailedScheduling" and "tessera.dev/" in message
    if not (own or scheduling or component.startswith("tessera")):
        return None
    series = document.get("series") or {}
    created = (document.get("metadata") or {}).get("creationTimestamp")
    seen = (
        series.get("lastObservedTime")
        or document.get("lastTimestamp")
        or document.get("eventTime")
        or created
    )
    return EventRecord(
        kind=str(about.get("kind") or ""),
        namespace=str(about.get("namespace") or ""),
        name=str(about.get("name") or ""),
        reason=reason,
        message=message[:_LONGEST],
        warning=document.get("type") == "Warning",
        last=str(seen or ""),
        count=int(series.get("count") or document.get("count") or 1),
        component=component,
    )


class EventLog:
    """The latest events, by the key of their object in the API."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._events: dict[str, EventRecord] = {}

    def put(self, key: str, event: EventRecord) -> None:
        """Store an event, and drop the one that was stored first if there are too many."""
        self._events.pop(key, None)
        self._events[key] = event
        while len(self._events) > self._most:
            del self._events[next(iter(self._events))]

    def remove(self, key: str) -> None:
        """Drop an event that the API server has deleted."""
        self._events.pop(key, None)

    def all(self) -> Iterable[EventRecord]:
        """Return the events, in no particular order."""
        return self._events.values()
