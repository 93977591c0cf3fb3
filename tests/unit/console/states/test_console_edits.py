"""Which layout to edit and which pods to end for a pod that waits, where layouts select GPUs of
several nodes, and what a layout diff states about the same cluster.
"""

import html
import random
import re
from typing import Any

import pytest
from unit.console.test_console_pages import fetch, post
from unit.console.test_console_rollout import world_of

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.kubectl import layout_text
from console.views import layout_diff
from console.views.manifest import read_layout
from gpu_operator.api.v1alpha1 import ROLLED_BACK, ROLLED_BACK_WHY

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


def manifest(index: int, *instances: str, name: str = "seven", extra: str = "") -> str:
    lines = "".join(f"\n  - {{profile: {one}}}" for one in instances)
    return (
        "apiVersion: gpu.tessera.dev/v1alpha1\nkind: MIGLayout\n"
        f"metadata: {{name: {name}}}\nspec:\n{extra}"
        f"  selector: {{pool: h100, indices: [{index}]}}\n  instances:{lines}\n"
    )


def diff(cluster: SyntheticCluster, text: str) -> layout_diff.LayoutDiff:
    return layout_diff.diff(world_of(cluster), read_layout(text))


def test_released_gpus_become_whole_and_wait_for_their_pods(pair: SyntheticCluster) -> None:
    hold(pair, "n1-gpu-1")
    hold(pair, "n2-gpu-1")
    pair.objects["MIGLayout"].pop("mixed")
    for name in ("n1-gpu-1", "n2-gpu-1"):
        pair.objects["GPU"][name]["spec"]["layout"] = None
    text = manifest(1, *SEVEN)
    found = diff(pair, text)
    assert found.released == ("n1-gpu-0", "n2-gpu-0")
    # Fourteen slices become two whole GPUs; on the GPUs that it selects four become fourteen.
    assert (found.selected, found.created, found.destroyed) == (2, 16, 18)
    assert (found.pods, found.at_a_time) == ((), 1)
    assert found.released_pods == ("ml/a", "ml/b", "ml/c", "ml/d", "ml/decoder", "ml/e")
    page = html.unescape(post(pair, text).text)
    assert "<dt>pods on GPUs that it releases</dt><dd>6</dd>" in page
    assert "no deadline applies, and no pod is evicted" in page
    assert page.count("becomes whole</p>") == 2


def test_a_released_gpu_that_another_layout_selects_follows_that_one(
    pair: SyntheticCluster,
) -> None:
    late = put_layout(pair, "later", 0, ("7g.80gb", 1))
    late["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    found = diff(pair, manifest(5, *SEVEN))
    left = [one for one in found.groups if one.first.is_released]
    assert {one.first.follows for one in left} == {"later"}
    assert {one.first.create for one in left} == {("7g.80gb@0",)}
    assert "then follows layout" in post(pair, manifest(5, *SEVEN)).text


def _roll_back(cluster: SyntheticCluster) -> None:
    gpu = cluster.objects["GPU"]["n1-gpu-1"]
    gpu["metadata"]["annotations"] = {
        ROLLED_BACK: "mixed/1",
        ROLLED_BACK_WHY: "not done in 600 s: whole@0 is held by pod ml/big",
    }


def test_an_unchanged_layout_that_was_rolled_back_changes_nothing(
    pair: SyntheticCluster,
) -> None:
    _roll_back(pair)
    pair.objects["GPU"]["n2-gpu-1"]["spec"]["layout"] = None  # has not begun
    hold(pair, "n2-gpu-1")
    same = manifest(1, "3g.40gb", "2g.20gb", "2g.20gb", name="mixed").replace(
        "- {profile: 2g.20gb}\n  - {profile: 2g.20gb}", "- {profile: 2g.20gb, count: 2}"
    )
    found = diff(pair, same)
    assert (found.created, found.destroyed, found.not_applied, found.pods) == (0, 0, 2, ())
    assert [one.first.problem for one in found.groups] == [
        "rolled back: not done in 600 s: whole@0 is held by pod ml/big",
        "the rollout has stopped: another GPU was rolled back",
    ]
    page = html.unescape(post(pair, same).text)
    assert "<dt>not applied</dt><dd>2</dd>" in page
    longer = '{"spec":{"rollout":{"deadlineSeconds":1200}}}'
    assert f"kubectl patch miglayout mixed --type=merge -p '{longer}'" in page
    again = diff(pair, same.replace("spec:\n", "spec:\n  rollout: {deadlineSeconds: 1200}\n"))
    assert (again.retry, again.not_applied, again.pods) == ("", 0, ("ml/big",))


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ("  onInUse: Wait\n", "spec.onInUse: unknown field (is spec.rollout.onInUse meant?)"),
        ("  rolout: {}\n", "spec.rolout: unknown field (is spec.rollout meant?)"),
        ("  xyz: {}\n", "spec.xyz: unknown field</bdi>"),
    ],
)
def test_an_unknown_field_is_named_with_the_one_that_is_meant(
    pair: SyntheticCluster, extra: str, problem: str
) -> None:
    assert problem in post(pair, manifest(1, "1g.10gb", extra=extra)).text


def test_the_field_that_decides_about_pods_is_named_by_its_path(pair: SyntheticCluster) -> None:
    text = manifest(0, "7g.80gb")
    assert "<code>spec.rollout.onInUse: Wait</code>" in post(pair, text).text


def test_the_plugin_prints_the_same(
    pair: SyntheticCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    _roll_back(pair)
    same = manifest(1, "3g.40gb", "{2g.20gb, count: 2}", name="mixed")
    same = same.replace("{profile: {2g.20gb, count: 2}}", "{profile: 2g.20gb, count: 2}")
    layout_text.write_diff(diff(pair, same), None, "")
    text = capsys.readouterr().out
    assert "2 GPUs selected, 1 unchanged, 1 not applied" in text
    assert "kubectl patch miglayout mixed --type=merge" in text
    layout_text.write_diff(diff(pair, manifest(5, *SEVEN)), None, "")
    text = capsys.readouterr().out
    assert text.count("; released, becomes whole") == 2
    assert "6 pods there with slices to remove: ml/a, ml/b" in text
