"""Claims of the shapes that other drivers' demos have: served by a node as the sample pool has it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.dra import classes
from device_plugin.dra.devices import Node
from device_plugin.dra.slices import OfferedGpu, resource_slices
from device_plugin.inventory.model import Gpu
from gpu_operator.api.claim_devices import DRIVER
from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.request_resolution import resolve_claim
from mig import geometry
from support.oracles.claim_scheduler import Scheduler

ROOT = Path(__file__).parents[3]
DEMOS = ROOT / "examples" / "dra" / "demos"
H100 = geometry.board("h100-80gb")
CLASSES = {one["name"]: one["expression"] for one in classes.classes()}
# Each pod of a file: the devices that the scheduler gives to each of its claims.
SERVED: dict[str, list[list[list[str]]]] = {
    "alternatives": [[["gpu-0"]]],
    "count": [[["gpu-0", "gpu-1"]]],
    "gpu-per-container": [[["gpu-0"], ["gpu-1"]]],
    "gpu-per-pod": [[["gpu-0"]], [["gpu-1"]]],
    "init-container": [[["gpu-0"]]],
    "memory": [[["gpu-0-mig-1g10gb-6"]], [["gpu-0-mig-1g10gb-4"]]],
    "model-and-memory": [[["gpu-0"]]],
    "selected": [[["gpu-1"]]],
    "shared-by-containers": [[["gpu-0"]]],
    "shared-by-pods": [[["gpu-0"]], [["gpu-0"]]],
    "sharing-parameters": [[["gpu-0"]]],
    "two-requests": [[["gpu-0", "gpu-1"]]],
}


def scheduler(shared: bool = False) -> Scheduler:
    """One node with two empty GPUs, of a pool whose devices are for several claims or not."""
    gpus = [
        OfferedGpu(Gpu(f"GPU-{index}", index, H100, "Healthy", ()), shared=shared)
        for index in range(2)
    ]
    return Scheduler(resource_slices(Node("n", "580.0.1", "13.0"), gpus), dict(CLASSES))


def documents(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one]


def pods(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the specification of each pod, those of a Deployment too."""
    for one in documents(file):
        if one["kind"] == "Pod":
            yield one["spec"]
        elif one["kind"] == "Deployment":
            yield from [one["spec"]["template"]["spec"]] * one["spec"]["replicas"]


def allocate(file: Path, on: Scheduler) -> list[list[list[str]] | None]:
    """Have the scheduler place the pods of a file one after the other."""
    for one in documents(file):
        if one["kind"] == "DeviceClass":
            (selector,) = one["spec"]["selectors"]
            on.classes[one["metadata"]["name"]] = selector["cel"]["expression"]
    by_name = {
        (one["kind"], one["metadata"]["name"]): one["spec"].get("spec", one["spec"])["devices"]
        for one in documents(file)
        if one["kind"].startswith("ResourceClaim")
    }
    given: dict[str, list[str]] = {}
    found: list[list[list[str]] | None] = []
    for pod in pods(file):
        got: list[list[str]] | None = []
        for claim in pod["resourceClaims"]:
            name = claim.get("resourceClaimName")
            if name in given:
                devices: list[list[str]] | None = [given[name]]
            elif name:
                devices = on.allocate(by_name["ResourceClaim", name])
            else:
                template = claim["resourceClaimTemplateName"]
                devices = on.allocate(by_name["ResourceClaimTemplate", template])
            if devices is None:
                got = None
                break
            if name:
                given[name] = devices[0]
            assert got is not None
            got += devices
        found.append(got)
    return found


def test_every_demo_is_run_and_documented() -> None:
    names = {file.stem for file in DEMOS.glob("*.yaml")}
    assert names == SERVED.keys() | {"slices-of-one-gpu-each"}
    text = (ROOT / "docs" / "dra.md").read_text(encoding="utf-8")
    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("name", SERVED)
def test_a_demo_is_allocated_as_the_scheduler_does(name: str) -> None:
    assert allocate(DEMOS / f"{name}.yaml", scheduler()) == SERVED[name]


def test_slices_of_a_pod_are_on_one_gpu_and_fill_it() -> None:
    on = scheduler()
    found = allocate(DEMOS / "slices-of-one-gpu-each.yaml", on)
    assert len(found) == 2
    for index, claims in enumerate(found):
        assert claims is not None
        (devices,) = claims
        profiles = sorted(device.split("-")[3] for device in devices)
        assert profiles == ["1g10gb", "1g10gb", "2g20gb", "3g40gb"]
        assert {device.partition("-mig-")[0] for device in devices} == {f"gpu-{index}"}
    assert allocate(DEMOS / "memory.yaml", on) == [None, None]


