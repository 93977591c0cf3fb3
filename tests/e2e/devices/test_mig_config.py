"""Nodes with the label mig.config: the state label follows the MIG manager's, and other labels
stay.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, until

LABEL = "gpu.tessera.dev/mig.config"
STATE = f"{LABEL}.state"
NAMESPACE = "tessera-system"
SOURCE = "tessera-default-mig-parted-config"
# A layout of the demo selects the first GPU of each node.
SECOND = {"devices": [1], "mig-enabled": True}
CONFIGS = {
    "second-2g": [{**SECOND, "mig-devices": {"2g.20gb": 3}}],
    "second-3g": [{**SECOND, "mig-devices": {"3g.40gb": 2}}],
}


@pytest.fixture(scope="module")
def custom_config(whole_cluster: Cluster) -> Iterator[Cluster]:
    """The chart's ConfigMap with two configurations of the tests instead of its own."""
    system = Cluster(NAMESPACE)
    before = system.get("configmap", SOURCE)["data"]
    ours = json.dumps({"version": "v1", "mig-configs": CONFIGS})
    whole_cluster.delete("miglayout", "mixed")
    set_data(system, {"config.yaml": ours})
    yield whole_cluster
    set_data(system, before)


def set_data(system: Cluster, data: dict[str, str]) -> None:
    system.kubectl("patch", "configmap", SOURCE, "--type=merge", "-p", json.dumps({"data": data}))


@pytest.fixture
def node(custom_config: Cluster) -> Iterator[str]:
    """A node of the pool; its label, state and layouts are removed afterwards."""
    found = custom_config.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    name = str(found[0]["metadata"]["name"])
    yield name
    custom_config.kubectl("label", "node", name, f"{LABEL}-")
    until(lambda: STATE not in labels(custom_config, name), 60)
    until(
        lambda: (
            not custom_config.get("miglayouts", "-l", f"gpu.tessera.dev/mig-config-node={name}")[
                "items"
            ]
        ),
        60,
    )
    until(lambda: second(custom_config, name) == ["whole"], 60)


def labels(cluster: Cluster, node: str) -> dict[str, str]:
    found: dict[str, str] = cluster.get("node", node)["metadata"]["labels"]
    return found


def second(cluster: Cluster, node: str) -> list[str]:
    slices = cluster.get("gpu", f"{node}-gpu-1").get("status", {}).get("slices", [])
    return sorted(s["profile"] for s in slices)


def set_label(cluster: Cluster, node: str, name: str) -> None:
    cluster.kubectl("label", "node", node, f"{LABEL}={name}", "--overwrite")


def wait_for_state(cluster: Cluster, node: str, name: str, wanted: str) -> list[dict[str, str]]:
    """Wait for this state of this configuration; return the labels observed at each poll."""
    seen: list[dict[str, str]] = []

    def there() -> bool:
        document: Any = cluster.get("node", node)["metadata"]
        seen.append(document["labels"])
        note = document.get("annotations", {}).get("gpu.tessera.dev/mig-config", "")
        return bool(note.startswith(f"{name}: {wanted}")) and seen[-1].get(STATE) == wanted

    until(there, 60, every_s=0.1)
    return seen


def test_a_label_becomes_slices_and_no_label_is_missing_meanwhile(
    custom_config: Cluster, node: str
) -> None:
    set_label(custom_config, node, "second-2g")
    wait_for_state(custom_config, node, "second-2g", "success")
    assert second(custom_config, node) == ["2g.20gb"] * 3
    before = labels(custom_config, node)
    assert before["gpu.tessera.dev/mig-2g.20gb.count"] == "3"

    set_label(custom_config, node, "second-3g")
    seen = wait_for_state(custom_config, node, "second-3g", "success")
    assert second(custom_config, node) == ["3g.40gb"] * 2
    lasting = {k for k in before if "/mig-2g" not in k}
    assert all(lasting <= found.keys() for found in seen)
    by_profile = [{k for k in found if "/mig-2g" in k or "/mig-3g" in k} for found in seen]
    assert all(by_profile), "between the two configurations no profile had labels"
    custom_config.wait_for_event(node, "MIGConfigApplied", "second-3g")


def test_a_name_that_is_missing_fails_and_an_event_says_what_there_is(
    custom_config: Cluster, node: str
) -> None:
    set_label(custom_config, node, "second-4g")
    wait_for_state(custom_config, node, "second-4g", "failed")
    expected = "no configuration 'second-4g'; it has second-"
    custom_config.wait_for_event(node, "MIGConfigFailed", expected)
    assert second(custom_config, node) == ["whole"]


def test_a_node_says_that_its_gpus_are_served(custom_config: Cluster, node: str) -> None:
    found = custom_config.get("node", node)["status"]["conditions"]
    (gpus,) = (c for c in found if c["type"] == "GPUReady")
    assert (gpus["status"], gpus["message"]) == ("True", "2 GPUs of pool demo are served")


@pytest.mark.parametrize("limit", [3, "25%", "100%", 0, "0%", "101%", "all"])
def test_the_api_server_rejects_invalid_limits(custom_config: Cluster, limit: int | str) -> None:
    layout = {
        "apiVersion": "gpu.tessera.dev/v1alpha1",
        "kind": "MIGLayout",
        "metadata": {"name": "e2e-limit"},
        "spec": {"instances": [], "rollout": {"maxUnavailable": limit}},
    }
    command = ("apply", "--dry-run=server", "-f", "-")
    if limit in (3, "25%", "100%"):
        custom_config.kubectl(*command, stdin=json.dumps(layout))
    else:
        with pytest.raises(AssertionError, match="a percentage from 1% to 100%"):
            custom_config.kubectl(*command, stdin=json.dumps(layout))


def test_the_api_server_rejects_invalid_expressions(custom_config: Cluster) -> None:
    def apply(**expression: Any) -> None:
        selector = {"nodeLabelSelector": {"matchExpressions": [{"key": "a", **expression}]}}
        layout = {
            "apiVersion": "gpu.tessera.dev/v1alpha1",
            "kind": "MIGLayout",
            "metadata": {"name": "e2e-selector"},
            "spec": {"instances": [], "selector": selector},
        }
        custom_config.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(layout))

    apply(operator="In", values=["x"])
    apply(operator="Exists")
    with pytest.raises(AssertionError, match="In and NotIn require values"):
        apply(operator="In")
    with pytest.raises(AssertionError, match="accept none"):
        apply(operator="Exists", values=["x"])
