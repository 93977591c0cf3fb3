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
    programmed_condition = next(
        (condition for condition in conditions if condition.type == PROGRAMMED), None
    )
    if programmed_condition is None or programmed_condition.observed_generation < generation:
        return Enforcement(name, "Unknown", message=_NOT_REPORTED, nodes_ready=nodes_ready)
    return Enforcement(
        name,
        programmed_condition.status,
        programmed_condition.reason,
        programmed_condition.message,
        nodes_ready,
    )


def read_state(name: str, document: Mapping[str, Any]) -> Enforcement:
    """Return the state of a policy as the API server returns it; what has a wrong type is left
    out.
    """
    metadata, status = _inner(document, "metadata"), _inner(document, "status")
    items = status.get("conditions")
    condition_documents = (
        [condition for condition in items if isinstance(condition, dict)]
        if isinstance(items, list)
        else []
    )
    conditions = (
        _Condition(
            str(condition.get("type") or ""),
            str(condition.get("status") or ""),
            str(condition.get("reason") or ""),
            str(condition.get("message") or ""),
            _number(condition.get("observedGeneration")),
        )
        for condition in condition_documents
    )
    nodes = str(status.get("nodesReady") or "")
    return state_of(name, _number(metadata.get("generation")), conditions, nodes)


def deciding_policies(explanations: Iterable[Explanation]) -> tuple[str, ...]:
    """Return the policies that isolate an end, or whose rules match, each as "namespace/name"."""
    halves = [half for explanation in explanations for half in explanation.halves]
    names = [name for half in halves for name in (*half.isolated_by, *half.audited_by)]
    names += [rule.partition(" ")[0] for half in halves for rule, _ in half.rules]
    return tuple(sorted(set(names)))


def lacking(states: Iterable[Enforcement]) -> tuple[Enforcement, ...]:
    """Return the policies that not every node enforces as they are now."""
    return tuple(state for state in states if not state.is_programmed)


def verdict_of(explanation: Explanation, states: Iterable[Enforcement]) -> str:
    """Return the verdict in a few words; that of the future if nodes have yet to enforce it."""
    word = "allowed" if explanation.allowed else "denied"
    return f"will be {word} once programmed" if lacking(states) else word


def write_lines(explanation: Explanation, states: Iterable[Enforcement]) -> Iterator[str]:
    """Yield the text of an explanation, with whether nodes enforce the policies behind it."""
    first, *details = explanation.lines()
    known_states = tuple(states)
    waits = bool(lacking(known_states))
    _, _, subject = first.partition(": ")
    yield f"{verdict_of(explanation, known_states).upper()}: {subject}"
    for state in known_states:
        yield f"  {'enforced' if state.is_programmed else 'not enforced everywhere yet'}: {state}"
    for line in details:
        yield line.replace("  so: ", "  so, once programmed: ", 1) if waits else line


def _inner(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    field = document.get(name)
    return field if isinstance(field, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
