"""GPUs available to claims, claims with and without devices, and pods that wait for claims."""

from dataclasses import replace
from typing import Any

from device_plugin.dra import classes
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.selectors import Facts
from support.worlds.gpu_world import gpu

DRIVER = "gpu.tessera.dev"
THREE = "mig-3g.40gb.tessera.dev"


def class_document(name: str, *expressions: str) -> dict[str, Any]:
    """Return a DeviceClass with these selectors."""
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"selectors": selectors}}


CLASS_DOCUMENTS = tuple(class_document(c["name"], c["expression"]) for c in classes.classes())
"""The chart's DeviceClasses."""
CLASSES: dict[str, Facts] = {
    one["metadata"]["name"]: reading.read_device_class(one) for one in CLASS_DOCUMENTS
}


def offered_gpu(
    node: str, index: int = 0, allocation: Allocation = Allocation.DRA, **facts: Any
) -> Gpu:
    """Return a GPU of a node whose GPUs are allocated through claims, unless specified
    otherwise.
    """
    health = facts.pop("health", "Healthy")
    board = facts.pop("board", "h100-80gb")
    shared = facts.pop("shared", False)
    made = gpu(node, index, **facts)
    changed = {"allocation": allocation, "board": board, "allow_multiple_allocations": shared}
    spec = made.spec.model_copy(update=changed)
    return replace(made, spec=spec, status=made.status.model_copy(update={"health": health}))


def exactly(device_class: str, name: str = "gpu", **more: Any) -> dict[str, Any]:
    """Return a request for devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def claim_document(
    name: str,
    *requests: dict[str, Any],
    held: tuple[str, ...] = (),
    namespace: str = "team",
    consumed: str = "",
) -> dict[str, Any]:
    """Return a ResourceClaim. ``held`` are its allocated devices "node/device", or shares of
    them.
    """
    document: dict[str, Any] = {
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests or (exactly(THREE),))}},
    }
    if held:
        pairs = [one.split("/") for one in held]
        share = {"shareID": "s", "consumedCapacity": {"memory": consumed}} if consumed else {}
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": node, "device": device, **share}
            for node, device in pairs
        ]
        document["status"] = {"allocation": {"devices": {"results": results}}}
    return document


def pod_document(
    name: str, *claims: str, reason: str = "Unschedulable", namespace: str = "team"
) -> dict[str, Any]:
    """Return a pod that the scheduler marks with ``reason``; its last claim is from a template."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    *direct, made = claims
    wanted = [{"name": one, "resourceClaimName": one} for one in direct]
    wanted.append({"name": "made", "resourceClaimTemplateName": "template"})
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}"},
        "spec": {"resourceClaims": wanted},
        "status": {
            "conditions": [condition],
            "resourceClaimStatuses": [{"name": "made", "resourceClaimName": made}],
        },
    }
