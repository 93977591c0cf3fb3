"""ResourceClaims, DeviceClasses, pods that wait with claims, as values (``resource.k8s.io/v1``).

Which devices a request means is known only with its DeviceClass (``wanting``).
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
class Asked:
    """Devices that a request asks for, or one of its alternatives: all on one node.

    ``facts`` are of its own selectors. ``memory_bytes`` is the part that it asks for of each, where
    devices are for several claims.
    """

    device_class: str
    facts: Facts = NOTHING
    count: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A request for devices; with alternatives the first that fits."""

    name: str
    alternatives: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A device that the scheduler has given to a claim. ``node`` is its pool's name.

    ``memory_bytes`` is what the claim consumes of one that is for several claims.
    """

    node: str
    device: str
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that wants devices, of whomever (``requests``), or has some of ours (``held``).

    ``together`` are the requests, by name, that a constraint wants to be served of one GPU.
    """

    namespace: str
    name: str
    uid: str
    requests: tuple[Request, ...] = ()
    held: tuple[Held, ...] = ()
    together: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod of which the scheduler has said that no node will do; ``claims`` are names."""

    namespace: str
    name: str
    uid: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartingPod:
    """A pod that has a node and of which no container has run yet; ``claims`` are names."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[str, ...]


def claim(document: Document) -> Claim | None:
    """Read a ResourceClaim; None: it neither wants anything nor has something of ours."""
    metadata = document["metadata"]
    if metadata.get("deletionTimestamp") and not _allocation(document):
        return None
    requests = () if _allocation(document) else tuple(_requests(document))
    found = Claim(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        requests=requests,
        held=tuple(_held(document)),
        together=_together(document, requests),
    )
    return found if found.requests or found.held else None


def pod(document: Document) -> WaitingPod | None:
    """Read a pod; None: it has no claims, or the scheduler has not tried in vain."""
    metadata, status = document["metadata"], document.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    reason = conditions.get("PodScheduled", {}).get("reason")
    if reason != "Unschedulable" or metadata.get("deletionTimestamp"):
        return None
    names = tuple(_claims_of(document))
    if not names:
        return None
    return WaitingPod(metadata["namespace"], metadata["name"], metadata["uid"], names)


def starting(document: Document) -> StartingPod | None:
    """Read a pod that has a node; None: it has no claims, is going, or has begun to run."""
    metadata, status = document["metadata"], document.get("status") or {}
    every = ("initContainerStatuses", "containerStatuses")
    states = [one.get("state") or {} for kind in every for one in status.get(kind) or ()]
    begun = any("running" in state or "terminated" in state for state in states)
    names = tuple(_claims_of(document))
    if metadata.get("deletionTimestamp") or begun or not names:
        return None
    where = document["spec"]["nodeName"]
    return StartingPod(metadata["namespace"], metadata["name"], metadata["uid"], where, names)


def device_class(document: Document) -> Facts:
    """Read which devices a DeviceClass lets through."""
    return _facts(document.get("spec") or {})


def _allocation(document: Document) -> Document:
    found: Document = (document.get("status") or {}).get("allocation") or {}
    return found


def _held(document: Document) -> Iterator[Held]:
    for one in (_allocation(document).get("devices") or {}).get("results") or ():
        if one["driver"] == DRIVER and not one.get("adminAccess"):
            consumed = (one.get("consumedCapacity") or {}).get(MEMORY)
            yield Held(one["pool"], one["device"], _bytes(consumed))


def _requests(document: Document) -> Iterator[Request]:
    """Yield the requests but those for admin access, which takes nothing from anybody."""
    devices = (document.get("spec") or {}).get("devices") or {}
    for request in devices.get("requests") or ():
        exactly = request.get("exactly")
        parts = request.get("firstAvailable") or () if exactly is None else (exactly,)
        if parts and not (exactly or {}).get("adminAccess"):
            yield Request(request["name"], tuple(map(_asked, parts)))


def _together(document: Document, requests: Iterable[Request]) -> frozenset[str]:
    """Return what the first constraint to one GPU is about."""
    devices = (document.get("spec") or {}).get("devices") or {}
    for constraint in devices.get("constraints") or ():
        if constraint.get("matchAttribute") == _ONE_GPU:
            return frozenset(constraint.get("requests") or (one.name for one in requests))
    return frozenset()


def _asked(part: Document) -> Asked:
    # Of allocationMode All it is known only that one is too many when there is none.
    memory = ((part.get("capacity") or {}).get("requests") or {}).get(MEMORY)
    count = part.get("count") or 1
    return Asked(part["deviceClassName"], _facts(part), count, _bytes(memory))


def _facts(document: Document) -> Facts:
    """Read the selectors of a request, or of a DeviceClass's spec."""
    found = ((one.get("cel") or {}).get("expression") for one in document.get("selectors") or ())
    return selectors.read(filter(None, found))


def _bytes(text: object) -> int:
    """Return a quantity of memory; 0: none, or one that nothing here can be asked."""
    try:
        return quantity.of_api(text) if isinstance(text, str) else 0
    except ValueError:
        return 0


def _claims_of(document: Document) -> Iterator[str]:
    made = (document.get("status") or {}).get("resourceClaimStatuses") or ()
    names = {one["name"]: one.get("resourceClaimName") for one in made}
    for one in document["spec"].get("resourceClaims") or ():
        name = one.get("resourceClaimName") or names.get(one["name"])
        if name:
            yield name
