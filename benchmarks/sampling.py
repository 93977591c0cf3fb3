"""The cost of a modelled clock: kernels are sampled when a shape first runs."""

import json
import sys
from collections.abc import Iterator

from benchmarks import on_slice
from benchmarks.report import Row, Section
from vgpu_sim.hal.observe.modelled_report import CLOCKS, MODELLED, WALL

NAME = "sampling"
_LAUNCHES = 100
_ELEMENTS = 1 << 24
_ORDER = 1024
_ROUNDS = 3
_LEAST_MS = 10  # the goal applies to kernels of at least this duration
_GOAL_PERCENT = 10

_Times = dict[str, dict[str, float]]  # by kernel: seconds of "first" and of "all"


def measure(
    launches: int = _LAUNCHES,
    elements: int = _ELEMENTS,
    order: int = _ORDER,
    rounds: int = _ROUNDS,
) -> Section:
    """Run the same launches with either clock, alternately. Raises ProgramFailed."""
    command = [sys.executable, "-m", "benchmarks.sampling_client"]
    command += map(str, (launches, elements, order))
    times: dict[str, list[_Times]] = {clock: [] for clock in CLOCKS}
    for _ in range(rounds):
        for clock, runs in times.items():
            runs.append(json.loads(on_slice.run(command, clock=clock)))
    wall, modelled = (
        {
            kernel: {part: min(run[kernel][part] for run in times[clock]) for part in parts}
            for kernel, parts in times[clock][0].items()
        }
        for clock in (WALL, MODELLED)
    )
    sizes = {"vecadd": f"{elements} elements", "sgemm": f"order {order}"}
    return Section(
        NAME,
        tuple(
            row
            for kernel in wall
            for row in _rows(f"{kernel}, {sizes[kernel]}", launches, wall[kernel], modelled[kernel])
        ),
    )


def _rows(
    name: str, launches: int, wall: dict[str, float], modelled: dict[str, float]
) -> Iterator[Row]:
    kernel_ms = 1e3 * wall["all"] / launches
    extra_s = modelled["all"] - wall["all"]
    missing = "" if kernel_ms >= _LEAST_MS else f"the kernel takes less than {_LEAST_MS} ms here"
    yield Row(NAME, f"{name}: a launch", kernel_ms, "ms")
    yield Row(NAME, "  the first one with a modelled clock", 1e3 * modelled["first"], "ms")
    yield Row(
        NAME,
        f"  more for the clock, of a run of {launches}",
        100 * extra_s / modelled["all"],
        "%",
        _GOAL_PERCENT,
        missing=missing,
    )
