"""Which layout to edit and which pods to end for a pod that waits, where layouts select GPUs of
several nodes, and what a layout diff states about the same cluster.
"""

import html
import random
import re
from typing import Any

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

PREFIX = "gpu.tessera.dev/mig-"
SEVEN = ("1g.10gb",) * 7
MIXED = ("3g.40gb", "2g.20gb", "2g.20gb")


def hold(cluster: SyntheticCluster, gpu: str, **holders: int) -> None:
    """Let pods of the namespace ``ml`` hold slices of a GPU, by position, and no other pods."""
    slices = cluster.objects["GPU"][gpu]["status"]["slices"]
    for place, one in enumerate(slices):
        one["holders"] = [
            {"namespace": "ml", "name": name, "uid": name}
            for name, held in holders.items()
            if held == place
        ]


def put_layout(
    cluster: SyntheticCluster, name: str, index: int, *instances: tuple[str, int], **spec: Any
) -> dict[str, Any]:
    document = {
        "metadata": {"name": name, "uid": name, "generation": 1},
        "spec": {
            "selector": {"pool": "h100", "indices": [index]},
            "instances": [{"profile": profile, "count": count} for profile, count in instances],
            **spec,
        },
        "status": {"observedGeneration": 1, "gpusSelected": 2, "gpusApplied": 2},
    }
    cluster.put("MIGLayout", document)
    return document


def add_gpu(cluster: SyntheticCluster, node: str, index: int, mix: tuple[str, ...]) -> None:
    gpu = synthetic.gpu_document(node, index, "h100-80gb", mix, random.Random(1), alike=True)
    gpu["spec"]["layout"] = "mixed" if index else "seven"
    cluster.put("GPU", gpu)


@pytest.fixture
def pair() -> SyntheticCluster:
    """Return two nodes with a GPU of the layout ``seven`` and one of ``mixed`` each.

    On the first node ``mixed`` has not divided its GPU, which a pod holds.
    """
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    for name in ("n1", "n2"):
        synthetic.add_node(cluster, name, "h100-80gb", random.Random(1), alike=True, gpus=0)
        add_gpu(cluster, name, 0, SEVEN)
        add_gpu(cluster, name, 1, MIXED if name == "n2" else ("whole",))
        counts = {f"{PREFIX}1g.10gb": "7", f"{PREFIX}3g.40gb": "1", f"{PREFIX}2g.20gb": "2"}
        cluster.objects["Node"][name]["status"]["allocatable"] = counts
    whole = {"gpu.tessera.dev/gpu": "1", f"{PREFIX}1g.10gb": "7"}
    cluster.objects["Node"]["n1"]["status"]["allocatable"] = whole
    hold(cluster, "n1-gpu-0", a=0, b=1, c=2, d=3, e=4)
    hold(cluster, "n1-gpu-1", big=0)
    hold(cluster, "n2-gpu-0", decoder=6)
    there = cluster.objects["GPU"]["n2-gpu-1"]["status"]["slices"]
    hold(cluster, "n2-gpu-1", tune=[one["profile"] for one in there].index("3g.40gb"))
    put_layout(cluster, "seven", 0, ("1g.10gb", 7))
    put_layout(cluster, "mixed", 1, ("3g.40gb", 1), ("2g.20gb", 2))
    return cluster


def why(cluster: SyntheticCluster, profile: str, number: int) -> str:
    """Return the text of the page about a pod that requests slices."""
    synthetic.add_pending_pod(cluster, "ml", "q", {PREFIX + profile: str(number)})
    text = re.sub(r"<[^>]+>", "", fetch(cluster, "/why/ml/q").text)
    return " ".join(html.unescape(text).split())


def test_an_edit_names_the_pods_on_all_gpus_of_its_layout(pair: SyntheticCluster) -> None:
    text = why(pair, "3g.40gb", 1)
    assert "so no pod has to move on GPU n2-gpu-1." in text
    assert (
        "Layout mixed also decides on 1 other GPU with slices that pods hold: n1-gpu-1 (ml/big). An"
        " edit changes this GPU, too, and waits for the pods whose slices it does not keep."
    ) in text
    put_layout(pair, "mixed", 1, ("3g.40gb", 1), rollout={"onInUse": "Evict"})
    assert "and evicts the pods whose slices it does not keep" in why(pair, "3g.40gb", 1)
    hold(pair, "n1-gpu-1")
    text = why(pair, "3g.40gb", 1)
    assert "so no pod has to move. A GPU follows" in text
    assert "also decides on" not in text


def test_each_gpu_has_its_own_layout_and_a_request_is_raised(pair: SyntheticCluster) -> None:
    text = why(pair, "3g.40gb", 1)
    assert "(n2-gpu-0 follows layout seven, n2-gpu-1 follows layout mixed)" in text
    assert (
        "Edit layout mixed so that it requests 2 × 3g.40gb on each of its GPUs instead of 1."
        in (text)
    )


def test_a_layout_whose_gpus_gain_nothing_is_not_the_one_to_edit(pair: SyntheticCluster) -> None:
    for name in ("n1-gpu-1", "n1-gpu-0"):
        hold(pair, name)
    pair.objects["MIGLayout"]["amply"] = pair.objects["MIGLayout"].pop("seven")
    pair.objects["MIGLayout"]["amply"]["metadata"]["name"] = "amply"
    for name in ("n1-gpu-0", "n2-gpu-0"):
        pair.objects["GPU"][name]["spec"]["layout"] = "amply"
    hold(pair, "n1-gpu-0", a=0, b=1, c=2, d=3, e=4)
    text = why(pair, "1g.10gb", 7)
    assert "Edit layout mixed so that it requests 1 × 1g.10gb on each of its GPUs." in text


def test_a_gpu_to_divide_names_the_pods_on_the_other_gpus_of_its_layout(
    pair: SyntheticCluster,
) -> None:
    hold(pair, "n1-gpu-1")
    text = why(pair, "7g.80gb", 1)
    assert "No pod holds the whole GPU n1-gpu-1" in text
    assert "No pod on n1-gpu-1 has to move. Layout mixed also decides on 1 other GPU" in text
    assert "n2-gpu-1 (ml/tune)" in text


def test_the_node_where_the_fewest_pods_have_to_end_is_first(pair: SyntheticCluster) -> None:
    text = why(pair, "1g.10gb", 7)
    first = "On node n2 enough is free when one pod of these ends: ml/decoder (1g.10gb@6)."
    second = "On node n1 enough is free when pods with 5 devices of these end: ml/a (1g.10gb@0), "
    assert 0 < text.index(first) < text.index(second)
    text = why(pair, "1g.10gb", 8)
    assert "enough is free" not in text
    assert "No node has enough by this alone: 8 requested." in text


def test_nodes_without_devices_are_named(pair: SyntheticCluster) -> None:
    assert "The scheduler also counts" not in why(pair, "1g.10gb", 7)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    node = {"metadata": {"name": "head"}, "spec": {"taints": [taint]}, "status": {}}
    pair.put("Node", node)
    assert (
        "The scheduler also counts 1 node without GPUs and HCAs: head (tainted"
        " node-role.kubernetes.io/control-plane:NoSchedule)."
    ) in why(pair, "1g.10gb", 7)
