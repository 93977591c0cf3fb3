"""The order of the stages of a pass of the agent: each pair guarantees something to pods."""

import pytest

from device_plugin.agent.loop import STAGES

ORDER = {
    "a slice is free only if the kubelet's list of pods says so": ("_list_pods", "_plan"),
    "GPU objects say what is wanted": ("_read_objects", "_configure_gpus"),
    "instances are planned on GPUs that exist": ("_configure_gpus", "_plan"),
    "gpud knows of a share before a pod can be given it": ("_set_shares", "_offer"),
    "a slice leaves the kubelet's list before it is destroyed": ("_offer", "_change_instances"),
    "a claim is offered what is left by then": ("_change_instances", "_offer_claims"),
    "a fault hits instances that exist": ("_change_instances", "_inject_faults"),
    "devices are forgotten once they are gone": ("_change_instances", "_forget_devices"),
    "libraries stay for pods with devices that exist": ("_forget_devices", "_remove_libraries"),
    "the pods that are left are known to events": ("_remove_libraries", "_send_events"),
    "a status has what became of faults": ("_inject_faults", "_report"),
    "a status has the claims' problems": ("_offer_claims", "_report"),
    "a status that cannot be written holds up nothing": ("_send_events", "_report"),
}


@pytest.mark.parametrize("reason", ORDER)
def test_a_stage_comes_before_another(reason: str) -> None:
    """The reason no longer holds if the two stages are exchanged."""
    names = [stage.__name__ for stage in STAGES]
    earlier, later = ORDER[reason]
    assert names.index(earlier) < names.index(later)


def test_the_last_stage_is_the_report_and_each_runs_once() -> None:
    """A pass is reported at its end."""
    names = [stage.__name__ for stage in STAGES]
    assert len(set(names)) == len(names)
    assert names[-1] == "_report"