def test_what_has_no_room_is_not_allocated() -> None:
    on = scheduler()
    assert allocate(DEMOS / "count.yaml", on) == [[["gpu-0", "gpu-1"]]]
    for name in ("gpu-per-pod", "alternatives", "memory", "slices-of-one-gpu-each"):
        assert set(map(str, allocate(DEMOS / f"{name}.yaml", on))) == {"None"}


@pytest.mark.parametrize("file", sorted(DEMOS.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_demo_is_what_the_api_server_takes(file: Path) -> None:
    """Containers name claims and requests that there are, and everything has a name of its own."""
    found = documents(file)
    assert len({(one["kind"], one["metadata"]["name"]) for one in found}) == len(found)
    requests = {
        request["name"]
        for one in found
        if one["kind"].startswith("ResourceClaim")
        for request in one["spec"].get("spec", one["spec"])["devices"]["requests"]
    }
    for pod in pods(file):
        claims = {one["name"] for one in pod["resourceClaims"]}
        used = [
            wanted
            for container in (*pod["containers"], *pod.get("initContainers", ()))
            for wanted in container["resources"]["claims"]
        ]
        assert {one["name"] for one in used} == claims
        assert {one["request"] for one in used if "request" in one} <= requests


def test_a_users_device_class_is_allocated_and_reported_like_tesseras() -> None:
    """Only the scheduler evaluates classes; the reason is reported if a claim waits."""
    file = DEMOS.parent / "own-class.yaml"
    on = scheduler()
    assert allocate(file, on) == [[["gpu-0-mig-2g20gb-4"]]]
    (written, template, _) = documents(file)
    classes = {written["metadata"]["name"]: reading.read_device_class(written)}
    claim = reading.read_claim({**template["spec"], "metadata": metadata("c")})
    assert claim is not None
    wanted = resolve_claim(claim, classes)
    assert wanted is not None
    assert [one.resource for one in wanted.requests[0].alternatives] == ["mig-2g.20gb"]


def metadata(name: str) -> dict[str, str]:
    return {"namespace": "team", "name": name, "uid": f"uid-{name}"}


@pytest.mark.parametrize(
    "name", ["mig", "whole", "shared", "one-gpu", "selectors", "prioritized", "own-class"]
)
def test_the_driver_s_own_examples_are_allocated_side_by_side(name: str) -> None:
    assert None not in allocate(DEMOS.parent / f"{name}.yaml", scheduler())


def test_admin_access_sees_every_gpu_and_takes_none() -> None:
    on = scheduler()
    _, template, *_ = documents(DEMOS.parent / "admin.yaml")
    everything = [["gpu-0", "gpu-1"]]
    assert on.allocate(template["spec"]["spec"]["devices"]) == everything
    assert allocate(DEMOS / "count.yaml", on) == [everything]


def test_only_the_demo_that_says_so_has_parameters_for_the_driver() -> None:
    with_config = {
        file.stem
        for file in DEMOS.glob("*.yaml")
        for one in documents(file)
        if one["kind"].startswith("ResourceClaim")
        for config in one["spec"].get("spec", one["spec"])["devices"].get("config", ())
        if config["opaque"]["driver"] == DRIVER
    }
    assert with_config == {"sharing-parameters"}


@pytest.mark.parametrize("name", sorted(SERVED.keys() - {"memory"}))
def test_a_claim_without_a_share_has_a_shareable_device_alone(name: str) -> None:
    assert allocate(DEMOS / f"{name}.yaml", scheduler(shared=True)) == SERVED[name]


@pytest.mark.parametrize("file", ["demos/memory.yaml", "shares.yaml"])
def test_claims_for_parts_of_the_memory_share_a_slice_if_the_pool_says_so(file: str) -> None:
    on = scheduler(shared=True)
    shared = "gpu-0-mig-1g10gb-6"
    assert allocate(DEMOS.parent / file, on) == [[[shared]], [[shared]]]
    # 9.6 GiB have no third part of 4; what wants a slice for itself finds it beside.
    (third, _) = allocate(DEMOS.parent / file, on)
    assert third == [["gpu-0-mig-1g10gb-4"]]
    alone = allocate(DEMOS.parent / "mig.yaml", on)
    assert alone == [[["gpu-0-mig-1g10gb-5"]]]
    assert allocate(DEMOS.parent / file, scheduler()) == [[[shared]], [["gpu-0-mig-1g10gb-4"]]]
