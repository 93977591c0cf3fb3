"""Conditions, their times, and the events for their changes."""

import datetime

from gpu_operator.api.v1alpha1.base import Reason, Status
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicyStatus
from gpu_operator.api.v1alpha1.resource import Broken, Meta
from gpu_operator.controllers.common import conditions
from gpu_operator.controllers.common.conditions import Verdict, Verdicts, verdicts
from gpu_operator.kube.actions import Action, Apply, Manager, Record
from support.worlds.gpu_world import NOW

META = Meta("GPUPolicy", "default", "uid-1", generation=3)
READY = verdicts(Verdict(True, Reason.RECONCILED, "in force"))
WAITING = verdicts(Verdict(False, Reason.WAITING_FOR_AGENT, "soon"))


def report(before: Status, wanted: Verdicts, at: datetime.datetime = NOW) -> tuple[Action, ...]:
    return conditions.report(META, before, GPUPolicyStatus(), wanted, at)


def written_status(actions: tuple[Action, ...]) -> GPUPolicyStatus:
    (write,) = (a for a in actions if isinstance(a, Apply))
    assert write.status
    assert write.manager is Manager.STATUS
    assert set(write.document["metadata"]) == {"name", "uid"}  # so that it never creates the object
    return GPUPolicyStatus.model_validate(write.document["status"])


def test_all_four_conditions_name_the_generation() -> None:
    status = written_status(report(GPUPolicyStatus(), READY))
    assert [c.type for c in status.conditions] == ["Accepted", "Ready", "Progressing", "Degraded"]
    assert {c.observed_generation for c in status.conditions} == {3}
    assert status.observed_generation == 3


def test_a_transition_time_is_kept_while_the_status_stays() -> None:
    first = written_status(report(GPUPolicyStatus(), WAITING))
    later = NOW + datetime.timedelta(hours=1)
    other_reason = verdicts(Verdict(False, Reason.AGENT_ERROR, "broken"))
    second = written_status(report(first, other_reason, later))
    third = written_status(report(second, READY, later))
    times = [
        next(c for c in s.conditions if c.type == "Ready").last_transition_time
        for s in (first, second, third)
    ]
    assert times == ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T04:04:05Z"]


def test_an_unchanged_report_is_not_repeated() -> None:
    first = written_status(report(GPUPolicyStatus(), READY))
    assert report(first, READY, NOW + datetime.timedelta(hours=1)) == ()


def test_only_changes_cause_events() -> None:
    events = [a for a in report(GPUPolicyStatus(), READY) if isinstance(a, Record)]
    assert [(e.reason, e.message, e.warning) for e in events] == [("Reconciled", "in force", False)]
    first = written_status(report(GPUPolicyStatus(), READY))
    bad = verdicts(
        Verdict(False, Reason.AGENT_ERROR, "broken"),
        degraded=Verdict(True, Reason.AGENT_ERROR, "broken"),
    )
    events = [a for a in report(first, bad) if isinstance(a, Record)]
    assert [(e.reason, e.warning) for e in events] == [("AgentError", True)]


def test_an_unreadable_spec_is_reported_and_its_last_status_kept() -> None:
    last = Status(observed_generation=2)
    broken = Broken(META, "spec.count: too large", last)
    (write, event) = conditions.report_broken(broken, NOW)
    assert isinstance(write, Apply)
    assert isinstance(event, Record)
    assert (event.reason, event.warning) == ("InvalidSpec", True)
