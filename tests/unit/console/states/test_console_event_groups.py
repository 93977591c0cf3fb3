"""Events that one fault makes, and repeated verdicts of the scheduler, are one line each."""

import html
import random
import re
from collections.abc import Sequence

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.views import details, timeline
from gpu_operator.api.v1alpha1.gpu import ClaimedSlice, Slice
from gpu_operator.api.v1alpha1.resource import Gpu

GPU = "n1-gpu-0"
CAUSE = "is Unhealthy: Xid 48 (Double Bit ECC Error)"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a node whose GPU has failed: an event on the GPU for each device, and on each pod."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    gpu = cluster.objects["GPU"][GPU]
    about = [("GPU", GPU, f"GPU {gpu['spec']['uuid']}")]
    for one in gpu["status"]["slices"]:
        what = f"slice {one['profile']}@{one['start']} ({one['uuid']})"
        about.append(("GPU", GPU, what))
        about += [("Pod", holder["name"], what) for holder in one["holders"]]
    for number, (kind, name, what) in enumerate(about):
        _add(cluster, number, kind, name, "Unhealthy", f"{what} {CAUSE}; before: Healthy")
    return cluster


def _add(
    cluster: SyntheticCluster, number: int, kind: str, name: str, reason: str, message: str
) -> None:
    event = synthetic.add_event(cluster, number)
    event["involvedObject"] |= {"kind": kind, "name": name}
    event |= {"reason": reason, "message": message, "type": "Warning", "count": 1}
    event["lastTimestamp"] = f"2026-01-01T10:00:{number % 60:02}Z"


def _rows(text: str) -> list[str]:
    return text.partition("<tbody>")[2].partition("</tbody>")[0].split("<tr ")[1:]


def test_the_events_of_one_fault_are_a_line_with_a_link_to_all(node: SyntheticCluster) -> None:
    (row,) = _rows(fetch(node, "/events").text)
    link = re.search(r'href="/events\?([^"]*)">and 13 more, on 7 objects</a>', row)
    assert link is not None
    every = _rows(fetch(node, "/events", html.unescape(link[1])).text)
    assert len(every) == 14
    assert not any("more, on" in one for one in every)


def test_faults_of_two_gpus_are_two_lines(node: SyntheticCluster) -> None:
    other = node.objects["GPU"]["n1-gpu-1"]["spec"]["uuid"]
    message = f"GPU {other} {CAUSE}; before: Healthy"
    _add(node, 20, "GPU", "n1-gpu-1", "Unhealthy", message)
    assert len(_rows(fetch(node, "/events").text)) == 2


def test_repeated_verdicts_of_the_scheduler_are_one_line_for_each_pod() -> None:
    cluster = SyntheticCluster()
    for number, name in enumerate(("a", "a", "b", "a")):
        message = f"0/3 nodes: {number} Insufficient gpu.tessera.dev/mig-1g.10gb"
        _add(cluster, number, "Pod", name, "FailedScheduling", message)
    rows = _rows(fetch(cluster, "/events").text)
    assert len(rows) == 2
    assert "3 Insufficient" in rows[0]
    assert ">and 2 more</a>" in rows[0]


def test_the_list_of_pods_marks_slices_of_a_sick_gpu(node: SyntheticCluster) -> None:
    tag = '<span class="tag fault">Unhealthy</span>'
    assert tag not in fetch(node, "/pods").text
    status = node.objects["GPU"][GPU]["status"]
    status["health"] = "Unhealthy"
    assert fetch(node, "/pods").text.count(tag) == 6
    for one in status["slices"]:
        one["health"] = "Unhealthy"
    text = fetch(node, "/pods").text
    assert text.count(tag) == 6


def test_slices_of_gpus_that_no_event_names_are_not_listed(
    node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 6):
        name = f"n{number}"
        synthetic.add_node(node, name, "h100-80gb", random.Random(1), alike=True, gpus=1)
    listed: list[str] = []

    def list_slices(gpu: Gpu) -> Sequence[Slice | ClaimedSlice]:
        listed.append(gpu.name)
        return details.entries_of(gpu)

    monkeypatch.setattr(timeline, "entries_of", list_slices)
    assert len(_rows(fetch(node, "/events").text)) == 1
    assert listed == [GPU]
    for event in [one for one in node.objects["Event"].values() if one["reason"] == "Unhealthy"]:
        event["reason"] = "Reconciled"
    listed.clear()
    fetch(node, "/events")
    assert not listed


def test_events_about_pods_alone_are_grouped_by_their_gpu(node: SyntheticCluster) -> None:
    for key, event in [*node.objects["Event"].items()]:
        if event["involvedObject"]["kind"] == "GPU":
            node.remove("Event", key)
    (row,) = _rows(fetch(node, "/events").text)
    assert "and 5 more, on 6 objects" in row
