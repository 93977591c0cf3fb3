"""The events of a support bundle: about Tessera's own objects and policies, and denials by count.

A user with the right to create events in a namespace decides on their content. So an event counts
only from the namespace of its object, and of those in tenants' namespaces no free text is kept.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from console.support.installation import OWN_KINDS, RDMA_KINDS, metadata
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.kube.port import Chosen, Document
from rdma.kinds import POLICY_KIND

SHARED: Final = "default"  # the namespace of events about objects that have none
CLUSTER_SCOPED: Final = tuple(kind for kind in (*OWN_KINDS, *RDMA_KINDS) if kind != POLICY_KIND)
OF_PODS: Final = (Reason.RDMA_DENIED.value, Reason.RDMA_DROPPED.value)
MOST: Final = 2000  # the latest
SELECTIONS: Final = (
    *(Chosen(namespace=SHARED, fields=f"involvedObject.kind={kind}") for kind in CLUSTER_SCOPED),
    Chosen(fields=f"involvedObject.kind={POLICY_KIND}"),
    *(Chosen(fields=f"reason={reason}") for reason in OF_PODS),
)
"""What the API server is requested for: by far most events of a cluster concern other objects."""


def prune_events(
    events: Iterable[Document], policies: Mapping[tuple[str, str], str], own: str
) -> list[Document]:
    """Return the latest events; ``policies`` are the names that policies have in the bundle."""
    pruned_events = [
        pruned_event
        for event in events
        if (pruned_event := _prune(event, policies, own)) is not None
    ]
    pruned_events.sort(key=lambda pruned_event: str(pruned_event["lastTimestamp"]), reverse=True)
    return pruned_events[:MOST]


def count_denials(events: Iterable[Document]) -> Mapping[str, int]:
    """Return how many times hcad or a link refused a pod's packets, without the pods' names."""
    counts: Counter[str] = Counter()
    for event in events:
        if event.get("reason") in OF_PODS and _about(event).get("kind") == "Pod":
            counts[str(event["reason"])] += _count(event)
    return dict(counts)


def namespaces_of(events: Iterable[Document]) -> Iterator[str]:
    """Yield the namespaces of events, whose names the bundle replaces."""
    for event in events:
        yield str(metadata(event).get("namespace") or "")


def _prune(event: Document, policies: Mapping[tuple[str, str], str], own: str) -> Document | None:
    about = _about(event)
    kind, name = str(about.get("kind") or ""), str(about.get("name") or "")
    space = str(metadata(event).get("namespace") or "")
    reason, message = str(event.get("reason") or ""), str(event.get("message") or "")
    if kind == POLICY_KIND:
        if str(about.get("namespace") or "") != space:
            return None
        if space != own:
            name = policies.get((space, name), "a policy that does not exist any more")
            message = "not shown"
    elif kind not in CLUSTER_SCOPED or space != SHARED:
        return None
    return {
        "kind": kind,
        "namespace": space if kind == POLICY_KIND else "",
        "name": name,
        "type": _known(event.get("type"), ("Normal", "Warning")),
        "reason": _known(reason, tuple(Reason)),
        "message": message,
        "count": _count(event),
        "firstTimestamp": event.get("firstTimestamp") or event.get("eventTime") or "",
        "lastTimestamp": _last(event),
    }


def _known(text: object, known_words: Collection[str]) -> str:
    """Return a word that Tessera writes; any user can write others."""
    return str(text) if text in known_words else "not shown"


def _about(event: Document) -> Mapping[str, Any]:
    return event.get("involvedObject") or {}


def _last(event: Document) -> str:
    series = event.get("series") or {}
    last_time = (
        series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    )
    return str(last_time or metadata(event).get("creationTimestamp") or "")


def _count(event: Document) -> int:
    number = (event.get("series") or {}).get("count") or event.get("count") or 1
    return number if isinstance(number, int) else 1
