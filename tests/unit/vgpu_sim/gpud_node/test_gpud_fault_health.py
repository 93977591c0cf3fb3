"""The health state machine, and the table of Xids that it uses."""

import pytest

from vgpu_sim.gpud.faults import classes
from vgpu_sim.gpud.faults.classes import IGNORED_XIDS, XID_OF_FAULT, XIDS, Severity
from vgpu_sim.gpud.faults.health import LONGEST_FACTOR, Health, State, Times, worst
from vgpu_sim.hal.compute.abi import FaultKind

TIMES = Times(suspect_s=60, unhealthy_s=10, probation_s=30)


def later(health: Health, now: float, stuck: bool = False) -> Health:
    return health.after_time(now, TIMES, stuck)


def test_a_critical_event_takes_out_of_service_and_time_brings_back() -> None:
    struck = Health().after_event(Severity.CRITICAL, "Xid 48", 100)
    assert (struck.state, struck.in_service, str(struck)) == (
        State.UNHEALTHY,
        False,
        "Unhealthy: Xid 48",
    )
    assert later(struck, 109.9) is struck
    trial = later(struck, 110)
    assert (trial.state, trial.in_service) == (State.PROBATION, False)
    assert later(trial, 139.9).state is State.PROBATION
    assert str(later(trial, 140)) == "Healthy"


def test_in_probation_the_gpu_no_longer_hangs() -> None:
    sick = Health().after_event(Severity.CRITICAL, "GPU-1 hangs (Xid 109)", 0)
    assert str(sick) == "Unhealthy: GPU-1 hangs (Xid 109)"
    assert str(later(sick, 1000)) == "Probation: GPU-1 hung (Xid 109)"


def test_what_cannot_be_reset_stays_unhealthy() -> None:
    struck = Health().after_event(Severity.CRITICAL, "off the bus", 0)
    assert later(struck, 1e6, stuck=True).state is State.UNHEALTHY


def test_a_suspicious_event_is_watched_and_the_second_one_counts() -> None:
    once = Health().after_event(Severity.SUSPICIOUS, "Xid 63", 0)
    assert once.state is State.SUSPECT
    assert once.in_service
    assert once.after_event(Severity.SUSPICIOUS, "Xid 63", 59).state is State.UNHEALTHY
    assert later(once, 60).state is State.HEALTHY


def test_a_relapse_doubles_the_probation_up_to_a_limit_and_good_conduct_forgets_it() -> None:
    health, now = Health(), 0.0
    for _ in range(6):
        health = health.after_event(Severity.CRITICAL, "Xid 48", now)
        now += TIMES.unhealthy_s
        health = later(health, now)
        assert health.state is State.PROBATION
    assert health.factor == LONGEST_FACTOR
    healthy = later(health, now + TIMES.probation_s * LONGEST_FACTOR)
    assert (healthy.state, healthy.factor) == (State.HEALTHY, LONGEST_FACTOR)
    assert later(healthy, healthy.since + TIMES.probation_s * LONGEST_FACTOR).factor == 1


def test_what_programs_cause_says_nothing_about_health() -> None:
    assert Health().after_event(Severity.NONE, "Xid 31", 5) == Health()


def test_an_instance_is_no_healthier_than_its_gpu() -> None:
    gpu = Health().after_event(Severity.CRITICAL, "Xid 79", 0)
    assert worst(gpu, Health()) == worst(Health(), gpu) == gpu


def test_no_end_of_a_context_takes_a_slice_out_of_service_by_default() -> None:
    """A tenant may control its worker, so it must be possible to ignore every end that it can
    report.
    """
    assert set(XID_OF_FAULT) == {kind.name for kind in FaultKind} - {
        "NONE",
        "COMPILE",
        "DEVICE",
    } | {""}
    assert set(XID_OF_FAULT.values()) <= IGNORED_XIDS <= set(XIDS)
    assert {XIDS[xid].severity for xid in IGNORED_XIDS} == {Severity.NONE}


@pytest.mark.parametrize(
    ("disabled", "enabled", "ignored"),
    [
        ("", "", IGNORED_XIDS),
        ("48, 63", "", IGNORED_XIDS | {48, 63}),
        ("", "31", IGNORED_XIDS - {31}),
        ("48", "48", IGNORED_XIDS),
        ("all", "", None),
        ("XIDS", "", None),
        ("all", "79", frozenset(XIDS) - {79}),
        ("48", "all", frozenset()),
    ],
)
def test_the_switches_of_nvidias_plugin(
    disabled: str, enabled: str, ignored: frozenset[int] | None
) -> None:
    assert classes.parse_ignored(disabled.split(","), enabled.split(",")) == ignored


@pytest.mark.parametrize("word", ["none", "-1", "1.5", "xid 79"])
def test_a_switch_that_is_neither_number_nor_word_is_an_error(word: str) -> None:
    with pytest.raises(ValueError, match=f"'{word}' is neither"):
        classes.parse_ignored([word], [])
