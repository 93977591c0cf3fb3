"""Whether nodes enforce the RDMA policies on which a verdict rests.

The evaluator states what policies mean. Until each node has acknowledged a policy's latest version,
as its condition Programmed states, a node may act by an earlier one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from rdma.explain import Explanation

PROGRAMMED: Final = "Programmed"
_NOT_REPORTED: Final = "the operator has not reported on this version of the policy yet"


class Condition(Protocol):
    """What counts of a ``metav1.Condition``."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def observed_generation(self) -> int: ...


class _Condition(NamedTuple):
    type: str
    status: str
    reason: str
    message: str
    observed_generation: int


@dataclass(frozen=True, slots=True)
class Enforcement:
    """A policy's condition Programmed: True, False or Unknown, and how many nodes enforce it."""

    name: str
    status: str
    reason: str = ""
    message: str = ""
    nodes_ready: str = ""

    @property
    def is_programmed(self) -> bool:
        """Return whether all nodes enforce the policy's latest version."""
        return self.status == "True"

    def __str__(self) -> str:
        reason = f" {self.reason}" if self.reason else ""
        return f"policy {self.name}: Programmed={self.status}{reason}: {self.message}"

    def document(self) -> dict[str, str]:
        """Return the state as a JSON object."""
        return {
            "policy": self.name,
            "programmed": self.status,
            "reason": self.reason,
            "message": self.message,
        }


def state_of(
    name: str, generation: int, conditions: Iterable[Condition], nodes_ready: str
) -> Enforcement:
    """Return a policy's state; a condition of an earlier generation does not count."""
    found = next((one for one in conditions if one.type == PROGRAMMED), None)
    if found is None or found.observed_generation < generation:
        return Enforcement(name, "Unknown", message=_NOT_REPORTED, nodes_ready=nodes_ready)
    return Enforcement(name, found.status, found.reason, found.message, nodes_ready)


def read_state(name: str, document: Mapping[str, Any]) -> Enforcement:
    """Return the state of a policy as the API server returns it; what has a wrong type is left
    out.
    """
    metadata, status = _inner(document, "metadata"), _inner(document, "status")
    items = status.get("conditions")
    found = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
    conditions = (
        _Condition(
            str(one.get("type") or ""),
            str(one.get("status") or ""),
            str(one.get("reason") or ""),
            str(one.get("message") or ""),
            _number(one.get("observedGeneration")),
        )
        for one in found
    )
    nodes = str(status.get("nodesReady") or "")
    return state_of(name, _number(metadata.get("generation")), conditions, nodes)


def deciding_policies(found: Iterable[Explanation]) -> tuple[str, ...]:
    """Return the policies that isolate an end, or whose rules match, each as "namespace/name"."""
    halves = [half for one in found for half in one.halves]
    names = [name for half in halves for name in (*half.isolated_by, *half.audited_by)]
    names += [rule.partition(" ")[0] for half in halves for rule, _ in half.rules]
    return tuple(sorted(set(names)))


def lacking(states: Iterable[Enforcement]) -> tuple[Enforcement, ...]:
    """Return the policies that not every node enforces as they are now."""
    return tuple(one for one in states if not one.is_programmed)


def verdict_of(found: Explanation, states: Iterable[Enforcement]) -> str:
    """Return the verdict in a few words; that of the future if nodes have yet to enforce it."""
    word = "allowed" if found.allowed else "denied"
    return f"will be {word} once programmed" if lacking(states) else word


def write_lines(found: Explanation, states: Iterable[Enforcement]) -> Iterator[str]:
    """Yield the text of an explanation, with whether nodes enforce the policies behind it."""
    first, *rest = found.lines()
    known = tuple(states)
    waits = bool(lacking(known))
    _, _, subject = first.partition(": ")
    yield f"{verdict_of(found, known).upper()}: {subject}"
    for one in known:
        yield f"  {'enforced' if one.is_programmed else 'not enforced everywhere yet'}: {one}"
    for line in rest:
        yield line.replace("  so: ", "  so, once programmed: ", 1) if waits else line


def _inner(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
