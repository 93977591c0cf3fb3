"""Known bits of values derived from thread indices, given the block shape, and the resulting
savings.
"""

import numpy as np
import pytest

from support.execution.both_backends import compare
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.isa import Module


def _module(body: str) -> Module:
    """Each thread stores %r9, which ``body`` computes from its linear index %r1."""
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u32 n)
        {{ .reg .b64 %out; .reg .b32 %r<12>, %n; ld.param.u64 %out, [out]; ld.param.u32 %n, [n];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x;
        mad.lo.u32 %r1, %r2, %r3, %r1; bar.sync 0; {body}
        mad.wide.u32 %out, %r1, 4, %out; st.global.u32 [%out], %r9; ret; }}""",
        capability=(8, 0),
    )


_SIGN = "shr.s32 %r9, %r1, 31;"
# t / 32 and t % 32, as compilers emit them for int
_QUOTIENT = """shr.s32 %r4, %r1, 31; shr.u32 %r4, %r4, 27; add.s32 %r5, %r1, %r4;
    and.b32 %r6, %r5, -32; sub.s32 %r9, %r1, %r6;"""


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (_SIGN, True),
        ("shl.b32 %r4, %r1, 20; shr.s32 %r9, %r4, 31;", True),
        ("shl.b32 %r4, %r1, 24; shr.s32 %r9, %r4, 31;", False),
        ("add.s32 %r4, %r1, -1; shr.s32 %r9, %r4, 31;", False),
        ("add.s32 %r4, %r1, %n; shr.s32 %r9, %r4, 31;", False),
        ("mul.lo.u32 %r4, %r1, %r1; shr.u32 %r9, %r4, 20;", True),
        ("mul.lo.u32 %r4, %r1, %r1; shr.u32 %r9, %r4, 15;", False),
        ("and.b32 %r4, %n, 7; shr.s32 %r9, %r4, 3;", True),
        ("and.b32 %r4, %n, -8; shr.s32 %r9, %r4, 31;", False),
        ("mul.hi.u32 %r9, %r1, %r1;", False),
    ],
)
def test_contradicting_facts_leave_a_constant(body: str, known: bool) -> None:
    module = _module(body)
    form = ssa.build(module.functions[0])
    found = known_values(form, block=(32, 8, 1)).constants()
    stored = next(
        node.sources[1]
        for block in form.blocks.values()
        for node in block.nodes
        if getattr(node, "instruction", None) is not None and node.instruction.op.name == "ST"
    )
    assert (stored in found) is known
    for n in (0, 1 << 31, (1 << 32) - 1):
        plans = [jit.Plan(16, 1), jit.Plan(16, 2), jit.Plan(8, 4), jit.Plan(16, 16)]
        compare(module, [bytes(1024)], (1, 1, 1), (32, 8, 1), plans, extra=[n])


@pytest.mark.parametrize("vectors", [1, 2])
def test_a_remainder_of_a_thread_index_has_consecutive_lanes(vectors: int) -> None:
    module = _module(_QUOTIENT)
    form = ssa.build(module.functions[0])
    analysis = Analysis(form, Geometry((32, 8, 1), 16, vectors), assume_guards=True)
    shapes = [
        analysis.shapes[node.results[0]]
        for block in form.blocks.values()
        for node in block.nodes
        if getattr(node, "instruction", None) is not None and node.instruction.op.name == "SUB"
    ]
    assert [isinstance(shape, Affine) and shape.stride == 1 for shape in shapes] == [True]
    found = compare(
        module, [bytes(1024)], (1, 1, 1), (32, 8, 1), [jit.Plan(16, vectors)], extra=[0]
    )
    np.testing.assert_array_equal(np.frombuffer(found[0], np.uint32), np.arange(256) % 32)
