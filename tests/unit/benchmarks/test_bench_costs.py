"""Other figures of the speed table: generated kernels, counts, and races of plans."""

import numpy as np
import pytest

from benchmarks.exec import interpreting, long_kernels, plans
from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.contest import KERNELS
from support.execution.both_backends import compare
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit


@pytest.mark.parametrize("make", [long_kernels.straight, long_kernels.branchy])
def test_generated_kernels_have_their_length_and_run(make) -> None:
    text = make(200)
    module = compile_ptx(text, capability=(8, 0))
    body = text.split("ld.param", 1)[1]
    assert abs(body.count(";") - 200) < 20
    data = np.arange(64, dtype=np.uint32).tobytes()
    plan = [None, jit.Plan(1, 1)]
    (out,) = compare(module, [data], (1, 1, 1), (64, 1, 1), plan)
    assert len(set(np.frombuffer(out, np.uint32).tolist())) > 32


def test_instructions_of_the_hot_loop() -> None:
    text = (KERNELS / "sgemm_naive.ptx").read_text()
    body = interpreting.instructions(text, 64) // 16
    assert text.split("LBB0_4:")[1].split("LBB0_5:")[0].count(";") == body


def test_a_race_of_plans_finds_the_chosen_one_among_them() -> None:
    bench = plans.Bench(CONTESTS["vecadd-64K"])
    try:
        (launch,) = plans.distinct(bench.launches)
        found = plans.race(bench, launch, [jit.Plan(1, 1), jit.Plan(16, 1)], rounds=1)
    finally:
        bench.close()
    (chosen,) = ((t.plan.width, t.plan.vectors) for t in found if t.chosen)
    assert {(t.plan.width, t.plan.vectors) for t in found} == {(16, 1), (1, 1), chosen}
    assert len(found) == 3
    assert found[0].seconds <= found[-1].seconds
