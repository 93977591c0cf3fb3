"""Prefetches of loads with a fixed stride in a loop with gathers."""

import re
from pathlib import Path

import pytest

from support.proofs import clamp_proof
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"
_PREFETCH = re.compile(r"call void @llvm.prefetch.p0\(ptr (%\w+),")


_ALONE = jit.Plan(1, 1, versioned=False)


def _text(module: Module, plan: jit.Plan = _ALONE) -> str:
    return jit.Compiler().emit_llvm(module, module.functions[0], (32, 1, 1), plan)


_GATHER = "mul.wide.s32 %w, %x, 4; add.s64 %w, %w, %v; ld.global.u32 %y, [%w];"


def _kernel(reads: str, gather: str = _GATHER, step: int = 16) -> Module:
    """Each iteration loads at %a, which advances by a step, and at %v, indexed by the loaded
    value.
    """
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 rows, .param .u64 vector, .param .u32 number)
    {{ .reg .b64 %a, %v, %w; .reg .b32 %x, %y, %s, %t, %n; .reg .pred %p;
      ld.param.u64 %a, [rows]; ld.param.u64 %v, [vector]; ld.param.u32 %n, [number];
      mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 1024; add.s64 %a, %a, %w;
      mov.u32 %s, 0; mov.u32 %y, 0;
      turn: {reads} {gather} add.u32 %s, %s, %y; add.u32 %s, %s, %x;
      add.s64 %a, %a, {step}; add.s32 %n, %n, -1; setp.ne.s32 %p, %n, 0; @%p bra turn;
      st.global.u32 [%v], %s; ret; }}""",
        capability=(8, 0),
    )


_ROW = "ld.global.u32 %x, [%a];"


@pytest.mark.parametrize(
    ("module", "requests"),
    [
        (_kernel(_ROW), 1),
        (_kernel(_ROW + "ld.global.u32 %x, [%a+4]; ld.global.u32 %x, [%a+60];"), 1),
        (_kernel(_ROW + "ld.global.u32 %x, [%a+64];"), 2),
        (_kernel(_ROW, step=-16), 1),
        (_kernel(_ROW, step=4), 0),  # the hardware prefetches it
        (_kernel(_ROW, step=128), 0),  # one line per iteration would not suffice
        (_kernel("ld.volatile.global.u32 %x, [%a];"), 0),
        (_kernel(_ROW, gather=""), 0),
        (_kernel(_ROW, gather="ld.global.u32 %y, [%v];"), 0),
    ],
    ids=["one", "one line", "two lines", "down", "small", "large", "volatile", "alone", "same"],
)
def test_streams_beside_gathers_are_prefetched(module: Module, requests: int) -> None:
    assert len(_PREFETCH.findall(_text(module))) == requests


@pytest.mark.parametrize(("step", "far"), [(16, 1024), (-16, -1024)])
def test_prefetches_are_ahead(step: int, far: int) -> None:
    text = _text(_kernel(_ROW, step=step))
    (pointer,) = _PREFETCH.findall(text)
    assert re.search(rf"{pointer} = getelementptr i8, ptr %\w+, i64 {far}\b", text)


def test_long_loops_and_contiguous_lanes_do_not_prefetch() -> None:
    long = _ROW + "add.u32 %s, %s, %x;" * 128
    assert not _PREFETCH.findall(_text(_kernel(long)))
    assert not _PREFETCH.findall(_text(_kernel(_ROW), jit.Plan(16, 1)))


def test_prefetches_are_clamped() -> None:
    text = _text(_kernel(_ROW))
    clamp_proof.prove(text)
    (pointer,) = _PREFETCH.findall(text)
    raw = re.search(r"(%\w+) = load i64, ptr", text)
    assert raw is not None
    beyond = text.replace(
        f"  call void @llvm.prefetch.p0(ptr {pointer},",
        f"  %raw = inttoptr i64 {raw[1]} to ptr\n  call void @llvm.prefetch.p0(ptr %raw,",
        1,
    )
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(beyond)


def test_a_sparse_product_prefetches_its_columns_and_values() -> None:
    module = compile_ptx((_KERNELS / "spmv.ptx").read_text(), capability=(9, 0))
    text = jit.Compiler().emit_llvm(module, module.functions[0], (256, 1, 1), jit.Plan(1, 1))
    assert len(_PREFETCH.findall(text)) == 2
