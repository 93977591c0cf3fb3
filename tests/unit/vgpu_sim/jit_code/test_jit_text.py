"""LLVM accepts the text of every load, store and conversion, for groups of every width."""

import itertools
import re

import pytest

from support.kernels import instruction_forms
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.text.value_numbering import AvailableExpressions
from vgpu_sim.hal.compute import abi
from vgpu_sim.isa import (
    Compare,
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Predicate,
    Register,
    Space,
    SpecialRegister,
)
from vgpu_sim.isa.table import TABLE

D = DataType
_WIDTHS = (1, 2, 4, 8, 16)
_FAR = -(1 << 31)
# The x size of a block that allows the width; the other axis gives scalars per lane group.
_BLOCK = (16, 2, 1)


def _check_accepted(module: Module, plan: jit.Plan) -> None:
    """Raise CodeGenerationError if LLVM rejects the kernel's text."""
    jit.Compiler().emit_llvm(module, module.functions[0], _BLOCK, plan, optimised=True)


def _plans() -> list[jit.Plan]:
    return [jit.Plan(width, 2, tier=0) for width in _WIDTHS]


def _addresses(b: KernelBuilder, base: Register, bytes_: int) -> list[Register]:
    """Return an address of each shape: uniform, uniform per row, contiguous, strided, unrelated."""
    lane, row = b.special(SpecialRegister.TID_X), b.special(SpecialRegister.TID_Y)
    loaded = b.load(D.B32, b.address(base, lane, 12))
    shapes = [base, b.address(base, row, 40), b.address(base, lane, bytes_)]
    return [*shapes, b.address(base, lane, 5 * bytes_), b.address(base, loaded, 1)]


def _guards(b: KernelBuilder) -> list[Guard | None]:
    """Return no guard, a uniform one, and one that differs between lanes."""
    flags: list[Predicate] = []
    for index in (SpecialRegister.CTAID_X, SpecialRegister.TID_X):
        flags.append(b.predicate())
        sources = (b.special(index), Literal(3))
        b.add(Instruction(Op.SETP, D.U32, (flags[-1], None), sources, compare=Compare.LT))
    return [None, *(Guard(flag) for flag in flags)]


_UNSIGNED = (D.U8, D.U16, D.U32, D.U64)  # lowered exactly as B8 to B64


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    "type_", [t for t in TABLE[Op.LD].types if t not in _UNSIGNED], ids=lambda t: t.name
)
def test_accesses(type_: DataType, count: int) -> None:
    if type_.bits * count > 128:
        pytest.skip("no access is wider than 16 bytes")
    b = KernelBuilder(8)
    addresses = _addresses(b, b.parameter(0), type_.bytes * count)
    widths = [bits for bits in (16, 32, 64) if bits >= type_.bits]
    for guard, address, far in itertools.product(_guards(b), addresses, (0, _FAR)):
        for bits in widths[:1] if far or guard else widths:
            values = tuple(b.register(bits) for _ in range(count))
            how = {"space": Space.GLOBAL, "vector": count, "displacement": far, "guard": guard}
            b.add(Instruction(Op.LD, type_, values, (address,), **how))
            b.add(Instruction(Op.ST, type_, (), (address, *values), **how))
    module = b.module()
    for plan in _plans():
        _check_accepted(module, plan)


def _check_rejected(form: Instruction) -> bool:
    function = Function("f", (), 0, (), 0, (form, Instruction(Op.RET)), (0, 0))
    return bool(jit.refusals(function))


@pytest.mark.parametrize("type_", TABLE[Op.CVT].types, ids=lambda t: t.name)
def test_conversions(type_: DataType) -> None:
    b = KernelBuilder(8)
    base, lane = b.parameter(0), b.special(SpecialRegister.TID_X)
    row = b.special(SpecialRegister.TID_Y)
    out = b.address(base, lane, 8)
    read = [base, b.address(base, row, 40), out]
    values = {bits: [b.load(t, a) for a in read] for bits, t in _BY_BITS.items()}
    seen = set()
    for form in instruction_forms.forms(Op.CVT):
        kind = (form.source_type, form.saturate, form.ftz)
        if form.type is not type_ or _check_rejected(form) or kind in seen:
            continue
        seen.add(kind)
        assert form.source_type is not None
        for value in values[form.source_type.bits]:
            (result,) = instruction_forms.emit(b, form, [value])
            b.store(_BY_BITS[max(16, type_.bits)], out, result)
    assert seen
    module = b.module()
    for plan in _plans():
        _check_accepted(module, plan)


_BY_BITS = {8: D.B8, 16: D.B16, 32: D.B32, 64: D.B64}


def test_launch_fields_are_read_at_their_abi_offsets() -> None:
    b = KernelBuilder(8)
    b.store(D.B32, b.parameter(0), b.special(SpecialRegister.NCTAID_Z))
    module = b.module()
    text = jit.Compiler().emit_llvm(module, module.functions[0], _BLOCK, jit.Plan(4, 1))
    read = {int(n) for n in re.findall(r"getelementptr i8, ptr %ctx, i64 (\d+)", text)}
    grid, context = abi.LaunchContext.grid.offset, abi.LaunchContext
    assert read == {
        *(grid + 4 * axis for axis in range(3)),
        context.aperture_base.offset,
        context.aperture_limit.offset,
    }
    written = {int(n) for n in re.findall(r"getelementptr i8, ptr %thread, i64 (\d+)", text)}
    assert written == {abi.ThreadState.current_block.offset}


def test_flags_of_vectors_are_not_extended_before_they_are_added() -> None:
    """LLVM's combiner may loop endlessly over that if vectors of flags are legal (AVX-512)."""
    module = compile_ptx(
        """.version 8.0\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a)
        { .reg .b64 %a, %d; .reg .b32 %t, %r<5>; .reg .pred %p;
        ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mad.wide.u32 %d, %t, 16, %a;
        ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%d];
        add.cc.u32 %r0, %r0, %r1; addc.cc.u32 %r1, %r2, %r3; subc.cc.u32 %r2, %r2, %r0;
        subc.u32 %r3, %r3, %r1; vset2.s32.s32.lt %r4, %r2, %r3, %r2; add.u32 %r3, %r3, %r4;
        st.global.v4.b32 [%d], {%r0, %r1, %r2, %r3}; ret; }""",
        capability=(9, 0),
    )
    compiler, function = jit.Compiler(), module.functions[0]
    for width in _WIDTHS[1:]:
        plan = jit.Plan(width, 1, tier=0)
        text = compiler.emit_llvm(module, function, _BLOCK, plan)
        assert f"select <{width} x i1>" in text
        assert not re.search(r"[sz]ext <\d+ x i1>", text)


def test_loads_after_kept_ones_do_not_find_those_before_another_write() -> None:
    """An epoch between two writes has its own number, also after kept loads."""
    known, load = AvailableExpressions(), "load i32, ptr %p"
    known.add(load, "%before")
    with known.keep_loads():
        known.record_statement("store i32 0, ptr %q")
        known.add(load, "%within")
    assert known.find(load) == "%before"
    known.record_statement("store i32 1, ptr %p")
    assert known.find(load) is None


def _write_and_fail(known: AvailableExpressions) -> None:
    known.invalidate_loads()
    raise ValueError("within")


def test_an_error_within_kept_loads_restores_those_before() -> None:
    known, load = AvailableExpressions(), "load i32, ptr %p"
    known.add(load, "%before")
    with pytest.raises(ValueError, match="within"), known.keep_loads():
        _write_and_fail(known)
    assert known.find(load) == "%before"
