"""Explains in one sentence why a claim waits: which GPUs are full, and who uses them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from facts.wording import list_first
from gpu_operator.api import claim_devices
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.request_resolution import (
    ResolvedAlternative,
    ResolvedClaim,
    ResolvedRequest,
)
from gpu_operator.controllers.claims.room import GpuCapacity, Offer, room_on_nodes
from mig import geometry

_MOST_ON_A_GPU: Final = 16  # instances; no board has room for more
_RESOURCES: Final = frozenset(
    {claim_devices.ANY, claim_devices.ANY_MIG, geometry.WHOLE_RESOURCE}
    | {one.resource_name for board in geometry.BOARDS.values() for one in board.profiles}
)
_VARIOUS: Final = (claim_devices.ANY, claim_devices.ANY_MIG)
_OF_ONE: Final = {"are": "is", "have": "has", "hold": "holds"}
_NAMED: Final = 3  # users of GPUs in a list; an event's message is limited to 1,024 characters


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reason why a claim waits, and the message that explains it."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _Resource:
    """Findings for a resource: the number of devices left on each node, and the explanation."""

    what: str
    nodes: Mapping[str, int]
    offered: bool
    explanation: str


class ClaimEvaluator:
    """Explains why claims wait, given the current GPUs.

    Findings about a resource are cached for all claims.
    """

    def __init__(self, capacities: Sequence[GpuCapacity]) -> None:
        self._capacities = capacities
        self._known: dict[tuple[str, int], _Resource] = {}
        self._sharing = any(capacity.sharing for capacity in capacities)

    def evaluate(self, claim: ResolvedClaim) -> Verdict:
        """Return why a claim cannot be allocated."""
        for request in claim.requests:
            request_verdict = self._evaluate_request(request)
            if request_verdict is not None:
                return Verdict(
                    request_verdict.reason, f"request {request.name}: {request_verdict.message}"
                )
        together = self._evaluate_one_gpu(claim.together)
        if together is not None:
            return together
        rooms = "; ".join(
            f"{request.name}: {self._describe_room(request)}" for request in claim.requests[:_NAMED]
        )
        return Verdict(
            Reason.CLAIM_UNMATCHED,
            f"there is room for each request by itself ({rooms}). Other causes are not evaluated "
            "here:"
            " the remaining selectors of the claim and its classes, constraints, all its requests "
            "together, taints, or the pod's rules about nodes",
        )

    def _evaluate_request(self, request: ResolvedRequest) -> Verdict | None:
        """Return why a request cannot be allocated; None if there is room for an alternative."""
        verdicts = [self._evaluate_alternative(alternative) for alternative in request.alternatives]
        full = [verdict for verdict in verdicts if verdict is not None]
        if len(full) < len(verdicts):
            return None
        no_room = [verdict for verdict in full if verdict.reason is Reason.CLAIM_NO_ROOM]
        first = (no_room or full)[0]
        return Verdict(first.reason, first.message + ("; no alternative" * (len(full) > 1)))

    def _evaluate_one_gpu(self, together: Sequence[ResolvedAlternative]) -> Verdict | None:
        """Return why devices that must be on one GPU cannot be allocated; None if they can."""
        number = sum(alternative.count for alternative in together)
        if number < 2 or any(alternative.resource in _VARIOUS for alternative in together):
            return None
        if self._sharing and any(alternative.memory_bytes for alternative in together):
            return None  # parts of devices on one GPU are not evaluated
        if number <= _MOST_ON_A_GPU:  # a larger number fits on no GPU
            resources = [
                alternative.resource for alternative in together for _ in range(alternative.count)
            ]
            if any(capacity.fits_together(resources) for capacity in self._capacities):
                return None
        counts = Counter[str]()
        for alternative in together:
            counts[self._look_up(alternative).what] += alternative.count
        devices_text = ", ".join(f"{count} x {name}" for name, count in counts.items())
        able = [
            s
            for s in self._capacities
            if all(s.profiles(alternative.resource) for alternative in together)
        ]
        explanation = _explain(self._capacities, able, lambda capacity: False)
        return Verdict(
            Reason.CLAIM_NO_ROOM, f"no GPU has {devices_text} left together: {explanation}"
        )

    def _evaluate_alternative(self, alternative: ResolvedAlternative) -> Verdict | None:
        """Return why an alternative cannot be allocated; None if a node has room for it."""
        findings = self._look_up(alternative)
        max_room = max(findings.nodes.values(), default=0)
        if max_room >= alternative.count:
            return None
        if (largest := self._largest_memory(alternative)) and alternative.memory_bytes > largest:
            requested, has = map(quantity.format_bytes, (alternative.memory_bytes, largest))
            device_label = findings.what.removeprefix(f"{requested} of a ")
            message = f"no {device_label} has {requested}: it has {has}"
            return Verdict(Reason.CLAIM_NOT_OFFERED, message)
        if not findings.offered:
            message = f"no GPU offers {findings.what} to claims: {findings.explanation}"
            return Verdict(Reason.CLAIM_NOT_OFFERED, message)
        head = f"no {findings.what} left"
        if alternative.count > 1:
            head = f"no node has {alternative.count} x {findings.what} left"
            if max_room:
                best = min(node for node, room in findings.nodes.items() if room == max_room)
                head += f" (the most is {max_room} on {best})"
        return Verdict(Reason.CLAIM_NO_ROOM, f"{head}: {findings.explanation}")

    def _largest_memory(self, alternative: ResolvedAlternative) -> int:
        """Return the largest memory of the resource's devices; 0 if no GPU has one."""
        profiles = (
            profile
            for capacity in self._capacities
            for profile in capacity.profiles(alternative.resource)
        )
        return max((profile.memory_bytes for profile in profiles), default=0)

    def _look_up(self, alternative: ResolvedAlternative) -> _Resource:
        resource = alternative.resource
        if resource not in _RESOURCES:  # a class may name any resource: not cached
            label = resource.removeprefix(f"{claim_devices.ANY_MIG}-")
            return _Resource(label, {}, False, "no board has it")
        part = alternative.memory_bytes if self._sharing else 0
        if (resource, part) not in self._known:
            self._known[resource, part] = _inspect_resource(self._capacities, resource, part)
        return self._known[resource, part]

    def _describe_room(self, request: ResolvedRequest) -> str:
        alternative = next(
            candidate
            for candidate in request.alternatives
            if self._evaluate_alternative(candidate) is None
        )
        findings = self._look_up(alternative)
        best_nodes = nsmallest(
            _NAMED, findings.nodes, key=lambda node: (-findings.nodes[node], node)
        )
        named = ", ".join(f"{findings.nodes[node]} on {node}" for node in best_nodes)
        omitted_count = len(findings.nodes) - len(best_nodes)
        return f"{findings.what}, {named}" + (
            f" and {omitted_count} more nodes" if omitted_count else ""
        )


