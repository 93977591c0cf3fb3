"""Weights for the counters of a kernel: the cost on hardware of executing the counted code once
more.
"""

from collections.abc import Sequence

from vgpu_sim.isa import Instruction
from vgpu_sim.perf.kernels import unrolling
from vgpu_sim.perf.kernels.scoreboard import execution_cost


def weigh(
    code: Sequence[Instruction], groups: Sequence[Sequence[int]]
) -> list[tuple[float, float]]:
    """Return, for each group of instructions, the cost to a warp of executing the group once more,
    as (cycles, issues). A group holds indices into ``code``.
    """
    kept = unrolling.issue_shares(code)
    return [execution_cost(code, words, kept) for words in groups]
