"""The test of a lane group's contiguous 32-bit indices before they become addresses.

A group that fails it starts over in the exact version, which is only slower: results do not
reveal the limit of the test, but the text does.
"""

import re

import pytest

from support.execution.both_backends import compare
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.compiler import compile_ptx
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


@pytest.mark.parametrize("shift", [26, 28, 29, 30, 31])
@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("meet", ["", "bar.sync 0;"])
def test_lanes_that_wrap_around_twice_are_no_row(shift: int, sign: str, meet: str) -> None:
    """The first and last lane of a vector differ as if no lane wrapped around, but lanes between
    did.
    """
    module = compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u32 n)
        {{ .reg .b64 %out, %w; .reg .b32 %t, %n, %i;
        ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; {meet}
        shl.b32 %i, %t, {shift}; add.u32 %i, %i, %n; cvt.{sign}64.{sign}32 %w, %i;
        mad.wide.u32 %out, %t, 8, %out; st.global.u64 [%out], %w; ret; }}""",
        capability=(8, 0),
    )
    plans = [jit.Plan(16, 1), jit.Plan(16, 4), jit.Plan(4, 2)]
    for n in (0, 1 << 31, (1 << 31) - 5, (1 << 32) - 5, 12345):
        compare(module, [bytes(512)], (1, 1, 1), (64, 1, 1), plans, extra=[n])
