"""Prefetches of memory for the next block."""

import re
from pathlib import Path

import pytest

from support.proofs import clamp_proof
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"
_PREFETCH = re.compile(r"call void @llvm.prefetch.p0\(ptr (%\w+),")


def _text(module: Module, tier: int = 1, vectors: int = 4) -> str:
    plan = jit.Plan(16, vectors, tier=tier)
    return jit.Compiler().emit_llvm(module, module.functions[0], (64, 1, 1), plan)


def _kernel(load: str, barrier: str = "bar.sync 0;") -> Module:
    """Each thread loads at %a, its own place in its block's row, and stores the value after a
    barrier.
    """
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 in, .param .u64 same)
    {{ .reg .b64 %a, %b, %s, %w; .reg .b32 %c, %t, %x, %y, %n; .reg .pred %p;
      ld.param.u64 %a, [in]; ld.param.u64 %s, [same]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.y;
      mul.wide.u32 %w, %t, 4; add.s64 %s, %s, %w; mad.lo.u32 %x, %c, 64, %t;
      mul.wide.u32 %w, %x, 4; add.s64 %a, %a, %w; mov.u32 %n, 0;
      {load} {barrier} st.global.u32 [%a], %x; ret; }}""",
        capability=(8, 0),
    )


_ROW = "ld.global.u32 %x, [%a];"
_LOOP = """turn: ld.global.u32 %y, [%a]; add.u32 %x, %x, %y; add.s64 %a, %a, 256;
    add.u32 %n, %n, 1; setp.lt.u32 %p, %n, %x; @%p bra turn;"""


@pytest.mark.parametrize(
    ("load", "lines"),
    [
        (_ROW, 4),
        (_ROW + "ld.global.u32 %y, [%a+256];", 8),
        (_ROW + _ROW, 4),
        ("ld.global.u32 %x, [%s];", 0),  # the same for each block
        ("ld.volatile.global.u32 %x, [%a];", 0),
        ("ld.global.u32 %x, [%a]; bar.sync 0; ld.global.u32 %y, [%a+256];", 4),
        (_LOOP, 16),
    ],
    ids=["row", "two", "twice", "same", "volatile", "behind", "loop"],
)
def test_first_rows_of_the_next_block_are_prefetched(load: str, lines: int) -> None:
    found = _PREFETCH.findall(_text(_kernel(load)))
    assert (len(found), len(set(found))) == (lines, lines)


def test_only_blocks_with_barriers_prefetch_and_neither_the_first_tier_nor_groups() -> None:
    assert not _PREFETCH.findall(_text(_kernel(_ROW, barrier="")))
    assert not _PREFETCH.findall(_text(_kernel(_ROW), tier=0))
    assert not _PREFETCH.findall(_text(_kernel(_ROW), vectors=2))


def test_prefetches_are_clamped() -> None:
    text = _text(_kernel(_ROW))
    clamp_proof.prove(text)
    pointer = _PREFETCH.findall(text)[0]
    beyond = text.replace(f"prefetch.p0(ptr {pointer},", "prefetch.p0(ptr %cx,", 1)
    with pytest.raises(clamp_proof.NotShown):
        clamp_proof.prove(beyond)


def test_a_reduction_prefetches_the_next_block() -> None:
    module = compile_ptx((_KERNELS / "reduction.ptx").read_text(), capability=(9, 0))
    plan = jit.Plan(16, 16)  # a block is one group
    text = jit.Compiler().emit_llvm(module, module.functions[0], (256, 1, 1), plan)
    assert len(_PREFETCH.findall(text)) == 512 * 4 // 64
