"""``tessera run --stats``: the report from gpud's events."""

from typing import Any

from vgpu_sim.cli.run.run_stats import Totals

USED = {"modules": 1, "modules_ns": 2_500_000_000, "compiled": 3, "cached": 4, "shapes": 5}
TIERS = {"provisional": 2, "improved": 1, "swapped": 3, "refused": 0}


def usage(*kernels: tuple[str, int, int]) -> dict[str, Any]:
    rows = [{"kernel": name, "launches": n, "busy_ns": ns} for name, n, ns in kernels]
    return {"event": "usage", "kernels": rows, "shapes_ns": 6_000_000, **USED, **TIERS}


def lines(*events: dict[str, Any]) -> list[str]:
    totals = Totals()
    for event in events:
        totals.add_event(event)
    return list(totals.lines())


STARTED, ENDED = {"event": "context_started"}, {"event": "context_ended"}
NO_KERNEL_S = {"event": "fault", "kernel": "", "message": "the worker ended: killed"}


def test_what_all_contexts_did_is_summed_up_and_the_longest_kernel_is_first() -> None:
    one = usage(("short", 2, 1_000), ("long", 1, 4_000_000))
    other = usage(("short", 3, 1_001), ("once", 1, 1_000_000_000))
    assert lines(STARTED, STARTED, one, ENDED, NO_KERNEL_S, other, ENDED) == [
        "contexts: 2",
        "  launches     total ms      mean us  kernel",
        "         1     1000.000    1000000.0  once",
        "         1        4.000       4000.0  long",
        "         5        0.002          0.4  short",
        "modules loaded: 2 in 5.000 s, 6 compiled, 8 from the cache",
        "kernels compiled for a block shape: 10 in 0.012 s",
        "  4 of them first as narrow code, 2 improved since; launches improved while they ran: 6",
    ]


def test_nothing_is_counted_that_no_context_reported() -> None:
    nothing = [
        "modules loaded: 0 in 0.000 s, 0 compiled, 0 from the cache",
        "kernels compiled for a block shape: 0 in 0.000 s",
    ]
    assert lines() == ["contexts: 0", *nothing]
    missed = "contexts that are still alive and not counted: 1"
    assert lines(STARTED, STARTED, ENDED) == ["contexts: 2", *nothing, missed]


def test_objects_that_could_not_be_used_are_reported() -> None:
    report = lines(STARTED, {**usage(), "refused": 2}, {**usage(), "refused": 1}, ENDED)
    assert report[-1] == "unusable objects in the cache: 3"


def test_a_kernel_is_counted_to_the_nanosecond() -> None:
    totals = Totals()
    totals.add_event(usage(("k", 1, 7), ("k", 2, 8)))
    assert totals.kernels == {"k": [3, 15]}
