"""The stock scheduler's allocation of ResourceClaims, by its rules (Kubernetes 1.36).

This is a small part of its structured allocator, for one node: devices are tried in the order of
publication and the first that fits a request is chosen, with backtracking if a later request
does not fit. A device is allocated once, or until its capacities are consumed if it allows
multiple allocations; shared counters are never exceeded, and constraints hold. CEL is supported
as far as Python reads it alike: ``&&`` and ``||``, comparisons, and the functions of strings,
quantities and versions that manifests here use. As in CEL, an attribute that a device lacks is
an error.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from kubernetes.utils import parse_quantity

Document = dict[str, Any]
Consumed = Mapping[str, Decimal]
"""The capacities that a request consumes of a device that allows multiple allocations."""
Chosen = tuple[int, str, str, bool, Consumed | None]
"""Claim, request, device, whether by admin access, and the consumed capacities; None: the device is
allocated exclusively.
"""


class Text(str):
    """A string with CEL's string functions."""

    def lowerAscii(self) -> "Text":
        return Text(self.lower())

    def matches(self, pattern: str) -> bool:
        return re.search(pattern, self) is not None


@dataclass(frozen=True)
class Ordered:
    """A quantity or a version."""

    value: Any

    def compareTo(self, other: "Ordered") -> int:
        return int(self.value > other.value) - int(self.value < other.value)

    def isGreaterThan(self, other: "Ordered") -> bool:
        return bool(self.value > other.value)


def quantity(text: str) -> Ordered:
    return Ordered(parse_quantity(text))


def semver(text: str) -> Ordered:
    return Ordered(tuple(map(int, text.split("."))))


def holds(expression: str, driver: str, device: Document) -> bool:
    """Evaluate a selector's expression for a device."""
    values: dict[str, dict[str, Any]] = {}
    for name, one in device["attributes"].items():
        domain, _, own = name.rpartition("/")
        values.setdefault(domain or driver, {})[own] = _value(one)
    capacity = {name: quantity(one["value"]) for name, one in device["capacity"].items()}
    seen = SimpleNamespace(
        driver=driver,
        attributes={domain: SimpleNamespace(**found) for domain, found in values.items()},
        capacity={driver: SimpleNamespace(**capacity)},
    )
    text = expression.replace("&&", " and ").replace("||", " or ")
    known = {"__builtins__": {}, "device": seen, "quantity": quantity, "semver": semver}
    found = eval(f"({text})", known)
    assert isinstance(found, bool), expression
    return found


def _value(attribute: Document) -> Any:
    ((kind, value),) = attribute.items()
    return {"string": Text, "version": semver, "int": int, "bool": bool}[kind](value)


