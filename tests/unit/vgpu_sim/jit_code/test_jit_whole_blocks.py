"""Blocks as one group on CPUs whose registers hold fewer lanes than a vector of lanes."""

from pathlib import Path

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.planning import choose, full_unrolling
from vgpu_sim.exec.jit.planning.plan import Block

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"


def _choose_plan(name: str, block: Block, vector_bits: int) -> jit.Plan:
    text = (_KERNELS / f"{name}.ptx").read_text()
    function = compile_ptx(text, capability=(9, 0)).functions[0]
    return choose.choose(full_unrolling.build(function, block), block, vector_bits)


@pytest.mark.parametrize(
    ("name", "block", "plan"),
    [
        ("reduction", (256, 1, 1), jit.Plan(16, 16)),
        ("reduction", (128, 1, 1), jit.Plan(8, 16)),  # one group anyway
        ("halo_stencil", (32, 8, 1), jit.Plan(16, 16)),
        ("layernorm", (256, 1, 1), jit.Plan(16, 16)),  # its loops contain no wait point
    ],
)
def test_blocks_that_wait_outside_of_loops_are_one_group(
    name: str, block: Block, plan: jit.Plan
) -> None:
    assert _choose_plan(name, block, 256) == plan


def test_blocks_that_wait_in_loops_have_vectors_of_one_register() -> None:
    assert _choose_plan("sgemm_tiled", (16, 16, 1), 256).width == 8


def test_cpus_with_wide_vectors_choose_the_same_plans() -> None:
    assert _choose_plan("halo_stencil", (32, 8, 1), 512) == jit.Plan(16, 16)
    assert _choose_plan("sgemm_tiled", (16, 16, 1), 512) == jit.Plan(16, 16)
