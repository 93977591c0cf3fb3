"""A part of Tessera that does not run is on every page, with what is out of date meanwhile."""

import random
import re
from typing import Any

import pytest
from unit.console.test_console_pages import fetch, run

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from support.rigs.console_rig import Console

OPERATOR = "tessera-system/tessera-operator-0"
PAGES = ("/", "/slices", "/pods", "/why", "/rollout", "/rdma", "/events", "/nodes/n1", "/topology")


@pytest.fixture
def node() -> SyntheticCluster:
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    return cluster


def crash(pod: dict[str, Any]) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    state = {"name": "c", "ready": False, "restartCount": 4, "state": waiting}
    since = "2026-01-02T03:04:05Z"
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    pod["status"] = {"phase": "Running", "conditions": [ready], "containerStatuses": [state]}


@pytest.mark.parametrize("page", PAGES)
def test_every_page_states_that_the_operator_crashes(node: SyntheticCluster, page: str) -> None:
    assert "does not run" not in fetch(node, page).text
    crash(node.objects["Pod"][OPERATOR])
    text = fetch(node, page).text
    assert text.count("The operator (namespace tessera-system) does not run</bdi></b> since") == 1
    assert "2026-01-02 03:04:05 UTC" in text
    assert "pod tessera-operator-0: CrashLoopBackOff, restarted 4 times" in text
    assert "none is rolled back at its deadline" in text
    assert 'data-outages="The operator' in text


@pytest.mark.parametrize("page", ["/performance", "/layout", "/rdma/what-if", "/parts/state"])
def test_pages_that_are_not_loaded_again_can_replace_their_notes(
    node: SyntheticCluster, page: str
) -> None:
    crash(node.objects["Pod"][OPERATOR])
    text = fetch(node, page).text
    state = text.partition('<div id="state">')[2].partition("</div>")[0]
    assert state.count("does not run</bdi></b> since") == 1
    assert 'data-live=""' in text
    assert re.search(r'data-version="\d+"', text)


def test_a_second_pod_that_is_ready_is_enough(node: SyntheticCluster) -> None:
    second = synthetic.add_operator(SyntheticCluster())
    second["metadata"]["name"] = "tessera-operator-1"
    node.put("Pod", second)
    crash(node.objects["Pod"][OPERATOR])
    assert "does not run" not in fetch(node, "/").text


def test_pods_of_another_namespace_do_not_hide_an_outage(node: SyntheticCluster) -> None:
    fake = synthetic.add_operator(SyntheticCluster())
    fake["metadata"] |= {"namespace": "ml"}
    node.put("Pod", fake)
    crash(node.objects["Pod"][OPERATOR])
    assert "The operator (namespace tessera-system) does not run" in fetch(node, "/").text


def test_an_operator_whose_last_pod_is_deleted_does_not_run(node: SyntheticCluster) -> None:
    async def use(console: Console) -> tuple[str, str]:
        before = (await console.request("/")).text
        node.remove("Pod", OPERATOR)
        await console.settle()
        return before, (await console.request("/")).text

    before, after = run(node, use)
    assert "does not run" not in before
    stated = re.search(
        r"\(namespace tessera-system\) does not run</bdi></b> since ([^<]*): <", after
    )
    assert stated
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", stated[1])
    assert "it has no pod" in after


def test_an_operator_without_any_pod_does_not_run(node: SyntheticCluster) -> None:
    del node.objects["Pod"][OPERATOR]
    assert "no pod of it exists" in fetch(node, "/").text


@pytest.mark.parametrize(
    ("component", "name"), [("node", "The node agent"), ("gpud", "gpud"), ("hca", "hcad")]
)
def test_a_part_of_a_node_that_crashes_is_named(
    node: SyntheticCluster, component: str, name: str
) -> None:
    pod = synthetic.add_operator(SyntheticCluster())
    labels = {"app.kubernetes.io/component": component, "gpu.tessera.dev/pool": "h100"}
    pod["metadata"] |= {"name": "part", "labels": labels}
    pod["spec"]["nodeName"] = "n1"
    node.put("Pod", pod)
    assert "does not run" not in fetch(node, "/").text
    crash(pod)
    text = fetch(node, "/").text
    assert f"{name} of node n1 does not run" in text
    assert "n1: CrashLoopBackOff, restarted 4 times" in text
    pod["status"]["containerStatuses"][0] |= {"restartCount": 0, "state": {}}
    assert "does not run" not in fetch(node, "/").text  # it only starts


def test_parts_are_no_pods_with_devices(node: SyntheticCluster) -> None:
    assert "tessera-operator-0" not in fetch(node, "/pods").text
