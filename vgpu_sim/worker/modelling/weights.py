"""Weigh the counters of a kernel: what one more pass over their code takes on the hardware."""

from collections.abc import Sequence

from vgpu_sim.isa import Instruction
from vgpu_sim.perf.kernels import unrolling
from vgpu_sim.perf.kernels.scoreboard import passes


def weigh(
    code: Sequence[Instruction], groups: Sequence[Sequence[int]]
) -> list[tuple[float, float]]:
    """Return the (cycles, issues) of one more pass of a warp over each group of words."""
    kept = unrolling.kept(code)
    return [passes(code, words, kept) for words in groups]
