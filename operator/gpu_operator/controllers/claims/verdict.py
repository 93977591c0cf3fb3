"""Why a claim waits, in a sentence: what is full, and who has it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from gpu_operator.api import claim_devices
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.room import Offer, Seat, on_nodes
from gpu_operator.controllers.claims.wanting import Wanted, WantedRequest, Wish
from mig import geometry

_MOST_ON_A_GPU: Final = 16  # instances; no board has room for more
_RESOURCES: Final = frozenset(
    {claim_devices.ANY, claim_devices.ANY_MIG, geometry.WHOLE_RESOURCE}
    | {one.resource_name for board in geometry.BOARDS.values() for one in board.profiles}
)
_VARIOUS: Final = (claim_devices.ANY, claim_devices.ANY_MIG)
_OF_ONE: Final = {"are": "is", "have": "has", "hold": "holds"}
_NAMED: Final = 3  # of those who hold something; an event's message has 1,024 characters


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a claim waits."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _Resource:
    """What was found of a resource: how many devices of it each node has left, and what to say."""

    what: str
    nodes: Mapping[str, int]
    offered: bool
    told: str


class Judge:
    """Judges claims by the GPUs as they are now; what was found for a resource holds for all."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._known: dict[tuple[str, int], _Resource] = {}
        self._sharing = any(seat.sharing for seat in seats)

    def verdict(self, wish: Wish) -> Verdict:
        """Return what is in the way of what a claim wants."""
        for request in wish.requests:
            found = self._of_request(request)
            if found is not None:
                return Verdict(found.reason, f"request {request.name}: {found.message}")
        together = self._of_one_gpu(wish.together)
        if together is not None:
            return together
        rooms = "; ".join(f"{one.name}: {self._room(one)}" for one in wish.requests[:_NAMED])
        return Verdict(
            Reason.CLAIM_UNMATCHED,
            f"there is room for each request by itself ({rooms}). What keeps the scheduler from it"
            " is not asked here: the rest of the claim's and its classes' selectors,"
            " constraints, all its requests together, taints, or what the pod says about nodes",
        )

    def _of_request(self, request: WantedRequest) -> Verdict | None:
        """Return what is in the way of a request; None: there is room for an alternative."""
        found = [self._of_alternative(wanted) for wanted in request.alternatives]
        full = [one for one in found if one is not None]
        if len(full) < len(found):
            return None
        no_room = [one for one in full if one.reason is Reason.CLAIM_NO_ROOM]
        first = (no_room or full)[0]
        return Verdict(first.reason, first.message + ("; no alternative" * (len(full) > 1)))

    def _of_one_gpu(self, together: Sequence[Wanted]) -> Verdict | None:
        """Return what is in the way of devices that are to be on one GPU; None: nothing."""
        number = sum(one.count for one in together)
        if number < 2 or any(one.resource in _VARIOUS for one in together):
            return None
        if self._sharing and any(one.memory_bytes for one in together):
            return None  # parts of devices of one GPU: that is not looked at
        if number <= _MOST_ON_A_GPU:  # else there is no such GPU
            resources = [one.resource for one in together for _ in range(one.count)]
            if any(seat.holds(resources) for seat in self._seats):
                return None
        counts = Counter[str]()
        for one in together:
            counts[self._of(one).what] += one.count
        what = ", ".join(f"{count} x {name}" for name, count in counts.items())
        able = [s for s in self._seats if all(s.profiles(one.resource) for one in together)]
        told = _explained(self._seats, able, lambda seat: False)
        return Verdict(Reason.CLAIM_NO_ROOM, f"no GPU has {what} left together: {told}")

    def _of_alternative(self, wanted: Wanted) -> Verdict | None:
        """Return what is in the way of one wish; None: there is room on some node."""
        found = self._of(wanted)
        most = max(found.nodes.values(), default=0)
        if most >= wanted.count:
            return None
        if (largest := self._largest(wanted)) and wanted.memory_bytes > largest:
            asked, has = map(quantity.of_bytes, (wanted.memory_bytes, largest))
            message = f"no {found.what.removeprefix(f'{asked} of a ')} has {asked}: it has {has}"
            return Verdict(Reason.CLAIM_NOT_OFFERED, message)
        if not found.offered:
            message = f"no GPU offers {found.what} to claims: {found.told}"
            return Verdict(Reason.CLAIM_NOT_OFFERED, message)
        head = f"no {found.what} left"
        if wanted.count > 1:
            head = f"no node has {wanted.count} x {found.what} left"
            if most:
                best = min(node for node, room in found.nodes.items() if room == most)
                head += f" (the most is {most} on {best})"
        return Verdict(Reason.CLAIM_NO_ROOM, f"{head}: {found.told}")

    def _largest(self, wanted: Wanted) -> int:
        """Return the most memory that a device of the resource has; 0: no GPU has one."""
        profiles = (one for seat in self._seats for one in seat.profiles(wanted.resource))
        return max((one.memory_bytes for one in profiles), default=0)

    def _of(self, wanted: Wanted) -> _Resource:
        resource = wanted.resource
        if resource not in _RESOURCES:  # whatever somebody calls a class: nothing is kept of it
            what = resource.removeprefix(f"{claim_devices.ANY_MIG}-")
            return _Resource(what, {}, False, "no board has it")
        part = wanted.memory_bytes if self._sharing else 0
        if (resource, part) not in self._known:
            self._known[resource, part] = _looked(self._seats, resource, part)
        return self._known[resource, part]

    def _room(self, request: WantedRequest) -> str:
        wanted = next(one for one in request.alternatives if self._of_alternative(one) is None)
        found = self._of(wanted)
        most = nsmallest(_NAMED, found.nodes, key=lambda node: (-found.nodes[node], node))
        named = ", ".join(f"{found.nodes[node]} on {node}" for node in most)
        more = len(found.nodes) - len(most)
        return f"{found.what}, {named}" + (f" and {more} nodes more" if more else "")


