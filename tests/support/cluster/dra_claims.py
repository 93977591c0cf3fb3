"""Builds ResourceClaims and pods that use them."""

from typing import Any

from support.cluster.kubectl import SAMPLE_IMAGE, SMALL

ALLOCATION = "tessera.dev/allocation"


def claim(name: str, *requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    """Return a ResourceClaim; ``devices`` are further fields of ``spec.devices``."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def exactly(device_class: str, name: str = "gpu", **more: Any) -> dict[str, Any]:
    """Return a request for devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def pod(
    name: str, *claims: str, arguments: tuple[str, ...] = (), node: str | None = None
) -> dict[str, Any]:
    """Return a pod that runs a small program on the devices of these claims."""
    container = {
        "name": "vectoradd",
        "image": SAMPLE_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", SMALL, *arguments],
        "resources": {"claims": [{"name": one} for one in claims]},
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims],
        "containers": [container],
    }
    if node is not None:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def devices_of(claim_object: dict[str, Any]) -> list[str]:
    """Return the devices allocated to a claim, as pool/name."""
    allocation = claim_object.get("status", {}).get("allocation", {})
    results = allocation.get("devices", {}).get("results", [])
    return [f"{one['pool']}/{one['device']}" for one in results]
