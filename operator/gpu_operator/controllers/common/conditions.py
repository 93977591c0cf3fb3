"""The conditions of each resource, its status document, and events for changed conditions."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_operator.api.v1alpha1 import API_VERSION
from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason, Status
from gpu_operator.api.v1alpha1.resource import Broken, Meta
from gpu_operator.kube.actions import Action, Apply, Manager, Record

_MESSAGE_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status, reason and message of a condition, without its times."""

    true: bool
    reason: Reason
    message: str = ""


Verdicts = Mapping[ConditionType, Verdict]


def verdicts(
    ready: Verdict,
    *,
    accepted: Verdict | None = None,
    progressing: Verdict | None = None,
    degraded: Verdict | None = None,
) -> Verdicts:
    """Return all four conditions of a resource.

    By default, the resource is accepted, not progressing and not degraded.
    """
    return {
        ConditionType.ACCEPTED: accepted or Verdict(True, Reason.ACCEPTED),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: progressing or Verdict(False, ready.reason),
        ConditionType.DEGRADED: degraded or Verdict(False, Reason.HEALTHY),
    }


def refusal_verdicts(reason: Reason, message: str) -> Verdicts:
    """Return the conditions of a resource that is not accepted."""
    no = Verdict(False, reason, message)
    return verdicts(no, accepted=no, progressing=Verdict(False, reason))


def with_write_refusal(new_verdicts: Verdicts, refusal: str) -> Verdicts:
    """Return the conditions to report while the API server refuses to write the object.

    ``refusal`` is the API server's reason; if it is empty, the conditions are unchanged.
    """
    if not refusal:
        return new_verdicts
    no, message = Reason.REFUSED, f"the API server refuses a change: {refusal}"
    ready, degraded = Verdict(False, no, message), Verdict(True, no, message)
    return {**new_verdicts, ConditionType.READY: ready, ConditionType.DEGRADED: degraded}


def make_conditions(
    new_verdicts: Verdicts,
    old_conditions: Sequence[Condition],
    generation: int,
    current_time: datetime.datetime,
) -> tuple[Condition, ...]:
    """Return the conditions for an object's status.

    A condition whose status (True or False) is unchanged keeps its transition time.
    """
    conditions_by_type = {condition.type: condition for condition in old_conditions}
    moment = current_time.strftime("%Y-%m-%dT%H:%M:%SZ")
    result = []
    for kind, verdict in new_verdicts.items():
        status = "True" if verdict.true else "False"
        old_condition = conditions_by_type.get(kind.value)
        result.append(
            Condition(
                type=kind.value,
                status=status,
                reason=verdict.reason.value,
                message=verdict.message[:_MESSAGE_LENGTH],
                last_transition_time=(
                    old_condition.last_transition_time
                    if old_condition and old_condition.status == status
                    else moment
                ),
                observed_generation=generation,
            )
        )
    return tuple(result)


def report(
    meta: Meta,
    old_status: Status,
    new_status: Status,
    new_verdicts: Verdicts,
    current_time: datetime.datetime,
) -> tuple[Action, ...]:
    """Return the action that writes ``new_status``, and an event for each changed condition.

    There are no actions if nothing changed.
    """
    complete = new_status.model_copy(
        update={
            "observed_generation": meta.generation,
            "conditions": make_conditions(
                new_verdicts, old_status.conditions, meta.generation, current_time
            ),
        }
    )
    if complete == old_status:
        return ()
    document = {
        "apiVersion": API_VERSION,
        "kind": meta.kind,
        "metadata": {"name": meta.name, "uid": meta.uid},
        "status": complete.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    write = Apply(Manager.STATUS, document, status=True)
    return (write, *_events(meta, old_status.conditions, complete.conditions))


def report_broken(broken: Broken, current_time: datetime.datetime) -> tuple[Action, ...]:
    """Return the action that reports in an object's status that its spec is invalid."""
    new_verdicts = refusal_verdicts(Reason.INVALID_SPEC, broken.problem)
    return report(broken.meta, broken.status, broken.status, new_verdicts, current_time)


_QUIET = {  # status of a condition that needs no event
    ConditionType.ACCEPTED: "True",
    ConditionType.PROGRESSING: "False",
    ConditionType.DEGRADED: "False",
}


_REPORTED = (
    ConditionType.DEGRADED,
    ConditionType.ACCEPTED,
    ConditionType.READY,
    ConditionType.MODELLED_CLOCK,
)


def _events(
    meta: Meta, old_conditions: Sequence[Condition], new_conditions: Sequence[Condition]
) -> Iterator[Record]:
    old_states = {c.type: (c.status, c.reason) for c in old_conditions}
    reported: set[str] = set()
    for kind in _REPORTED:
        condition = next((c for c in new_conditions if c.type == kind.value), None)
        if condition is None:
            continue
        state = (condition.status, condition.reason)
        if old_states.get(kind.value) == state or condition.reason in reported:
            continue
        usual = condition.status == _QUIET.get(kind) and not condition.message
        if kind.value not in old_states and usual:
            continue
        reported.add(condition.reason)
        yield Record(
            kind=meta.kind,
            name=meta.name,
            uid=meta.uid,
            reason=condition.reason,
            message=condition.message or f"{condition.type} is {condition.status}",
            warning=_is_warning(condition),
        )


def _is_warning(condition: Condition) -> bool:
    if condition.type == ConditionType.DEGRADED.value:
        return condition.status == "True"
    if condition.type == ConditionType.ACCEPTED.value:
        return condition.status == "False"
    return False
