"""What every page states about a pod that it names: phase, node and age."""

import datetime
import re
from collections.abc import Iterator, Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from console.model.cluster import ClusterModel
from console.model.pods import PodRecord
from console.views import details
from console.views.details import FoundSlice
from facts.wording import count_of
from gpu_operator.api.timestamps import parse_timestamp

SHOWN: Final = 200  # of a list
# "namespace/name" within a message; only those of known pods become links
_NAMED: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9.-]{0,252}")


@dataclass(frozen=True, slots=True)
class PodLine:
    """A pod as pages show it.

    ``phase`` is the pod's phase, or the reason why a container does not run, and ``problem``
    explains that reason. ``absence`` states why nothing is known of it; then it has no phase.
    ``since_s`` is its age; None if that is not known.
    """

    namespace: str
    name: str
    phase: str = ""
    node: str = ""
    since_s: int | None = None
    problem: str = ""
    absence: str = ""


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod of the list, and the slices that it holds."""

    line: PodLine
    held: tuple[FoundSlice, ...]
    record: PodRecord | None


def describe_pod(model: ClusterModel, namespace: str, name: str) -> PodLine:
    """Return what is known of a pod."""
    record = model.pods.get(f"{namespace}/{name}")
    if record is None:
        return PodLine(namespace, name, absence=_absence(model, namespace, name))
    return _line(record)


def split_names(model: ClusterModel, text: str) -> Iterator[str | PodLine]:
    """Yield the parts of a message; those that name known pods as pods."""
    end = 0
    for match in _NAMED.finditer(text):
        record = model.pods.get(match[0].rstrip("."))
        if record is None:
            continue
        yield text[end : match.start()]
        yield _line(record)
        end = match.start() + len(record.key)
    yield text[end:]


def list_pods(
    model: ClusterModel, known_keys: AbstractSet[str], namespace: str = "", text: str = ""
) -> tuple[list[PodRow], int]:
    """Return pods with devices or requests, by name, and how many more there are.

    ``known_keys`` are the keys of the model's pods, which change meanwhile. Pods that hold slices
    but are not known any more are listed, too.
    """
    slices_by_pod: dict[str, list[FoundSlice]] = {}
    for found_slice in details.every_slice(model.world()):
        for holder in found_slice.holders:
            slices_by_pod.setdefault(f"{holder.namespace}/{holder.name}", []).append(found_slice)
    keys = sorted(
        key
        for key in known_keys | slices_by_pod.keys()
        if text in key and namespace in ("", key.partition("/")[0])
    )
    rows = []
    for key in keys[:SHOWN]:
        space, _, name = key.partition("/")
        line = describe_pod(model, space, name)
        rows.append(PodRow(line, tuple(slices_by_pod.get(key, ())), model.pods.get(key)))
    return rows, len(keys) - len(rows)


def _line(record: PodRecord) -> PodLine:
    created = parse_timestamp(record.created)
    since = None
    if created is not None:
        since = max(int((datetime.datetime.now(datetime.UTC) - created).total_seconds()), 0)
    reason, _, problem = record.problem.partition(": ")
    phase = reason or record.phase
    if record.restarts:
        phase += f", {count_of(record.restarts, 'restart')}"
    if record.is_ending:
        phase += ", being deleted"
    return PodLine(record.namespace, record.name, phase, record.node, since, problem)


def _absence(model: ClusterModel, namespace: str, name: str) -> str:
    missing = model.connection.missing(("Pod",))
    if missing:
        return "phase and node not known: pods cannot be read"
    if model.connection.namespace not in ("", namespace):
        return "phase and node not known: pods of this namespace are not read"
    if "Pod" in model.connection.limited:
        return "phase and node not known: not all pods can be read"
    since = model.departures.find("Pod", f"{namespace}/{name}")
    return "has ended or was deleted" + f" at {since}" * bool(since)