def _inspect_resource(
    capacities: Sequence[GpuCapacity], resource: str, part_bytes: int
) -> _Resource:
    """Return the findings for a resource or, with ``part_bytes``, for such parts of its devices."""
    able = [capacity for capacity in capacities if capacity.profiles(resource)]
    label = _resource_label(resource, able)
    return _Resource(
        f"{quantity.format_bytes(part_bytes)} of a {label}" if part_bytes else label,
        room_on_nodes(able, resource, part_bytes),
        any(capacity.offer is not Offer.PLUGIN for capacity in able),
        _explain(capacities, able, lambda capacity: bool(capacity.room(resource, part_bytes))),
    )


def _resource_label(resource: str, able: Sequence[GpuCapacity]) -> str:
    """Return the name of a resource for messages: the profile's name if a GPU has the profile."""
    if resource == geometry.WHOLE_RESOURCE:
        return "whole GPU"
    if resource in _VARIOUS:
        return "MIG device" if resource == claim_devices.ANY_MIG else "device"
    if able:
        return able[0].profiles(resource)[0].name
    return resource.removeprefix(f"{claim_devices.ANY_MIG}-")


def _explain(
    capacities: Sequence[GpuCapacity],
    able: Sequence[GpuCapacity],
    has_some: Callable[[GpuCapacity], bool],
) -> str:
    """Explain in one text why no GPU has enough room.

    ``able`` are the GPUs that have the profile; ``has_some`` returns whether a GPU has room,
    though not enough.
    """
    gpus = "1 GPU" if len(capacities) == 1 else f"{len(capacities)} GPUs"
    counts = ", ".join(_count_causes(capacities, able, has_some)) or "none"
    return f"of {gpus} {counts}" + "".join(
        _list_users(capacity for capacity in able if capacity.offer is Offer.OPEN)
    )


def _count_causes(
    capacities: Sequence[GpuCapacity],
    able: Sequence[GpuCapacity],
    has_some: Callable[[GpuCapacity], bool],
) -> Iterable[str]:
    """Yield, for each cause, a text with the number of GPUs that it makes unusable."""
    served = [capacity for capacity in able if capacity.offer is Offer.OPEN]
    full = [capacity for capacity in served if not has_some(capacity)]
    causes: tuple[tuple[str, int], ...] = (
        ("are given to pods by the device plugin alone", _count(able, _is_device_plugin_only)),
        ("are of boards without it", len(capacities) - len(able)),
        ("are out of service", _count(able, lambda capacity: capacity.offer is Offer.OUT)),
        ("have room for fewer", len(served) - len(full)),
        (
            "hold layouts",
            _count(full, lambda capacity: bool(capacity.layouts) and not capacity.claims),
        ),
        (
            "are held by claims",
            _count(full, lambda capacity: bool(capacity.claims) and not capacity.layouts),
        ),
        ("hold layouts and claims", _count(full, lambda s: bool(s.claims) and bool(s.layouts))),
        (
            "are empty",
            _count(full, lambda capacity: not capacity.taken),
        ),  # a single request exceeds the board
    )
    return (_agree(number, cause) for cause, number in causes if number)


def _agree(number: int, cause: str) -> str:
    """Return the number with a verb that agrees with it: "1 is held" or "2 are held"."""
    verb, _, predicate = cause.partition(" ")
    return f"{number} {_OF_ONE[verb] if number == 1 else verb} {predicate}"


def _is_device_plugin_only(capacity: GpuCapacity) -> bool:
    return capacity.offer is Offer.PLUGIN


def _count(capacities: Iterable[GpuCapacity], holds: Callable[[GpuCapacity], bool]) -> int:
    return sum(map(holds, capacities))


def _list_users(capacities: Iterable[GpuCapacity]) -> Iterable[str]:
    """Yield the names of the GPUs' users, those with the most GPUs first."""
    layouts, claims, pods = Counter[str](), Counter[str](), Counter[str]()
    for capacity in capacities:
        layouts.update(filter(None, capacity.layouts))
        claims.update(capacity.claims)
        pods.update(capacity.pods)
    for noun, names in (("layouts", layouts), ("claims", claims), ("pods of the plugin", pods)):
        if names:
            ranked_names = sorted(names, key=lambda name: (-names[name], name))
            yield f"; {noun}: {list_first(ranked_names, _NAMED)}"
