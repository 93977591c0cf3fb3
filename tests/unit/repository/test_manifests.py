"""Manifests of GPU workloads, as people have them, fit nodes that have our resources and labels.

Each folder of ``tests/support/recorded/manifests`` is for one kind of node; its labels and resources are what
operator and node agent make of that node, not written down here.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Sharing, resolve_sharing
from gpu_operator.render import features
from mig import geometry
from support.oracles.schedulable import Node, device_names, pod_specs, problems

CORPUS = Path(__file__).parents[2] / "support" / "recorded" / "manifests"
MANIFESTS = sorted(CORPUS.glob("*/*.yaml"))
BOARD = geometry.board("h100-80gb")
SOFTWARE = features.Software("580.0.1", "13.0", "machine")
SEVEN = features.Device(BOARD.key, True, ("1g.10gb",) * 7)
WHOLE = features.Device(BOARD.key, False, ("whole",))


def node_of(strategy: Strategy, *devices: features.Device, sharing: Sharing | None = None) -> Node:
    """Return a node with these GPUs as operator and agents make the scheduler see it."""
    shared = {one.name: one for one in resolve_sharing(sharing, 0, "")}
    extra_labels = {
        name: features.Sharing(one.replicas, one.kind.value, one.offered_as != name)
        for name, one in shared.items()
    }
    found = features.labels(devices, strategy.value, SOFTWARE, extra_labels)
    counts: Counter[str] = Counter()
    for device in devices:
        for profile in device.profiles:
            name = strategy.resource_of(BOARD.profile(profile))
            one = shared.get(name)
            offered, count = (name, 1) if one is None else (one.offered_as, one.replicas)
            counts[f"nvidia.com/{offered}"] += count
    labels = {f"nvidia.com/{name}": value for name, value in found.items()}
    return Node(labels, counts)


def time_slicing(**config: Any) -> Sharing:
    """Return what a time-slicing section of NVIDIA's device plugin's configuration says."""
    resources = [{"name": "nvidia.com/gpu", "replicas": 4}]
    return Sharing.model_validate({"timeSlicing": {"resources": resources, **config}})


NODES = {
    "mixed": node_of(Strategy.MIXED, SEVEN, WHOLE),  # as `make demo` has them
    "whole": node_of(Strategy.NONE, *[WHOLE] * 8),
    "single": node_of(Strategy.SINGLE, SEVEN),
    "shared": node_of(Strategy.MIXED, WHOLE, sharing=time_slicing()),
    "renamed": node_of(Strategy.MIXED, WHOLE, sharing=time_slicing(renameByDefault=True)),
}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_there_are_as_many_as_were_promised() -> None:
    assert len(MANIFESTS) >= 30
    assert {path.parent.name for path in MANIFESTS} == NODES.keys()
    kinds = {document["kind"] for path in MANIFESTS for document in documents(path)}
    assert {"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet"} <= kinds


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_pod_of_a_manifest_fits_the_node(path: Path) -> None:
    node = NODES[path.parent.name]
    specs = list(pod_specs(documents(path)))
    assert specs
    for spec in specs:
        assert problems(spec, node) == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_device_that_is_named_is_one_of_ours(path: Path) -> None:
    """In quotas and flavors, too, which the scheduler does not look at."""
    names = set(device_names(documents(path)))
    assert names
    assert names <= NODES[path.parent.name].allocatable.keys()


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_label_in_a_manifest_is_one_of_tesseras(path: Path) -> None:
    selected = set(
        re.findall(r"nvidia\.com/([a-z0-9.-]+\.[a-z.-]*[a-z])\b", path.read_text("utf-8"))
    )
    devices = {name.removeprefix("nvidia.com/") for name in device_names(documents(path))}
    assert all(features.is_ours(name) for name in selected - devices), selected


def test_the_checker_sees_what_does_not_fit() -> None:
    """On the mixed node; each reason by itself."""
    pod: dict[str, Any] = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    node = NODES["mixed"]
    assert problems(pod, node) == []
    two = {"containers": pod["containers"] * 2}
    assert problems(two, node) == ["Insufficient nvidia.com/gpu: 2 of 1"]
    other = {"containers": [{"resources": {"limits": {"nvidia.com/mig-2g.20gb": 1}}}]}
    assert problems(other, node) == ["Insufficient nvidia.com/mig-2g.20gb: 1 of 0"]
    (label,) = problems(pod | {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}, node)
    assert "the node has NVIDIA-H100-80GB-HBM3" in label
    (runtime,) = problems(pod | {"runtimeClassName": "kata"}, node)
    assert runtime == "RuntimeClass kata not found"
    tainted = Node(node.labels, node.allocatable, (("nvidia.com/gpu", "present", "NoSchedule"),))
    assert len(problems(pod, tainted)) == 1
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert problems(pod | {"tolerations": tolerations}, tainted) == []
    expression = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["100000"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert len(problems(pod | {"affinity": affinity}, node)) == 1
