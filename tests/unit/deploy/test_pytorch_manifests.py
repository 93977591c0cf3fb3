"""The manifests of ``examples/frameworks/pytorch`` direct a pod to what a slice mounts."""

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.cdi import spec

FOLDER = Path(__file__).parents[3] / "examples" / "frameworks" / "pytorch"
MANIFESTS = ("job.yaml", "deployment.yaml", "notebook.yaml")


def pod_spec(name: str) -> dict[str, Any]:
    manifest = yaml.safe_load((FOLDER / name).read_text())
    found: dict[str, Any] = manifest["spec"].get("template", manifest)["spec"]
    return found


@pytest.mark.parametrize("name", MANIFESTS)
def test_pods_request_one_slice_and_name_what_is_mounted(name: str) -> None:
    pod = pod_spec(name)
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {"gpu.tessera.dev/mig-1g.10gb": 1}}
    mounted = {mount.container_path for mount in spec.library_mounts("/x")}
    mounted |= {mount["mountPath"] for mount in container["volumeMounts"]}
    variables = {one["name"]: one["value"].split(":") for one in container["env"]}
    variables = {key: paths for key, paths in variables.items() if "JUPYTER" not in key}
    assert set(variables) == {"PYTHONPATH", "LD_PRELOAD"}
    assert {path for paths in variables.values() for path in paths} <= mounted
    set_on_request = spec.environment(pytorch=True)
    assert all(set_on_request[key] == paths[0] for key, paths in variables.items())


@pytest.mark.parametrize("name", MANIFESTS)
def test_each_mount_has_its_volume_and_the_same_image_installs_and_runs(name: str) -> None:
    pod = pod_spec(name)
    containers = [*pod["initContainers"], *pod["containers"]]
    mounted = {mount["name"] for one in containers for mount in one["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert len({one["image"] for one in containers}) == 1


def test_the_kustomization_has_every_file_that_the_pods_run() -> None:
    found = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (programs,) = found["configMapGenerator"]
    assert sorted(programs["files"]) == sorted(path.name for path in FOLDER.glob("*.py"))
    for name in found["resources"]:
        pod = pod_spec(name)
        (container,) = pod["containers"]
        assert {"name": "programs", "configMap": {"name": programs["name"]}} in pod["volumes"]
        assert Path(container["command"][1]).name in programs["files"]


def test_the_programs_name_nothing_of_tessera() -> None:
    for path in FOLDER.glob("*.py"):
        assert "tessera" not in path.read_text().lower()
        ast.parse(path.read_text())
