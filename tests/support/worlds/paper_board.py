"""A board with round figures, and the norm of overlapping parts, for equations computed by hand."""

from collections.abc import Iterable
from dataclasses import replace

from vgpu_sim.perf.boards import Board, Figure, Source
from vgpu_sim.perf.parameters import Parameter


def on_paper(value: float) -> Figure:
    return Figure(value, Source.DERIVED, "on paper")


# 10 SMs at 1 GHz, 1 MB of L2; per microsecond 10^6 bytes of DRAM and 10^8 operations in bf16.
HOPPER = Board(
    *("paper", "Paper", "Hopper", (9, 0)),
    *map(on_paper, (10, 1.0, 1.0, 228, 1000, 80, 700, 400, 50, 10)),
    {"bf16": on_paper(100.0), "fp8": on_paper(200.0)},
)
BLACKWELL = replace(HOPPER, architecture="Blackwell", compute_capability=(10, 0))
AMPERE = replace(HOPPER, architecture="Ampere", compute_capability=(8, 0))
PCIE = replace(HOPPER, architecture="Ada", compute_capability=(8, 9), link_gb_per_s=on_paper(50.0))
SMS, CLOCKS, L2, DRAM, FLOP = 10, 1e3, 1e6, 1e6, 1e8  # clocks, bytes and operations per microsecond


def beside(a: float, b: float, p: float) -> float:
    """Add two overlapping parts by the norm."""
    return float((a**p + b**p) ** (1 / p))


def values(parameters: Iterable[Parameter], **own: float) -> dict[str, float]:
    """Return every parameter at its start value, changed by a different share for each."""
    found = {one.name: one.start * (1 + 0.01 * i) for i, one in enumerate(parameters, 1)}
    assert set(own) <= set(found)
    return found | own