def _looked(seats: Sequence[Seat], resource: str, part_bytes: int) -> _Resource:
    """Look for a resource, or for parts of it with so much memory."""
    able = [seat for seat in seats if seat.profiles(resource)]
    what = _what(resource, able)
    return _Resource(
        f"{quantity.of_bytes(part_bytes)} of a {what}" if part_bytes else what,
        on_nodes(able, resource, part_bytes),
        any(seat.offer is not Offer.PLUGIN for seat in able),
        _explained(seats, able, lambda seat: bool(seat.room(resource, part_bytes))),
    )


def _what(resource: str, able: Sequence[Seat]) -> str:
    """Return what a resource is called: by the profile's name where some GPU has it."""
    if resource == geometry.WHOLE_RESOURCE:
        return "whole GPU"
    if resource in _VARIOUS:
        return "MIG device" if resource == claim_devices.ANY_MIG else "device"
    if able:
        return able[0].profiles(resource)[0].name
    return resource.removeprefix(f"{claim_devices.ANY_MIG}-")


def _explained(
    seats: Sequence[Seat], able: Sequence[Seat], has_some: Callable[[Seat], bool]
) -> str:
    """Say what became of all GPUs. ``able`` have the profile; ``has_some``: room, if not enough."""
    gpus = "1 GPU" if len(seats) == 1 else f"{len(seats)} GPUs"
    counts = ", ".join(_counts(seats, able, has_some)) or "none"
    return f"of {gpus} {counts}" + "".join(_who(one for one in able if one.offer is Offer.OPEN))


def _counts(
    seats: Sequence[Seat], able: Sequence[Seat], has_some: Callable[[Seat], bool]
) -> Iterable[str]:
    """Yield how many GPUs are no use, for each cause of it."""
    served = [seat for seat in able if seat.offer is Offer.OPEN]
    full = [seat for seat in served if not has_some(seat)]
    causes: tuple[tuple[str, int], ...] = (
        ("are given to pods by the device plugin alone", _number(able, _is_plugins)),
        ("are of boards without it", len(seats) - len(able)),
        ("are out of service", _number(able, lambda seat: seat.offer is Offer.OUT)),
        ("have room for fewer", len(served) - len(full)),
        ("hold layouts", _number(full, lambda seat: bool(seat.layouts) and not seat.claims)),
        ("are held by claims", _number(full, lambda seat: bool(seat.claims) and not seat.layouts)),
        ("hold layouts and claims", _number(full, lambda s: bool(s.claims) and bool(s.layouts))),
        ("are empty", _number(full, lambda seat: not seat.taken)),  # it is too much for a board
    )
    return (_agreeing(number, what) for what, number in causes if number)


def _agreeing(number: int, what: str) -> str:
    """Return "1 is held", "2 are held"."""
    verb, _, rest = what.partition(" ")
    return f"{number} {_OF_ONE[verb] if number == 1 else verb} {rest}"


def _is_plugins(seat: Seat) -> bool:
    return seat.offer is Offer.PLUGIN


def _number(seats: Iterable[Seat], holds: Callable[[Seat], bool]) -> int:
    return sum(map(holds, seats))


def _who(seats: Iterable[Seat]) -> Iterable[str]:
    """Yield who has the GPUs: those first that have the most of them."""
    layouts, claims, pods = Counter[str](), Counter[str](), Counter[str]()
    for seat in seats:
        layouts.update(filter(None, seat.layouts))
        claims.update(seat.claims)
        pods.update(seat.pods)
    for noun, names in (("layouts", layouts), ("claims", claims), ("pods of the plugin", pods)):
        if names:
            most = sorted(names, key=lambda name: (-names[name], name))
            yield f"; {noun}: {_listed(most)}"


def _listed(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
