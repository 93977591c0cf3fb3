"""The pipes that a kernel keeps busy, estimated from its code."""

from pathlib import Path

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import DataType, Function, Instruction, Op, Register, Space
from vgpu_sim.worker import pipes
from vgpu_sim.worker.modules.module_summary import ModuleSummary, summarise

D, R = DataType, Register
EXAMPLES = Path(__file__).parents[4] / "examples"
ADD = Instruction(Op.ADD, D.U32, (R(0),), (R(0), R(1)))
FMA = Instruction(Op.FMA, D.F32, (R(0),), (R(0), R(1), R(2)))
EXIT = Instruction(Op.RET)


def shares(*code: Instruction) -> dict[str, float]:
    function = Function("k", (), 0, (32,) * 4, 0, code, (0,) * len(code))
    found = pipes.shares(function)
    return {
        name: value / pipes.ALL for name, value in zip(pipes.PIPES, found, strict=True) if value
    }


@pytest.mark.parametrize(
    ("instruction", "pipe"),
    [
        (FMA, "fp32"),
        (Instruction(Op.FADD, D.F32X2, (R(0),), (R(0), R(1))), "fp32"),
        (Instruction(Op.FMUL, D.F64, (R(0),), (R(0), R(1))), "fp64"),
        (Instruction(Op.FADD, D.BF16X2, (R(0),), (R(0), R(1))), "fp16"),
        (Instruction(Op.LD, D.B32, (R(0),), (R(1),), space=Space.GLOBAL), "memory"),
        (Instruction(Op.ST, D.B32, (), (R(1), R(0)), space=Space.GENERIC), "memory"),
    ],
)
def test_an_instruction_takes_a_cycle_of_its_pipe(instruction: Instruction, pipe: str) -> None:
    assert shares(instruction, ADD, ADD, EXIT) == {pipe: 0.25}


def test_other_memory_and_integers_take_none() -> None:
    load = Instruction(Op.LD, D.B32, (R(0),), (R(1),), space=Space.SHARED)
    assert shares(load, ADD, EXIT) == {}


def test_a_product_of_matrices_takes_the_tensor_pipe_for_eight_cycles() -> None:
    assert shares(Instruction(Op.MMA, D.F32, source_type=D.F16), *[ADD] * 7, EXIT) == {
        "tensor": 0.5
    }


def test_what_is_in_a_loop_counts_more_and_in_two_loops_more_again() -> None:
    def back(target: int) -> Instruction:
        return Instruction(Op.BRA, target=target)

    once = shares(FMA, ADD, back(1), EXIT)["fp32"]
    inside = shares(ADD, FMA, back(1), EXIT)["fp32"]
    assert once == pytest.approx(1 / 18, abs=1e-4)
    assert inside == pytest.approx(8 / 18, abs=1e-4)
    nested = shares(ADD, ADD, FMA, back(2), back(1), EXIT)["fp32"]
    assert nested == pytest.approx(64 / (1 + 8 + 64 + 64 + 8 + 1), abs=1e-4)
    ahead = shares(FMA, Instruction(Op.BRA, target=2), EXIT)["fp32"]
    assert ahead == pytest.approx(1 / 3, abs=1e-4)


def test_a_summary_has_them_and_keeps_them_on_disk() -> None:
    module = compile_ptx((EXAMPLES / "sgemm.ptx").read_bytes(), capability=(8, 0))
    summary = summarise(module)
    found = dict(zip(pipes.PIPES, summary.functions[0].pipes, strict=True))
    assert found["fp32"] > 0
    assert found["memory"] > 0
    assert (found["tensor"], found["fp64"], found["fp16"]) == (0, 0, 0)
    assert ModuleSummary.from_json(summary.to_json()) == summary
