"""The code that the JIT rejects; it compiles everything else that the instruction set defines."""

import itertools

import pytest

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
_REFUSED: set[str] = set()
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


def _rejections(form: Instruction) -> list[str]:
    module = _module([form])
    found = jit.refusals(module.functions[0])
    assert all(module.functions[0].code[error.word or 0].op is form.op for error in found)
    return [error.what for error in found]


@pytest.mark.parametrize("op", TABLE, ids=lambda op: op.name)
def test_a_form_is_rejected_by_name_or_compiled(op: Op) -> None:
    forms = list(instruction_forms.forms(op))
    assert forms
    refused = [_rejections(form) for form in forms]
    assert {what for reasons in refused for what in reasons} <= _REFUSED
    taken = [form for form, reasons in zip(forms, refused, strict=True) if not reasons]
    compiler = jit.Compiler()
    for start in range(0, len(taken), _TOGETHER):
        module = _module(taken[start : start + _TOGETHER])
        plans = (jit.Plan(16, 1, tier=0), jit.Plan(1, 1, tier=0))
        # Lanes that name different barriers cannot wait as one.
        for plan in plans[1:] if EFFECTS[op].stops else plans:
            compiler.compile(module, module.functions[0], (16, 1, 1), plan)


def test_exactly_the_listed_forms_are_rejected() -> None:
    forms = itertools.chain.from_iterable(instruction_forms.forms(op) for op in TABLE)
    assert {what for form in forms for what in _rejections(form)} == _REFUSED


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
