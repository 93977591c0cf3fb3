"""The lanes of events: what happened to a fault stays visible after its GPUFault is deleted."""

import random
import re

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


def test_the_page_of_a_sick_gpu_states_since_when_after_events_have_expired() -> None:
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    status = cluster.objects["GPU"]["n1-gpu-0"]["status"]
    status["health"] = "Unhealthy"
    status["conditions"].append(
        {
            "type": "Degraded",
            "status": "True",
            "reason": "Unhealthy",
            "message": "GPU-1 is Unhealthy: Xid 79",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    )
    text = fetch(cluster, "/gpus/n1-gpu-0").text
    assert re.search(r"degraded since [^<]*03:04:05[^<]*UTC: <bdi>GPU-1 is Unhealthy: Xid 79", text)
    assert re.search(r"<td[^>]*>Degraded</td>\s*<td[^>]*>True</td>\s*<td[^>]*>[^<]*03:04:05", text)
