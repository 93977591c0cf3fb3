"""The examples are valid: their specs match the resources' models, their slices fit the board."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutSpec

EXAMPLES = Path(__file__).parents[3] / "examples"
MODELS = {"GPUPool": GPUPoolSpec, "MIGLayout": MIGLayoutSpec}


def manifests() -> dict[str, dict[str, Any]]:
    return {path.name: yaml.safe_load(path.read_text()) for path in sorted(EXAMPLES.glob("*.yaml"))}


OURS = {n: m for n, m in manifests().items() if m["apiVersion"] == "gpu.tessera.dev/v1alpha1"}


@pytest.mark.parametrize("name", OURS)
def test_spec_passes_the_model(name: str) -> None:
    MODELS[OURS[name]["kind"]].model_validate(OURS[name]["spec"])


def test_the_compute_instance_layout_replaces_the_mixed_one() -> None:
    text = (EXAMPLES / "compute-instances" / "layout.yaml").read_text()
    layout = MIGLayoutSpec.model_validate(yaml.safe_load(text)["spec"])
    mixed = MIGLayoutSpec.model_validate(OURS["layout-h100-mixed.yaml"]["spec"])
    assert layout.selector == mixed.selector


def test_layouts_do_not_claim_the_same_gpu() -> None:
    pool = OURS["pool.yaml"]
    indices = []
    for manifest in OURS.values():
        if manifest["kind"] == "MIGLayout":
            assert manifest["spec"]["selector"]["pool"] == pool["metadata"]["name"]
            indices += manifest["spec"]["selector"]["indices"]
    assert sorted(indices) == list(range(pool["spec"]["count"]))


def test_pool_selects_the_nodes_that_the_bring_up_labels() -> None:
    cluster = yaml.safe_load((EXAMPLES.parent / "deploy/kind/cluster.yaml").read_text())
    labels = [node.get("labels") for node in cluster["nodes"]]
    assert labels == [None, *[OURS["pool.yaml"]["spec"]["nodeSelector"]] * 2]


@pytest.mark.parametrize("name", ["pod-vectoradd.yaml", "deployment-tenants.yaml"])
def test_pods_request_one_slice_and_set_no_variable(name: str) -> None:
    manifest = manifests()[name]
    template = manifest["spec"].get("template", manifest)
    (container,) = template["spec"]["containers"]
    assert container["resources"] == {"limits": {"gpu.tessera.dev/mig-1g.10gb": 1}}
    assert "env" not in container
