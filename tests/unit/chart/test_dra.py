"""DRA in the chart: DeviceClasses and the rights of node agents, and no trace of them when it is
off.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.dra import classes
from gpu_operator.controllers.claims import kubelet_triggers
from mig import geometry
from support.programs.helm_chart import CHART, helm, render, require_helm, rules

ON = "dra.enabled=true"


@pytest.fixture(scope="module", autouse=True)
def helm_is_there() -> None:
    require_helm()


def test_the_chart_has_the_classes_of_all_boards() -> None:
    written = Path(CHART / "files" / "device-classes.yaml").read_text(encoding="utf-8")
    assert written == classes.render()
    found = render(ON)["DeviceClass"]
    assert found.keys() == {one["name"] for one in classes.classes()}
    for board in geometry.BOARDS.values():
        for profile in board.profiles:
            spec = found[f"{profile.resource_name}.tessera.dev"]["spec"]
            (selector,) = spec["selectors"]
            assert f'.profile == "{profile.name}"' in selector["cel"]["expression"]
            assert "extendedResourceName" not in spec


def test_classes_serve_extended_resources_if_enabled() -> None:
    wanted = (ON, "dra.extendedResources.enabled=true", "resourcePrefix=nvidia.com")
    found = render(*wanted)["DeviceClass"]
    names = {name: one["spec"].get("extendedResourceName") for name, one in found.items()}
    assert names["gpu.tessera.dev"] == "nvidia.com/gpu"
    assert names["mig-1g.10gb.me.tessera.dev"] == "nvidia.com/mig-1g.10gb.me"
    assert names.pop("mig.tessera.dev") is None
    # of two classes for a resource the newer one serves it
    assert len(set(names.values())) == len(names)


def test_an_agent_may_write_only_its_node_s_slices_of_its_driver() -> None:
    found = render(ON)
    verbs = ("list", "watch", "create", "patch", "delete")
    granted = rules(found, "ClusterRole", "tessera-node-dra")
    assert {("resource.k8s.io", "resourceslices", verb) for verb in verbs} <= granted
    spec = found["ValidatingAdmissionPolicy"]["tessera-node-dra"]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
    own, driver = (one["expression"] for one in spec["validations"])
    for part in ("spec.?nodeName", "spec.pool.name", "metadata.name.startsWith"):
        assert part in own
    assert driver == 'variables.written.spec.driver == "gpu.tessera.dev"'
    (condition,) = spec["matchConditions"]
    assert "system:serviceaccount:ns:tessera-node" in condition["expression"]


def config(*settings: str) -> dict[str, Any]:
    text = render(*settings)["ConfigMap"]["tessera-operator"]["data"]["operator.yaml"]
    found: dict[str, Any] = yaml.safe_load(text)["node"]["dra"]
    return found


def test_without_dra_no_object_for_it_is_rendered() -> None:
    off = render("dra.enabled=false")
    assert "DeviceClass" not in off
    assert "tessera-node-dra" not in off["ClusterRole"]
    rest = {"extendedResources": False, "nudgePods": False}
    assert config("dra.enabled=false") == {"enabled": False, **rest}
    assert config(ON) == {"enabled": True, **rest}


def test_with_triggers_the_operator_may_change_one_annotation_only() -> None:
    trigger, patch = "dra.nudgePods.enabled=true", ("", "pods", "patch")
    found = render(ON, trigger)
    assert patch in rules(found, "ClusterRole", "tessera-operator")
    policy = found["ValidatingAdmissionPolicy"]["tessera-operator-pods"]["spec"]
    assert policy["failurePolicy"] == "Fail"
    binding = found["ValidatingAdmissionPolicyBinding"]["tessera-operator-pods"]["spec"]
    assert binding == {"policyName": "tessera-operator-pods", "validationActions": ["Deny"]}
    user = policy["matchConditions"][0]["expression"]
    assert user.endswith('"system:serviceaccount:ns:tessera-operator"')
    (rule,) = policy["validations"]
    assert "object.spec == oldObject.spec" in rule["expression"]
    assert kubelet_triggers.TRIGGERED in rule["expression"]


@pytest.mark.parametrize("settings", [(ON,), ("dra.enabled=false", "dra.nudgePods.enabled=true")])
def test_otherwise_the_operator_may_not_patch_pods(settings: tuple[str, ...]) -> None:
    found = render(*settings)
    assert ("", "pods", "patch") not in rules(found, "ClusterRole", "tessera-operator")
    assert "tessera-operator-pods" not in found["ValidatingAdmissionPolicy"]


@pytest.mark.parametrize(("version", "there"), [("v1.35.9", False), ("v1.36.0", True)])
def test_dra_is_enabled_on_clusters_with_the_api(version: str, there: bool) -> None:
    image = "--set=image.repository=tessera"
    done = helm("template", "tessera", str(CHART), "--kube-version", version, image)
    assert done.returncode == 0, done.stderr
    assert ("kind: DeviceClass" in done.stdout) == there
