"""Sums and differences of counters. Workers' reports come from tenants and are bounded here."""

from dataclasses import fields
from typing import Final

from vgpu_sim.hal.management.admin import Counters

MAX_COUNT: Final = (1 << 63) - 1
_NAMES: Final = tuple(field.name for field in fields(Counters))
TIMES: Final = tuple(name for name in _NAMES if name.endswith("_ns"))


def total(*parts: Counters) -> Counters:
    """Return the sum of several contexts' counters, field by field, saturating at 63 bits."""
    return Counters(
        **{name: min(MAX_COUNT, sum(getattr(part, name) for part in parts)) for name in _NAMES}
    )


def difference(later: Counters, earlier: Counters) -> Counters:
    """Return the increase of each counter from an earlier to a later reading. A counter that has
    decreased gives 0.
    """
    return Counters(
        **{name: max(0, getattr(later, name) - getattr(earlier, name)) for name in _NAMES}
    )


def bound_report(reported: Counters, earlier_report: Counters, lived_ns: int) -> Counters:
    """Return the report of a context, limited to values that are plausible after the context's
    previous report, ``earlier_report``.

    No counter decreases, and no time exceeds the context's age, ``lived_ns``. All times except
    ``memory_ns`` are counted only while kernels run. They are at most ``busy_ns``, the total
    time in which kernels ran.
    """
    values = {name: max(getattr(reported, name), getattr(earlier_report, name)) for name in _NAMES}
    longest = max(lived_ns, earlier_report.busy_ns)
    values["busy_ns"] = min(values["busy_ns"], longest)
    for name in TIMES:
        # Copies do not count as kernels.
        limit_ns = longest if name == "memory_ns" else values["busy_ns"]
        values[name] = max(getattr(earlier_report, name), min(values[name], limit_ns))
    values["sm_occupancy_ns"] = max(
        earlier_report.sm_occupancy_ns, min(values["sm_occupancy_ns"], values["sm_active_ns"])
    )
    return Counters(**{name: min(value, MAX_COUNT) for name, value in values.items()})
