"""Claims of ``examples/dra`` name classes, attributes and capacities that there are."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.dra import classes
from device_plugin.dra.devices import UNHEALTHY, Node
from device_plugin.dra.slices import OfferedGpu, resource_slices
from device_plugin.inventory.model import Gpu
from gpu_operator.api.claim_devices import DRIVER
from mig import geometry

FILES = sorted((Path(__file__).parents[3] / "examples" / "dra").glob("*.yaml"))
CLASSES = {one["name"] for one in classes.classes()}
ATTRIBUTE = re.compile(rf'device\.(?:attributes|capacity)\["{DRIVER}"\]\.(\w+)')
BOARD = geometry.board("h100-80gb")  # the sample pool's


def documents(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one]


def claims(file: Path) -> Iterator[dict[str, Any]]:
    for document in documents(file):
        if document["kind"] == "ResourceClaimTemplate":
            yield document["spec"]["spec"]["devices"]
        elif document["kind"] == "ResourceClaim":
            yield document["spec"]["devices"]


def requests(file: Path) -> Iterator[dict[str, Any]]:
    for claim in claims(file):
        for request in claim["requests"]:
            yield from [request["exactly"]] if "exactly" in request else request["firstAvailable"]


def own_classes(file: Path) -> dict[str, list[str]]:
    """Return the expressions of the DeviceClasses that a file itself makes."""
    return {
        one["metadata"]["name"]: [found["cel"]["expression"] for found in one["spec"]["selectors"]]
        for one in documents(file)
        if one["kind"] == "DeviceClass"
    }


def published_attributes() -> set[str]:
    gpu = OfferedGpu(Gpu("GPU-0", 0, BOARD, "Healthy", ()))
    names = set()
    for spec in resource_slices(Node("n", "580.0.1", "13.0"), [gpu]).values():
        for device in spec.get("devices", ()):
            names |= device["attributes"].keys() | device["capacity"].keys()
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_claims_fit_the_driver(file: Path) -> None:
    profiles = {f"{one.resource_name}.tessera.dev" for one in BOARD.profiles}
    common = {"gpu.tessera.dev", "mig.tessera.dev"}
    assert list(claims(file))
    own = own_classes(file)
    for expression in chain.from_iterable(own.values()):
        assert set(ATTRIBUTE.findall(expression)) <= published_attributes()
        assert f'device.driver == "{DRIVER}"' in expression
    for request in requests(file):
        assert request["deviceClassName"] in CLASSES & (profiles | common) | own.keys()
        for toleration in request.get("tolerations", ()):
            assert toleration["key"] == UNHEALTHY
        for selector in request.get("selectors", ()):
            used = ATTRIBUTE.findall(selector["cel"]["expression"])
            assert used
            assert set(used) <= published_attributes()
    for claim in claims(file):
        for constraint in claim.get("constraints", ()):
            domain, _, name = constraint["matchAttribute"].partition("/")
            assert domain == DRIVER
            assert name in published_attributes()
            assert set(constraint["requests"]) <= {one["name"] for one in claim["requests"]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_pods_use_claims_that_their_file_makes(file: Path) -> None:
    made = {
        (one["kind"], one["metadata"]["name"])
        for one in documents(file)
        if one["kind"] in ("ResourceClaim", "ResourceClaimTemplate")
    }
    for pod in documents(file):
        if pod["kind"] != "Pod":
            continue
        names = set()
        for claim in pod["spec"]["resourceClaims"]:
            names.add(claim["name"])
            template = claim.get("resourceClaimTemplateName")
            kind = "ResourceClaimTemplate" if template else "ResourceClaim"
            assert (kind, template or claim["resourceClaimName"]) in made
        for container in pod["spec"]["containers"]:
            assert {one["name"] for one in container["resources"]["claims"]} <= names
