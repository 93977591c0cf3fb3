"""The JIT compiles every form that the instruction set defines, and refuses loops too deep."""

import pytest

from support.kept import llvm_objects
from support.kernels import instruction_forms
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec import jit
from vgpu_sim.isa import (
    EFFECTS,
    Compare,
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Operand,
    Predicate,
)
from vgpu_sim.isa.table import TABLE

D = DataType
_TOGETHER = 48


def _module(forms: list[Instruction]) -> Module:
    """Return a kernel of the forms, one after another, on unknown operands that differ between
    lanes.
    """
    builder = KernelBuilder(8, 8)
    place = builder.address(builder.parameter(0), builder.linear_thread(), 8)
    operands: dict[int, Operand] = {
        bits: builder.load(DataType[f"B{bits}"], place) for bits in (8, 16, 32, 64)
    }
    operands[1] = builder.predicate()
    compared = (operands[32], Literal(7))
    builder.add(Instruction(Op.SETP, D.U32, (operands[1], None), compared, compare=Compare.GT))
    for form in forms:
        sources = [operands[bits] for bits in instruction_forms.source_bits(form)]
        instruction_forms.emit(builder, form, sources)
    return builder.module()


@pytest.mark.parametrize("op", TABLE, ids=lambda op: op.name)
def test_every_form_is_compiled(op: Op) -> None:
    forms = list(instruction_forms.forms(op))
    assert forms
    compiler = jit.Compiler()
    compiler.use_emitter(llvm_objects.object_code)
    for start in range(0, len(forms), _TOGETHER):
        module = _module(forms[start : start + _TOGETHER])
        assert not jit.refusals(module.functions[0])
        plans = (jit.Plan(16, 1, tier=0), jit.Plan(1, 1, tier=0))
        # Lanes that name different barriers cannot wait as one.
        for plan in plans[1:] if EFFECTS[op].stops else plans:
            compiler.compile(module, module.functions[0], (16, 1, 1), plan)


@pytest.mark.parametrize(
    ("depth", "refused"),
    [(256, []), (257, ["more than 256 loops within"]), (3_000, ["loops nest too deep"])],
)
def test_nested_loops_have_a_limit(depth: int, refused: list[str]) -> None:
    guard = Guard(Predicate(0))
    backwards = [Instruction(Op.BRA, guard=guard, target=depth - n) for n in range(1, depth + 1)]
    code = (*[Instruction(Op.NOP)] * depth, *backwards, Instruction(Op.RET))
    function = Function("deep", (), 0, (), 1, code, (0,) * len(code))
    found = [error.what for error in jit.refusals(function)]
    assert [what[: len(start)] for what, start in zip(found, refused, strict=True)] == refused
