# ruff: noqa: RUF005
"""Every arithmetic instruction, on special values, in each form that the JIT can emit."""

from collections.abc import Iterator

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.kernels import instruction_forms
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit import Plan
from vgpu_sim.isa import EFFECTS, Compare, DataType, Function, Instruction, Literal, Op
from vgpu_sim.isa.table import TABLE

D = DataType
_THREADS = 256

_SPECIAL = {
    16: [0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x3C00, 0x3F80, 0xBC00, 0x7C00, 0x7F80]
    + [0xFC00, 0xFF80, 0x7E00, 0x7FC1, 0xFFC2, 0x0400, 0x0080, 0x7BFF, 0x7F7F, 0x03FF, 0x1234],
    32: [0, 1, 2, 3, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE]
    + [0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC01234, 0x7F800001]
    + [0x00800000, 0x007FFFFF, 0x7F7FFFFF, 0x4F000000, 0xCF000000, 0x5F000000, 0x3F000000]
    + [0x3EAAAAAB, 0x40490FDB, 0x4B000001, 0x3FC00000, 0x33800000, 0x12345678],
    64: [0, 1, 2, 63, 64, 65, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x3FF0 << 48, 0xBFF0 << 48]
    + [0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFF8000000001234, 0x7FF0000000000001]
    + [1 << 52, (1 << 52) - 1, 0x7FEFFFFFFFFFFFFF, 0x43E0 << 48, 0x41E0 << 48, 0x3FD5555555555555]
    + [0x47EFFFFFF0000000, 0x3690 << 48, 0x40F86A0000000001, 0x123456789ABCDEF, 0x4330000000000001],
}


def _patterns(bits: int, count: int, seed: int) -> np.ndarray:
    """Return special values, in a separate order per operand, then random ones."""
    rng = np.random.default_rng(seed)
    special = np.array(_SPECIAL[bits], dtype=np.uint64)
    chosen = rng.choice(special, size=count)
    random = rng.integers(0, 1 << 63, size=count, dtype=np.uint64) * np.uint64(2)
    random += rng.integers(0, 2, size=count, dtype=np.uint64)
    random >>= np.uint64(64 - bits)
    mixed = np.where(rng.random(count) < 0.7, chosen, random)
    return mixed.astype(np.uint64)


def _kernel(instructions: list[Instruction], form: str) -> tuple:
    """Return a kernel with out[i][which][t] = instruction i on operands of thread t (``form``
    "uniform": of thread 0).

    Each result is a row: LLVM compiles a row store in a fraction of the time of a scatter.
    """
    builder = KernelBuilder(8, 8, 8, 8, 8)
    pointers = [builder.parameter(i) for i in range(5)]
    thread = builder.linear_thread()
    index = thread
    if form == "uniform":
        index = builder.register(32)
        builder.op(Op.AND, D.B32, index, thread, Literal(0))
    elif form == "vector":  # one value per row of 16
        index = builder.register(32)
        builder.op(Op.SHR, D.U32, index, thread, Literal(4))
    reads = [builder.address(pointer, index, 8) for pointer in pointers[:4]]
    rows = {bits: builder.address(pointers[4], thread, bits // 8) for bits in (16, 32, 64)}
    for place, instruction in enumerate(instructions):
        sources: list = []
        for operand, bits in enumerate(instruction_forms.source_bits(instruction)):
            value = builder.load(
                {8: D.B8, 16: D.B16, 32: D.B32, 64: D.B64}.get(bits, D.B32), reads[operand]
            )
            if bits == 1:
                flag = builder.predicate()
                builder.add(
                    Instruction(
                        Op.SETP, D.U32, (flag, None), (value, Literal(7)), compare=Compare.GT
                    )
                )
                sources.append(flag)
            else:
                sources.append(value)
        widths = instruction_forms.destination_bits(instruction)
        for which, result in enumerate(instruction_forms.emit(builder, instruction, sources)):
            width = widths[which]
            where = 8 * _THREADS * (2 * place + which)
            if width == 1:
                number = builder.register(32)
                builder.op(Op.SELP, D.B32, number, Literal(1), Literal(0), result)
                result, width = number, 32
            width = max(width, 16)
            builder.store({16: D.B16, 32: D.B32, 64: D.B64}[width], rows[width], result, where)
    return builder.module(), 16 * len(instructions)


_OPS = [
    op
    for op in TABLE
    if TABLE[op].dsts
    and TABLE[op].srcs
    and op is not Op.S2R
    and not EFFECTS[op].accesses
    and not EFFECTS[op].visible
]
_PLANS = {
    "lanes": [Plan(16, 1), Plan(4, 2, tier=0)],
    "vector": [Plan(1, 8)],
    "uniform": [Plan(16, 2, tier=0)],
}


def _operands(bits: int) -> list[bytes]:
    return [_patterns(bits, _THREADS, seed).tobytes() for seed in (1, 2, 3, 4)]


def _is_rejected(form: Instruction) -> bool:
    function = Function("f", (), 0, (), 0, (form, Instruction(Op.RET)), (0, 0))
    return bool(jit.refusals(function))


def _cases() -> Iterator:
    for op in _OPS:
        by_width: dict[int, list[Instruction]] = {}
        for instruction in instruction_forms.forms(op):
            if not _is_rejected(instruction):
                width = instruction_forms.source_bits(instruction)[0]
                by_width.setdefault(width, []).append(instruction)
        for width, instructions in by_width.items():
            for start in range(0, len(instructions), 24):
                part = instructions[start : start + 24]
                yield pytest.param(width, part, id=f"{op.name}-{width}-{start}")


@pytest.mark.parametrize("form", ["lanes", "vector", "uniform"])
@pytest.mark.parametrize(("width", "instructions"), list(_cases()))
def test_instruction(width: int, instructions: list[Instruction], form: str) -> None:
    module, stride = _kernel(instructions, form)
    operands = _operands(max(width, 16) if width > 1 else 32)
    out = bytes(_THREADS * stride)
    compare(module, [*operands, out], (1, 1, 1), (_THREADS, 1, 1), _PLANS[form])
