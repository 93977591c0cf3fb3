"""What claims want of our devices: their requests, with what DeviceClasses say."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_operator.controllers.claims.reading import Asked, Claim, Request
from gpu_operator.controllers.claims.selectors import Facts

Classes = Mapping[str, Facts]
"""Every DeviceClass of the cluster, whoever wrote it, by its name."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Devices of ours, at most: of those that ``resource`` names selectors may take some only.

    ``resource`` is as ``Facts.resource`` has it.
    """

    resource: str
    count: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WantedRequest:
    """A request that only devices of ours can serve; with alternatives the first that fits."""

    name: str
    alternatives: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a claim wants of ours; ``together`` of one GPU, but for what has alternatives."""

    requests: tuple[WantedRequest, ...]
    together: tuple[Wanted, ...] = ()


def wish(claim: Claim, classes: Classes) -> Wish | None:
    """Return what a claim wants of our devices; None: nothing, as far as is known.

    Requests that devices of another driver might serve are left out, as are those of a class that
    does not exist: the scheduler says so by itself.
    """
    requests = tuple(
        found for one in claim.requests if (found := _request(one, classes)) is not None
    )
    if not requests:
        return None
    together = (one for one in requests if one.name in claim.together)
    return Wish(
        requests, tuple(one.alternatives[0] for one in together if len(one.alternatives) == 1)
    )


def _request(request: Request, classes: Classes) -> WantedRequest | None:
    found = tuple(_wanted(one, classes) for one in request.alternatives)
    return WantedRequest(request.name, found) if all(one.resource for one in found) else None


def _wanted(asked: Asked, classes: Classes) -> Wanted:
    known = classes.get(asked.device_class)
    resource = known.with_(asked.facts).resource if known is not None else ""
    return Wanted(resource, asked.count, asked.memory_bytes)
