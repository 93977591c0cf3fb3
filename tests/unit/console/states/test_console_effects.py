"""What a GPUFault did, whom it hit and when that ended, and the list of GPUFaults."""

import random
import re

import pytest
from unit.console.test_console_faults import GPU, fail
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

ALSO = "; so are slice 1g.10gb@0, slice 1g.10gb@1"
LOST = "is Unhealthy: Xid 79 (GPU has fallen off the bus)"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a node whose GPU had Xid 79 at 03:04:05 and is healthy again."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    fail(cluster, "drill", "Healthy", phase="Injected", xid=79)
    return cluster


def add_change(
    cluster: SyntheticCluster, number: int, time: str, kind: str, name: str, what: str
) -> None:
    event = synthetic.add_event(cluster, number)
    event["involvedObject"] |= {"kind": kind, "name": name}
    if kind == "Pod":
        event["metadata"]["namespace"] = event["involvedObject"]["namespace"] = "ml"
    event |= {"reason": "Unhealthy", "message": what, "type": "Warning", "count": 1}
    event["lastTimestamp"] = f"2026-01-02T{time}Z"


def test_a_fault_that_is_over_has_its_effect_its_pods_and_its_end(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"][GPU]
    other = node.objects["GPU"]["n1-gpu-1"]["spec"]["uuid"]
    one = gpu["status"]["slices"][0]
    place = f"slice {one['profile']}@{one['start']} ({one['uuid']})"
    whole = f"GPU {gpu['spec']['uuid']}"
    add_change(node, 1, "03:04:06", "GPU", GPU, f"{whole} {LOST}; before: Healthy{ALSO}")
    add_change(node, 2, "03:04:07", "Pod", "decoder", f"{place} {LOST}; before: Healthy")
    add_change(node, 3, "03:04:00", "Pod", "earlier", f"{place} {LOST}; before: Healthy")
    add_change(node, 4, "03:04:08", "Pod", "elsewhere", f"GPU {other} {LOST}; before: Healthy")
    degraded = {
        "type": "Degraded",
        "status": "False",
        "reason": "Healthy",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:45Z",
    }
    gpu["status"]["conditions"].append(degraded)
    text = fetch(node, "/faults/drill").text
    effect = text.partition("<h2>Effect</h2>")[2].partition("<h2>Manifest</h2>")[0]
    assert re.findall(r"03:04:\d\d", effect) == ["03:04:06", "03:04:07", "03:04:45"]
    pods = effect.partition('aria-label="Pods that were affected"')[2].partition("</ul>")[0]
    assert pods.count("<li>") == 1
    assert "decoder" in pods
    assert "The GPU is healthy since 2026-01-02 03:04:45 UTC" in effect
    assert "the first step after Xid 79: restart the node" in effect
    gpu["status"]["health"] = "Probation"
    assert "The GPU is healthy since" not in fetch(node, "/faults/drill").text


def test_a_fault_without_events_states_that_none_is_stored(node: SyntheticCluster) -> None:
    text = fetch(node, "/faults/drill").text
    assert "No event about the health of the GPU since the request is stored" in text
    assert "Pods that were affected" not in text


def test_the_list_has_every_fault_the_latest_first(node: SyntheticCluster) -> None:
    fail(node, "later", "Healthy", phase="Active", created="2026-01-03T00:00:00Z", offBus=True)
    text = fetch(node, "/faults").text
    assert re.findall(r'href="/faults/(\w+)"', text) == ["later", "drill"]
    assert text.count(f'href="/gpus/{GPU}"') == 2
    assert '<a href="/faults">Faults</a>' in fetch(node, "/faults/drill").text
    assert 'href="/faults"' in fetch(node, "/events").text
    node.objects["GPUFault"].clear()
    assert "No GPUFault exists" in fetch(node, "/faults").text
