"""Blocks as one group on vectors that hold fewer lanes than a strip."""

from pathlib import Path

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.planning import choose, unrolled
from vgpu_sim.exec.jit.planning.plan import Block

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"


def _chosen(name: str, block: Block, vector_bits: int) -> jit.Plan:
    text = (_KERNELS / f"{name}.ptx").read_text()
    function = compile_ptx(text, capability=(9, 0)).functions[0]
    return choose.choose(unrolled.build(function, block), block, vector_bits)


@pytest.mark.parametrize(
    ("name", "block", "plan"),
    [
        ("reduction", (256, 1, 1), jit.Plan(16, 16)),
        ("reduction", (128, 1, 1), jit.Plan(8, 16)),  # one group anyway
        ("halo_stencil", (32, 8, 1), jit.Plan(16, 16)),
        ("layernorm", (256, 1, 1), jit.Plan(16, 16)),  # its loops do not wait
    ],
)
def test_blocks_that_wait_outside_of_loops_are_one_group(
    name: str, block: Block, plan: jit.Plan
) -> None:
    assert _chosen(name, block, 256) == plan


def test_blocks_that_wait_in_loops_have_strips_of_one_register() -> None:
    assert _chosen("sgemm_tiled", (16, 16, 1), 256).width == 8


def test_vectors_of_whole_strips_choose_as_before() -> None:
    assert _chosen("halo_stencil", (32, 8, 1), 512) == jit.Plan(16, 16)
    assert _chosen("sgemm_tiled", (16, 16, 1), 512) == jit.Plan(16, 16)
