"""Directed rounding in native code, and operations based on it: embedded in instructions (AVX-512),
and by switching the mode.
"""

import re

import ml_dtypes
import numpy as np
import pytest

from support.execution.both_backends import compare
from support.kernels import instruction_forms
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit import Plan
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import DataType, Instruction, Module, Op, Rounding

D = DataType
DIRECTED = (Rounding.RZ, Rounding.RM, Rounding.RP)
OPS = (Op.FADD, Op.FSUB, Op.FMUL, Op.FMA, Op.FDIV, Op.FRCP, Op.FSQRT)
THREADS = 64


def _forms(type_: DataType) -> list[Instruction]:
    """Return the directed forms of a type; for halves those computed from two directions."""
    if type_ in (D.F16, D.BF16):
        forms = (*instruction_forms.forms(Op.FMUL), *instruction_forms.forms(Op.FMA))
        return [form for form in forms if form.type is type_ and form.rounding is Rounding.RN]
    found = [
        form
        for op in OPS
        for form in instruction_forms.forms(op)
        if form.type is type_ and form.rounding in DIRECTED and not (form.ftz or form.saturate)
    ]
    found += [
        form
        for form in instruction_forms.forms(Op.CVT)
        if form.type is type_
        and form.rounding in DIRECTED
        and form.source_type in (D.S64, D.U64)
        and not (form.ftz or form.saturate)
    ]
    return found


def _module(forms: list[Instruction]) -> Module:
    builder = KernelBuilder(8, 8, 8, 8)
    pointers = [builder.parameter(place) for place in range(4)]
    thread = builder.linear_thread()
    reads = [builder.address(pointer, thread, 8) for pointer in pointers[:3]]
    row = builder.address(pointers[3], thread, 8)
    for place, form in enumerate(forms):
        sources = [
            builder.load(D[f"B{bits}"], read)
            for bits, read in zip(instruction_forms.source_bits(form), reads, strict=False)
        ]
        (result,) = instruction_forms.emit(builder, form, sources)
        kind = D[f"B{form.type.bits}"]
        builder.store(kind, row, result, 8 * THREADS * place)
    return builder.module()


def _operands(type_: DataType) -> list[bytes]:
    """Return numbers whose results are inexact, overflow, vanish or cancel, and special values."""
    rng = np.random.default_rng(type_)
    number, word = {
        D.F16: (np.float16, np.uint16),
        D.BF16: (ml_dtypes.bfloat16, np.uint16),
        D.F32: (np.float32, np.uint32),
        D.F64: (np.float64, np.uint64),
    }[type_]
    largest = ml_dtypes.finfo(number).max
    corners = np.array([0.0, -0.0, 1.0, -1.0, 3.0, largest, -largest, np.inf, -np.inf, np.nan])
    found = []
    for _ in range(3):
        some = rng.integers(0, 1 << 63, THREADS, dtype=np.uint64).astype(word)
        some[::3] = rng.choice(corners.astype(number), len(some[::3])).view(word)
        some[1::3] = rng.uniform(-2, 2, len(some[1::3])).astype(number).view(word)
        wide = np.zeros(THREADS, dtype=np.uint64)
        wide[:] = some
        found.append(wide.tobytes())
    return found


@pytest.mark.parametrize("vector_bits", [256, 512])
@pytest.mark.parametrize("plan", [Plan(16, 1), Plan(4, 2, tier=0), Plan(1, 1)], ids=str)
@pytest.mark.parametrize("type_", [D.F16, D.BF16, D.F32, D.F64], ids=lambda t: t.name)
def test_both_ways_agree_with_the_interpreter(
    type_: DataType, plan: Plan, vector_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if vector_bits > llvm.vector_bits():
        pytest.skip("this machine has no AVX-512")
    monkeypatch.setattr(llvm, "vector_bits", lambda: vector_bits)
    forms = _forms(type_)
    assert len(forms) >= (3 * len(OPS) + 6 if type_.bits > 16 else 3)
    # A separate module for each way: tests share loaded code.
    module = _module(forms if vector_bits == 512 else forms[::-1])
    text = jit.Compiler().emit_llvm(module, module.functions[0], (THREADS, 1, 1), plan)
    assert bool(re.search("ldmxcsr", text)) == (vector_bits < 512)
    assert bool(re.search(r"avx512\.(add|sub|mul|div|sqrt|vfmadd)\.p[sd]\.512", text)) == (
        vector_bits == 512
    )
    out = bytes(8 * THREADS * len(forms))
    compare(module, [*_operands(type_), out], (1, 1, 1), (THREADS, 1, 1), [plan])


def test_a_thousand_directed_instructions_stay_small() -> None:
    form = Instruction(Op.FADD, D.F64, rounding=Rounding.RM)
    builder = KernelBuilder(8)
    read = builder.address(builder.parameter(0), builder.linear_thread(), 8)
    value = builder.load(D.B64, read)
    for _ in range(1000):
        (value,) = instruction_forms.emit(builder, form, [value, value])  # type: ignore[assignment]
    builder.store(D.B64, read, value)
    module = builder.module()
    code = jit.Compiler().compile(module, module.functions[0], (256, 1, 1))
    # Without embedded rounding, the processor's mode is set around them.
    assert len(code.object_code) < (150_000 if llvm.vector_bits() == 512 else 200_000)
