"""The lanes of events: what happened to a fault stays visible after its GPUFault is deleted."""

from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster


def test_events_about_faults_are_in_the_lane_of_faults() -> None:
    cluster = SyntheticCluster()
    for number, (kind, reason) in enumerate(
        (("GPUFault", "Injected"), ("GPU", "Cleared"), ("GPU", "Reconciled"))
    ):
        event = synthetic.add_event(cluster, number + 1)
        event["involvedObject"] |= {"kind": kind, "name": "off"}
        event["reason"] = reason
    text = fetch(cluster, "/events", "lane=fault").text
    assert "Injected" in text
    assert "Cleared" in text
    assert "Reconciled" not in text
