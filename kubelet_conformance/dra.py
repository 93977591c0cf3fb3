"""What the kubelet and the scheduler see of a DRA driver: its service, slices and claims."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from device_plugin.proto import dra_pb2 as pb, dra_pb2_grpc as pb_grpc
from kubelet_conformance.api_server import ApiServer
from kubelet_conformance.kubelet import DraDriver
from kubelet_conformance.resource import CALL_S, refusal

SLICES = "resource.k8s.io/v1/resourceslices"
CLAIMS = "resource.k8s.io/v1/resourceclaims"
NAMESPACE = "conformance"
SERVICE = "v1.DRAPlugin"


@dataclass(frozen=True, slots=True)
class Place:
    """A device, identified by the pool and device names that the status of a claim would
    contain.
    """

    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated ResourceClaim; ``request`` is its only request."""

    name: str
    uid: str
    request: str = "one"

    def message(self) -> pb.Claim:
        """Return the claim as the kubelet passes it to a driver."""
        return pb.Claim(namespace=NAMESPACE, uid=self.uid, name=self.name)


def slices(api: ApiServer, driver: str) -> list[dict[str, Any]]:
    """Return a driver's ResourceSlices."""
    return [
        resource_slice
        for resource_slice in api.all(SLICES)
        if resource_slice["spec"].get("driver") == driver
    ]


def is_complete(resource_slices: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether every pool in ``resource_slices`` has all slices of its newest generation."""
    pools: dict[str, list[Mapping[str, Any]]] = {}
    for resource_slice in resource_slices:
        pools.setdefault(resource_slice["spec"]["pool"]["name"], []).append(
            resource_slice["spec"]["pool"]
        )
    for pool_specs in pools.values():
        newest = max(pool_spec.get("generation", 0) for pool_spec in pool_specs)
        newest_specs = [
            pool_spec for pool_spec in pool_specs if pool_spec.get("generation", 0) == newest
        ]
        if len(newest_specs) != newest_specs[0]["resourceSliceCount"]:
            return False
    return bool(pools)


def places(resource_slices: Sequence[Mapping[str, Any]]) -> list[Place]:
    """Return the devices in ``resource_slices``, in the order of the slices.

    Devices with taints are left out, because the scheduler does not allocate them to a claim
    without tolerations.
    """
    return [
        Place(resource_slice["spec"]["pool"]["name"], device["name"])
        for resource_slice in resource_slices
        for device in resource_slice["spec"].get("devices", ())
        if not device.get("taints")
    ]


def allocate(api: ApiServer, driver: str, place: Place) -> Claim:
    """Create a claim and allocate the device at ``place`` to it, as the scheduler does."""
    name = f"claim-{uuid.uuid4().hex[:8]}"
    exactly = {"deviceClassName": "conformance", "allocationMode": "ExactCount", "count": 1}
    result = {"request": "one", "driver": driver, "pool": place.pool, "device": place.device}
    pod = {"resource": "pods", "name": "conformance", "uid": str(uuid.uuid4())}
    created_claim = api.put(
        CLAIMS,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "one", "exactly": exactly}]}},
            "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [pod]},
        },
        NAMESPACE,
    )
    return Claim(name, created_claim["metadata"]["uid"])


def free(api: ApiServer, claim: Claim) -> None:
    """Delete a claim, as the claim's owner does when the pod is gone."""
    api.delete(CLAIMS, claim.name, NAMESPACE)


def prepare(driver: DraDriver, *claims: Claim) -> Mapping[str, pb.NodePrepareResourceResponse]:
    """Prepare claims for a starting pod. Raises Refusal."""
    request = pb.NodePrepareResourcesRequest(claims=[claim.message() for claim in claims])
    return dict(_call(driver, "NodePrepareResources", request).claims)


def unprepare(driver: DraDriver, *claims: Claim) -> Mapping[str, pb.NodeUnprepareResourceResponse]:
    """Unprepare claims of a pod that has ended. Raises Refusal."""
    request = pb.NodeUnprepareResourcesRequest(claims=[claim.message() for claim in claims])
    return dict(_call(driver, "NodeUnprepareResources", request).claims)


def _call(driver: DraDriver, method: str, request: Any) -> Any:
    with grpc.insecure_channel(f"unix:{driver.endpoint}") as channel:
        try:
            return getattr(pb_grpc.DRAPluginStub(channel), method)(request, timeout=CALL_S)
        except grpc.RpcError as err:
            raise refusal(err) from err
