"""The inventory document: exact round trip, and refusal of anything else."""

import json
from copy import deepcopy
from typing import Any

import pytest
from cuda.bindings import driver as cuda

from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.documents import DocumentError

CONTEXT = admin.Context(
    10, 11, 12, "pod", 13, 14, 15, 16, 17, "k", 18, {"seccomp": True, "landlock": False}
)
INSTANCE = admin.Instance(
    *("MIG-1", "1g.10gb", 2, 1, 20, 16, 21, "/run/s", True),
    holders=(admin.Holder("pod", "team", "name"),),
    contexts=(CONTEXT,),
    gi_id=9,
    ci_id=0,
    counters=admin.Counters(contexts=2, launches=30),
    activity=admin.Activity(engine=0.5),
)
TELEMETRY = admin.Telemetry(
    *(admin.Activity(engine=0.1), 10, 0, 1980, 2619, 1980, 2619, 100000, 700000, 5, 34, 35, 89, 92),
    *((30, 40), 0, 7, 8),
)
GPU = admin.Gpu(
    *("GPU-1", 3, "h100-80gb", "H100", 30, 132, (9, 0), "Healthy", (INSTANCE,)),
    mig_enabled=True,
    pci_bus_id="00000000:04:00.0",
    telemetry=TELEMETRY,
)
NODE = admin.Inventory(
    *("1.0", "/lib", "/slices"),
    admin.Isolation(False, "why"),
    admin.Sandbox({"landlock": True, "namespaces": False, "seccomp": True}, False),
    admin.Budget(40, 41),
    (GPU,),
)


def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(NODE.to_json()))
    return read


def test_what_is_written_is_read() -> None:
    assert admin.Inventory.from_json(document()) == NODE


def test_the_names_on_the_wire_are_these() -> None:
    """Other programs read them: a renamed field is another protocol."""
    written = document()
    assert set(written) == {
        *("protocol", "version", "libraries_dir", "slices_dir", "isolation", "sandbox", "budget"),
        *("gpus", "clock"),
    }
    gpu = written["gpus"][0]
    assert gpu["capability"] == [9, 0]
    assert set(gpu["instances"][0]["contexts"][0]) == {
        *("pid", "client_pid", "client_uid", "pod_uid", "memory_bytes", "launches"),
        *("first_launch_ns", "last_launch_ns", "busy_ns"),
        *("running_kernel", "running_since_ns", "sandbox"),
    }


def change_field(path: str, value: object) -> dict[str, Any]:
    """Set (or, for ``...``, remove) what a path such as gpus/0/index names."""
    result = deepcopy(document())
    *parents, last = path.split("/")
    place: Any = result
    for step in parents:
        place = place[int(step) if step.isdigit() else step]
    key = int(last) if last.isdigit() else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return result


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("version", ..., "inventory"),
        ("surprise", 1, "inventory"),
        ("isolation", None, "inventory.isolation"),
        ("isolation/enforced", 1, "inventory.isolation.enforced"),
        ("budget/used_bytes", "1", "inventory.budget.used_bytes"),
        ("budget/used_bytes", True, "inventory.budget.used_bytes"),
        ("gpus", {}, "inventory.gpus"),
        ("gpus/0/index", ..., "inventory.gpus[0]"),
        ("gpus/0/capability", [9], "inventory.gpus[0].capability"),
        ("gpus/0/capability", [9, "0"], "inventory.gpus[0].capability[1]"),
        ("gpus/0/instances/0/admit", "yes", "inventory.gpus[0].instances[0].admit"),
        ("gpus/0/instances/0/holders/0", [], "inventory.gpus[0].instances[0].holders[0]"),
        ("gpus/0/instances/0/contexts/0/pid", 1.0, "contexts[0].pid"),
        ("gpus/0/instances/0/contexts/0/sandbox", [], "contexts[0].sandbox"),
        ("gpus/0/instances/0/contexts/0/sandbox", {"x": 1}, "contexts[0].sandbox.x"),
    ],
)
def test_what_does_not_fit_is_named(path: str, value: object, where: str) -> None:
    with pytest.raises(DocumentError) as refused:
        admin.Inventory.from_json(change_field(path, value))
    assert where in str(refused.value)


@pytest.mark.parametrize("protocol", [0, admin.PROTOCOL + 1, str(admin.PROTOCOL), None, ...])
def test_another_protocol_is_refused_as_such(protocol: object) -> None:
    with pytest.raises(DocumentError, match=r"has protocol .*, but only .* is supported"):
        admin.Inventory.from_json(change_field("protocol", protocol))


@pytest.mark.parametrize("other", [None, [], "text"])
def test_a_document_that_is_not_an_object_is_refused(other: object) -> None:
    with pytest.raises(DocumentError):
        admin.Inventory.from_json(other)


def test_result_codes_have_their_official_numbers() -> None:
    official = {one.name.removeprefix("CUDA_ERROR_"): int(one) for one in cuda.CUresult}
    official["SUCCESS"] = official.pop("CUDA_SUCCESS")
    assert {one.name: int(one) for one in CudaError}.items() <= official.items()
