"""Determines which resources of this driver a claim's requests and DeviceClasses select."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_operator.controllers.claims.reading import Claim, DeviceAlternative, Request
from gpu_operator.controllers.claims.selectors import Facts

Classes = Mapping[str, Facts]
"""All DeviceClasses of the cluster, including those of other drivers, by name."""


@dataclass(frozen=True, slots=True)
class ResolvedAlternative:
    """The devices that one alternative of a request needs. All of them are devices of this driver.

    ``resource`` has the form of ``Facts.resource``. The selectors may match only some of the
    devices of this resource.
    """

    resource: str
    count: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request that only this driver can serve; the first alternative that fits is allocated."""

    name: str
    alternatives: tuple[ResolvedAlternative, ...]


@dataclass(frozen=True, slots=True)
class ResolvedClaim:
    """The requests of a claim that only this driver can serve.

    ``together`` are the devices that must be allocated on the same GPU. Requests with several
    alternatives are left out of ``together``.
    """

    requests: tuple[ResolvedRequest, ...]
    together: tuple[ResolvedAlternative, ...] = ()


def resolve_claim(claim: Claim, classes: Classes) -> ResolvedClaim | None:
    """Resolve the requests of a claim. Return None if none of them is certainly for this driver.

    Requests that another driver might serve are left out. Requests with an unknown class are
    left out, too, because the scheduler reports them itself.
    """
    requests = tuple(
        resolved_request
        for request in claim.requests
        if (resolved_request := _resolve_request(request, classes)) is not None
    )
    if not requests:
        return None
    together = (request for request in requests if request.name in claim.together)
    return ResolvedClaim(
        requests,
        tuple(request.alternatives[0] for request in together if len(request.alternatives) == 1),
    )


def _resolve_request(request: Request, classes: Classes) -> ResolvedRequest | None:
    alternatives = tuple(
        _resolve_alternative(alternative, classes) for alternative in request.alternatives
    )
    return (
        ResolvedRequest(request.name, alternatives)
        if all(alternative.resource for alternative in alternatives)
        else None
    )


def _resolve_alternative(requested: DeviceAlternative, classes: Classes) -> ResolvedAlternative:
    class_facts = classes.get(requested.device_class)
    resource = class_facts.combine(requested.facts).resource if class_facts is not None else ""
    return ResolvedAlternative(resource, requested.count, requested.memory_bytes)
