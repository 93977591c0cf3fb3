"""Parsing of ResourceClaims, DeviceClasses and pods with claims (``resource.k8s.io/v1``).

Which devices a request refers to also depends on its DeviceClass (``request_resolution``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_operator.api.claim_devices import DRIVER, MEMORY
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.controllers.claims import selectors
from gpu_operator.controllers.claims.selectors import NOTHING, Facts

Document = Mapping[str, Any]
_ONE_GPU: Final = f"{DRIVER}/parentUUID"


@dataclass(frozen=True, slots=True)
class DeviceAlternative:
    """The devices that a request, or one alternative of a request, requires on one node.

    ``facts`` is what is known from the selectors of the request or alternative; the selectors of
    its DeviceClass are not included. If devices are shared between claims, ``memory_bytes`` is the
    memory that is requested of each device.
    """

    device_class: str
    facts: Facts = NOTHING
    count: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices; the first of its alternatives that fits is allocated."""

    name: str
    alternatives: tuple[DeviceAlternative, ...]


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that the scheduler has allocated to a claim.

    ``node`` is the name of the device's pool, which is also the node's name. If the device is
    shared, ``memory_bytes`` is the part of its memory that the claim consumes.
    """

    node: str
    device: str
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that waits for devices, or has devices of this driver.

    ``requests`` may be for devices of any driver. ``held`` are devices of this driver that are
    allocated to the claim. ``together`` names the requests that a constraint requires to be
    allocated on one GPU.
    """

    namespace: str
    name: str
    uid: str
    requests: tuple[Request, ...] = ()
    held: tuple[AllocatedDevice, ...] = ()
    together: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that the scheduler has reported as unschedulable; ``claims`` are its claims' names."""

    namespace: str
    name: str
    uid: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartingPod:
    """A pod that has a node but has run no container yet; ``claims`` are its claims' names."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[str, ...]


def read_claim(document: Document) -> Claim | None:
    """Parse a ResourceClaim. Return None if it has no request and no device of this driver."""
    metadata = document["metadata"]
    if metadata.get("deletionTimestamp") and not _allocation(document):
        return None
    requests = () if _allocation(document) else tuple(_requests(document))
    claim = Claim(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        requests=requests,
        held=tuple(_allocated_devices(document)),
        together=_one_gpu_requests(document, requests),
    )
    return claim if claim.requests or claim.held else None


def read_waiting_pod(document: Document) -> WaitingPod | None:
    """Parse a pod. Return None if it has no claims, or is not reported as unschedulable."""
    metadata, status = document["metadata"], document.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    reason = conditions.get("PodScheduled", {}).get("reason")
    if reason != "Unschedulable" or metadata.get("deletionTimestamp"):
        return None
    names = tuple(claim_names(document))
    if not names:
        return None
    return WaitingPod(metadata["namespace"], metadata["name"], metadata["uid"], names)


def read_starting_pod(document: Document) -> StartingPod | None:
    """Parse a pod that has a node.

    Return None if it has no claims, is terminating or has started to run.
    """
    metadata, status = document["metadata"], document.get("status") or {}
    every = ("initContainerStatuses", "containerStatuses")
    states = [
        container_status.get("state") or {}
        for kind in every
        for container_status in status.get(kind) or ()
    ]
    begun = any("running" in state or "terminated" in state for state in states)
    names = tuple(claim_names(document))
    if metadata.get("deletionTimestamp") or begun or not names:
        return None
    where = document["spec"]["nodeName"]
    return StartingPod(metadata["namespace"], metadata["name"], metadata["uid"], where, names)


def read_device_class(document: Document) -> Facts:
    """Return what a DeviceClass requires of the devices that it selects."""
    return _facts(document.get("spec") or {})


def _allocation(document: Document) -> Document:
    allocation: Document = (document.get("status") or {}).get("allocation") or {}
    return allocation


def _allocated_devices(document: Document) -> Iterator[AllocatedDevice]:
    for device_result in (_allocation(document).get("devices") or {}).get("results") or ():
        if device_result["driver"] == DRIVER and not device_result.get("adminAccess"):
            consumed = (device_result.get("consumedCapacity") or {}).get(MEMORY)
            yield AllocatedDevice(device_result["pool"], device_result["device"], _bytes(consumed))


def _requests(document: Document) -> Iterator[Request]:
    """Yield a claim's requests, except those for admin access, which do not reserve devices."""
    devices = (document.get("spec") or {}).get("devices") or {}
    for request in devices.get("requests") or ():
        exactly = request.get("exactly")
        parts = request.get("firstAvailable") or () if exactly is None else (exactly,)
        if parts and not (exactly or {}).get("adminAccess"):
            yield Request(request["name"], tuple(map(_device_alternative, parts)))


def _one_gpu_requests(document: Document, requests: Iterable[Request]) -> frozenset[str]:
    """Return the names of the requests in the first constraint that requires one GPU."""
    devices = (document.get("spec") or {}).get("devices") or {}
    for constraint in devices.get("constraints") or ():
        if constraint.get("matchAttribute") == _ONE_GPU:
            return frozenset(constraint.get("requests") or (request.name for request in requests))
    return frozenset()


def _device_alternative(part: Document) -> DeviceAlternative:
    # For allocationMode All it is only known that one device is required.
    memory = ((part.get("capacity") or {}).get("requests") or {}).get(MEMORY)
    count = part.get("count") or 1
    return DeviceAlternative(part["deviceClassName"], _facts(part), count, _bytes(memory))


def _facts(document: Document) -> Facts:
    """Read the selectors of a request, or of a DeviceClass's spec."""
    expressions = (
        (selector.get("cel") or {}).get("expression")
        for selector in document.get("selectors") or ()
    )
    return selectors.read_selectors(filter(None, expressions))


def _bytes(text: object) -> int:
    """Parse a quantity of memory. Return 0 if there is none, or if it is invalid."""
    try:
        return quantity.parse_api_quantity(text) if isinstance(text, str) else 0
    except ValueError:
        return 0


def claim_names(document: Document) -> Iterator[str]:
    """Yield the names of a pod's claims that have been created."""
    claim_statuses = (document.get("status") or {}).get("resourceClaimStatuses") or ()
    names = {
        claim_status["name"]: claim_status.get("resourceClaimName")
        for claim_status in claim_statuses
    }
    for pod_claim in document["spec"].get("resourceClaims") or ():
        name = pod_claim.get("resourceClaimName") or names.get(pod_claim["name"])
        if name:
            yield name
