"""Halves of wide products become separate products where that costs nothing."""

from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.planning import wide_products
from vgpu_sim.isa import DataType, MulMode, Op

_REGISTERS = ".reg .b32 %r<5>; .reg .b64 %o, %w<3>; .reg .pred %p;"
_BEGIN = "ld.param.u64 %o, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;"
_END = "st.global.v2.u32 [%o], {%r2, %r3};"


def _operations(body: str) -> list[tuple[Op, DataType, MulMode]]:
    source = kernel(f"{_BEGIN} {body}", ".param .u64 out", registers=_REGISTERS)
    form = ssa.build(compile_verified(source).functions[0])
    wide_products.split(form)
    return [
        (node.instruction.op, node.instruction.type, node.instruction.mode)
        for block in form.blocks.values()
        for node in block.nodes
        if isinstance(node, Operation) and node.instruction.op in (Op.MUL, Op.SHR, Op.CVT)
    ]


def _halves(type_: DataType) -> list[tuple[Op, DataType, MulMode]]:
    return [(Op.MUL, type_, MulMode.LO), (Op.MUL, type_, MulMode.HI)]


def test_both_halves() -> None:
    for kind, type_ in (("u", DataType.U32), ("s", DataType.S32)):
        body = f"""mul.wide.{kind}32 %w0, %r0, %r1; cvt.u32.u64 %r2, %w0;
            shr.u64 %w1, %w0, 32; cvt.u32.u64 %r3, %w1; {_END}"""
        assert _operations(body) == _halves(type_)


def test_unpacked_halves() -> None:
    body = f"mul.wide.u32 %w0, %r0, %r1; mov.b64 {{%r2, %r3}}, %w0; {_END}"
    assert _operations(body) == _halves(DataType.U32)


def test_a_needed_product_is_kept() -> None:
    body = f"""mul.wide.u32 %w0, %r0, %r1; cvt.u32.u64 %r2, %w0; mov.u32 %r3, 0;
        {_END} st.global.u64 [%o+8], %w0;"""
    assert _operations(body) == [
        (Op.MUL, DataType.U32, MulMode.WIDE),
        (Op.MUL, DataType.U32, MulMode.LO),
    ]


def test_other_conversions_are_kept() -> None:
    body = f"""mul.wide.u32 %w0, %r0, %r1; shr.u64 %w1, %w0, 31; cvt.u32.u64 %r2, %w1;
        mul.lo.u64 %w2, %w0, %w0; cvt.u32.u64 %r3, %w2; {_END}"""
    found = _operations(body)
    assert found.count((Op.MUL, DataType.U32, MulMode.WIDE)) == 1
    assert [op for op, _, _ in found].count(Op.CVT) == 2


def test_a_product_in_another_block_is_kept() -> None:
    body = f"""mul.wide.u32 %w0, %r0, %r1; mov.u32 %r2, 0; mov.u32 %r3, 0;
        LOOP: cvt.u32.u64 %r4, %w0; add.u32 %r2, %r2, %r4; add.u32 %r3, %r3, 1;
        setp.lt.u32 %p, %r3, 9; @%p bra LOOP; {_END}"""
    assert (Op.MUL, DataType.U32, MulMode.WIDE) in _operations(body)
