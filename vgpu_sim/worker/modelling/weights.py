"""Weights for the counters of a kernel: the cost on hardware of executing the counted code once
more.
"""

from collections.abc import Sequence

from vgpu_sim.isa import Function
from vgpu_sim.perf.kernels import units, unrolling
from vgpu_sim.perf.kernels.scoreboard import execution_cost
from vgpu_sim.worker.observing.dependence import polling_loops


def weigh(function: Function, groups: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Return, for each group of instructions, the cost to a warp of executing the group once more,
    as (cycles, issues). A group holds indices into the code. Loops that poll memory cost nothing:
    how often a thread polls depends on this machine.
    """
    issue_shares = unrolling.issue_shares(function.code, units.parts_of(function))
    polled = {word for loop in polling_loops(function) for word in loop.words}
    return [
        execution_cost(function.code, [word for word in words if word not in polled], issue_shares)
        for words in groups
    ]
