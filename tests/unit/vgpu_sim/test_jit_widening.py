"""The test before a lane group's neighbouring 32-bit indices become addresses.

What it refuses only starts over in the exact version, which is slower: results do not show where it
draws the line, but the text does.
"""

import re

import pytest
from kernel_builder import KernelBuilder

from vgpu_sim.exec import jit
from vgpu_sim.isa import DataType, Literal, MulMode, Op, SpecialRegister

D = DataType


@pytest.mark.parametrize(
    ("type_", "relation", "greatest"),
    [(D.S32, "sgt", (1 << 31) - 1), (D.U32, "ugt", (1 << 32) - 1)],
)
def test_only_a_lane_group_that_wraps_around_starts_over(
    type_: DataType, relation: str, greatest: int
) -> None:
    b = KernelBuilder(8, 4)
    index, wide = b.register(32), b.register(64)
    b.op(Op.ADD, D.B32, index, b.special(SpecialRegister.TID_X), b.parameter(1))
    b.op(Op.MUL, type_, wide, index, Literal(4), mode=MulMode.WIDE)
    b.op(Op.ADD, D.B64, wide, wide, b.parameter(0))
    b.store(D.B32, wide, index)
    module = b.module()
    plan = jit.Plan(16, 1)
    text = jit.Compiler().emit_llvm(module, module.functions[0], (64, 1, 1), plan)
    ((said, bound),) = re.findall(r"icmp (sgt|ugt) i32 %[\w.]+, (-?\d+)", text)
    assert said == relation
    assert int(bound) % (1 << 32) == greatest - 15