@dataclass
class Scheduler:
    """One node and its allocated devices. ``classes`` are the expressions of DeviceClasses."""

    slices: Mapping[str, Document]
    classes: dict[str, str]
    taken: list[str] = field(default_factory=list)
    shares: dict[str, list[Consumed]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        specs = [self.slices[name] for name in sorted(self.slices)]
        self.driver = specs[0]["driver"]
        self.devices = {d["name"]: d for spec in specs for d in spec.get("devices", ())}
        self.counters = {
            one["name"]: _numbers(one["counters"])
            for spec in specs
            for one in spec.get("sharedCounters", ())
        }

    def allocate(self, *claims: Document) -> list[list[str]] | None:
        """Return the devices of each claim (``spec.devices``), or None if they cannot be
        allocated.
        """
        requests = [(n, one) for n, claim in enumerate(claims) for one in claim["requests"]]
        found = next(self._filled(claims, requests, []), None)
        if found is None:
            return None
        for _, _, device, admin, consumed in found:
            if consumed is not None and not admin:
                self.shares.setdefault(device, []).append(consumed)
            elif not admin:
                self.taken.append(device)
        return [[device for n, _, device, *_ in found if n == at] for at in range(len(claims))]

    def _filled(
        self,
        claims: Sequence[Document],
        requests: Sequence[tuple[int, Document]],
        chosen: list[Chosen],
    ) -> Iterator[list[Chosen]]:
        """Yield every way to serve the requests, the scheduler's choice first."""
        if not requests:
            yield chosen
            return
        (at, request), *rest = requests
        exactly = request.get("exactly")
        for wanted in [exactly] if exactly else request["firstAvailable"]:
            able = [name for name in self.devices if self._selects(wanted, name)]
            every = wanted.get("allocationMode") == "All"
            count = len(able) if every else wanted.get("count", 1)
            admin = bool(wanted.get("adminAccess"))
            slots = [(at, request["name"], admin, wanted)] * count
            for more in self._chosen(claims[at], able, slots, chosen) if count else ():
                yield from self._filled(claims, rest, more)

    def _chosen(
        self,
        claim: Document,
        able: Sequence[str],
        slots: Sequence[tuple[int, str, bool, Document]],
        chosen: list[Chosen],
    ) -> Iterator[list[Chosen]]:
        if not slots:
            yield chosen
            return
        (at, request, admin, wanted), *rest = slots
        for name in able:
            consumed = self._consumed(wanted, name)
            more = [*chosen, (at, request, name, admin, consumed)]
            names = [one[2] for one in chosen]
            if consumed is None:
                free = name not in names and (admin or name not in self.taken)
            else:
                free = name not in self.taken and self._is_left(name, consumed, chosen)
            if free and self._fits([*names, name]) and self._agree(claim, at, more):
                yield from self._chosen(claim, able, rest, more)

    def _shareable(self, name: str) -> bool:
        return bool(self.devices[name].get("allowMultipleAllocations"))

    def _consumed(self, wanted: Document, name: str) -> Consumed | None:
        """Return the part of each capacity of a device that a request consumes
        (GetConsumedCapacity...).
        """
        if not self._shareable(name):
            return None
        requested = (wanted.get("capacity") or {}).get("requests", {})
        return {
            what: _consumption(requested.get(what), capacity)
            for what, capacity in self.devices[name]["capacity"].items()
        }

    def _is_left(self, name: str, wanted: Consumed, chosen: Iterable[Chosen]) -> bool:
        beside = [*self.shares.get(name, ()), *(one[4] for one in chosen if one[2] == name)]
        return all(
            sum((one[what] for one in beside if one is not None), much)
            <= parse_quantity(self.devices[name]["capacity"][what]["value"])
            for what, much in wanted.items()
        )

    def _selects(self, wanted: Document, name: str) -> bool:
        device = self.devices[name]
        expressions = [self.classes[wanted["deviceClassName"]]]
        expressions += [one["cel"]["expression"] for one in wanted.get("selectors", ())]
        least = (wanted.get("capacity") or {}).get("requests", {})
        return all(holds(one, self.driver, device) for one in expressions) and all(
            parse_quantity(device["capacity"][what]["value"]) >= parse_quantity(much)
            for what, much in least.items()  # for a consumed capacity, too
        )

    def _fits(self, names: Iterable[str]) -> bool:
        used: dict[str, Counter[str]] = {name: Counter() for name in self.counters}
        shared = [
            *self.shares,
            *filter(self._shareable, names),
        ]  # counted once, however many claims share it
        alone = [name for name in names if not self._shareable(name)]
        for name in (*self.taken, *alone, *dict.fromkeys(shared)):
            for one in self.devices[name]["consumesCounters"]:
                used[one["counterSet"]].update(_numbers(one["counters"]))
        return all(
            count <= self.counters[name].get(counter, 0)
            for name, counts in used.items()
            for counter, count in counts.items()
        )

    def _agree(self, claim: Document, at: int, chosen: Iterable[Chosen]) -> bool:
        own = [(request, device) for n, request, device, *_ in chosen if n == at]
        for constraint in claim.get("constraints", ()):
            attribute = constraint["matchAttribute"].removeprefix(f"{self.driver}/")
            concerned = constraint.get("requests") or [one["name"] for one in claim["requests"]]
            values = {
                str(self.devices[device]["attributes"].get(attribute, device))
                for request, device in own
                if request in concerned
            }
            if len(values) > 1:
                return False
        return True


def _consumption(requested: str | None, capacity: Document) -> Decimal:
    """Return the consumption of a capacity, as calculateConsumedCapacity of Kubernetes 1.36."""
    policy = capacity.get("requestPolicy") or {}
    if requested is None:
        return Decimal(parse_quantity(policy.get("default", capacity["value"])))
    wanted = Decimal(parse_quantity(requested))
    if "validRange" not in policy:
        return wanted
    least, step = (Decimal(parse_quantity(policy["validRange"][one])) for one in ("min", "step"))
    above = max(Decimal(0), wanted - least)
    return least + -(-above // step) * step


def _numbers(counters: Document) -> dict[str, int]:
    return {name: int(one["value"]) for name, one in counters.items()}
