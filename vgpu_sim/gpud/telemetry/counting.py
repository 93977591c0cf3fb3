"""Sums and differences of counters. What workers report is a tenant's word: it is bounded here."""

from dataclasses import fields
from typing import Final

from vgpu_sim.hal.management.admin import Counters

MAX_COUNT: Final = (1 << 63) - 1
_NAMES: Final = tuple(field.name for field in fields(Counters))
TIMES: Final = tuple(name for name in _NAMES if name.endswith("_ns"))


def total(*parts: Counters) -> Counters:
    """Return the sum; what would not fit 63 bits stays at the most that does."""
    return Counters(
        **{name: min(MAX_COUNT, sum(getattr(one, name) for one in parts)) for name in _NAMES}
    )


def difference(later: Counters, earlier: Counters) -> Counters:
    """Return what was added in between, never less than nothing."""
    return Counters(
        **{name: max(0, getattr(later, name) - getattr(earlier, name)) for name in _NAMES}
    )


def bounded(reported: Counters, before: Counters, lived_ns: int) -> Counters:
    """Return what is believed of a context's report, given the one before.

    Nothing decreases; no time is longer than the context has lived, and of what is a part of the
    time in which kernels ran none is longer than that.
    """
    values = {name: max(getattr(reported, name), getattr(before, name)) for name in _NAMES}
    longest = max(lived_ns, before.busy_ns)
    values["busy_ns"] = min(values["busy_ns"], longest)
    for name in TIMES:
        most = longest if name == "memory_ns" else values["busy_ns"]  # copies are no kernels
        values[name] = max(getattr(before, name), min(values[name], most))
    values["sm_occupancy_ns"] = max(
        before.sm_occupancy_ns, min(values["sm_occupancy_ns"], values["sm_active_ns"])
    )
    return Counters(**{name: min(value, MAX_COUNT) for name, value in values.items()})
