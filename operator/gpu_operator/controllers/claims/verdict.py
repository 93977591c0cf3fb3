"""Why a claim waits, in a sentence: what is full, and who has it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_operator.api import claim_devices
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.controllers.claims.reading import Claim, Request, Wanted
from gpu_operator.controllers.claims.room import Offer, Seat, on_nodes
from mig import geometry

_OF_ONE: Final = {"are": "is", "have": "has", "hold": "holds"}
_NAMED: Final = 3  # of those who hold something; an event's message has 1,024 characters


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a claim waits."""

    reason: Reason
    message: str


class Judge:
    """Judges claims by the GPUs as they are now; what was found for one wish holds for all."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._known: dict[Wanted, Verdict | None] = {}

    def verdict(self, claim: Claim) -> Verdict | None:
        """Return what is in a claim's way; None: it wants nothing."""
        for request in claim.requests:
            found = self._of_request(request)
            if found is not None:
                return Verdict(found.reason, f"request {request.name}: {found.message}")
        if not claim.requests:
            return None
        rooms = "; ".join(f"{one.name}: {self._room(one)}" for one in claim.requests[:_NAMED])
        return Verdict(
            Reason.CLAIM_UNMATCHED,
            f"there is room for each request by itself ({rooms}). What keeps the scheduler from it"
            " is not asked here: the claim's selectors and constraints, all its requests together,"
            " taints, or what the pod says about nodes",
        )

    def _of_request(self, request: Request) -> Verdict | None:
        """Return what is in the way of a request; None: there is room for an alternative."""
        found = [self._of(wanted) for wanted in request.alternatives]
        full = [one for one in found if one is not None]
        if len(full) < len(found):
            return None
        no_room = [one for one in full if one.reason is Reason.CLAIM_NO_ROOM]
        first = (no_room or full)[0]
        return Verdict(first.reason, first.message + ("; no alternative" * (len(full) > 1)))

    def _of(self, wanted: Wanted) -> Verdict | None:
        if wanted not in self._known:
            self._known[wanted] = _judged(self._seats, wanted)
        return self._known[wanted]

    def _room(self, request: Request) -> str:
        wanted = next(one for one in request.alternatives if self._of(one) is None)
        nodes = on_nodes(self._seats, wanted.resource)
        most = sorted(nodes, key=lambda node: (-nodes[node], node))
        named = _listed(f"{nodes[node]} on {node}" for node in most)
        return f"{_what(wanted, self._seats)}, {named}"


def _judged(seats: Sequence[Seat], wanted: Wanted) -> Verdict | None:
    nodes = on_nodes(seats, wanted.resource)
    if any(count >= wanted.count for count in nodes.values()):
        return None
    able = [seat for seat in seats if seat.profiles(wanted.resource)]
    offered = [seat for seat in able if seat.offer is not Offer.PLUGIN]
    what = _what(wanted, seats)
    counts = ", ".join(_counts(seats, able, wanted))
    if not offered:
        message = f"no GPU offers {what} to claims: of {_gpus(seats)} {counts or 'none'}"
        return Verdict(Reason.CLAIM_NOT_OFFERED, message)
    head = f"no {what} left"
    if wanted.count > 1:
        head = f"no node has {wanted.count} x {what} left"
        if nodes:
            best = max(sorted(nodes), key=lambda node: nodes[node])
            head += f" (the most is {nodes[best]} on {best})"
    who = "".join(_who(seat for seat in offered if seat.offer is Offer.OPEN))
    return Verdict(Reason.CLAIM_NO_ROOM, f"{head}: of {_gpus(seats)} {counts}{who}")


def _what(wanted: Wanted, seats: Iterable[Seat]) -> str:
    """Return what a wish is called: by the profile's name where some board has it."""
    if wanted.resource == geometry.WHOLE_RESOURCE:
        return "whole GPU"
    if wanted.resource == claim_devices.ANY_MIG:
        return "MIG device"
    names = (one.name for seat in seats for one in seat.profiles(wanted.resource))
    return next(names, wanted.resource.removeprefix(f"{claim_devices.ANY_MIG}-"))


def _gpus(seats: Sequence[Seat]) -> str:
    return "1 GPU" if len(seats) == 1 else f"{len(seats)} GPUs"


def _counts(seats: Sequence[Seat], able: Sequence[Seat], wanted: Wanted) -> Iterable[str]:
    """Yield how many GPUs are no use, for each cause of it."""
    served = [seat for seat in able if seat.offer is Offer.OPEN]
    full = [seat for seat in served if not seat.room(wanted.resource)]
    causes: tuple[tuple[str, int], ...] = (
        ("are given to pods by the device plugin alone", _number(able, _is_plugins)),
        ("are of boards without it", len(seats) - len(able)),
        ("are out of service", _number(able, lambda seat: seat.offer is Offer.OUT)),
        ("have room for fewer", len(served) - len(full)),
        ("hold layouts", _number(full, lambda seat: bool(seat.layouts) and not seat.claims)),
        ("are held by claims", _number(full, lambda seat: bool(seat.claims) and not seat.layouts)),
        ("hold layouts and claims", _number(full, lambda s: bool(s.claims) and bool(s.layouts))),
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
