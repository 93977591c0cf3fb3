"""Products of bytes that tile registers compute: bits, addresses and what is left to other code."""

import itertools
import re

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from support.execution.shared_code import SharingCompiler
from support.proofs import clamp_proof
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.target import dot_products, llvm
from vgpu_sim.isa import Module
from vgpu_sim.system import tiles

_WIDE = "+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512vnni"
_TRIPLE = "x86_64-unknown-linux-gnu"
TILED = llvm.Target(_TRIPLE, "sapphirerapids", f"{_WIDE},+amx-tile,+amx-int8")
PLAIN = llvm.Target(_TRIPLE, "cascadelake", _WIDE)
_WHOLE = (
    *("ldtilecfg", "tdpb", "tdpb", "tilerelease"),
    *("ldtilecfg", "tdpb", "tdpb", "tdpb", "tdpb", "tilerelease"),
)  # two groups, one after the other
_TILE = re.compile(r"call void @llvm\.x86\.tdpb")


def _chains(
    columns: int,
    steps: int,
    a: str = "s8",
    b: str = "u8",
    *,
    before: str = "",
    between: str = "",
    last: str = "",
) -> Module:
    """Compile products of 16 rows by ``columns`` blocks of eight, in ``steps`` of 32 bytes.

    ``before`` is code before the first step, ``between`` code after the first step, and ``last`` code before the sums are stored.
    """
    sums = [[f"%c{4 * n + r}" for r in range(4)] for n in range(columns)]
    shape = f"mma.sync.aligned.m16n8k32.row.col.s32.{a}.{b}.s32"
    products = [
        "".join(
            f"{shape} {{{', '.join(c)}}}, {{{', '.join(f'%a{4 * step + r}' for r in range(4))}}},"
            f" {{%b{2 * (steps * n + step)}, %b{2 * (steps * n + step) + 1}}},"
            f" {{{', '.join(c)}}};\n"
            for n, c in enumerate(sums)
        )
        for step in range(steps)
    ]
    products = [before, products[0], between, *products[1:]]
    counts = {"a": 4 * steps, "b": 2 * columns * steps, "c": 4 * columns}

    def each(letter: str, form: str) -> str:
        return "".join(form.format(n=n, at=128 * n) for n in range(counts[letter]))

    return compile_verified(f""".version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)
{{
  .reg .b32 %t, %a<{counts["a"]}>, %b<{counts["b"]}>, %c<{counts["c"]}>;
  .reg .b64 %pa, %pb, %pc; .reg .pred %p;
  mov.u32 %t, %tid.x;
  ld.param.u64 %pa, [pa]; mad.wide.u32 %pa, %t, 4, %pa;
  ld.param.u64 %pb, [pb]; mad.wide.u32 %pb, %t, 4, %pb;
  ld.param.u64 %pc, [pc]; mad.wide.u32 %pc, %t, 4, %pc;
  {each("a", "ld.global.b32 %a{n}, [%pa+{at}];")}
  {each("b", "ld.global.b32 %b{n}, [%pb+{at}];")}
  {each("c", "ld.global.b32 %c{n}, [%pc+{at}];")}
  {"".join(products)}
  {last}
  {each("c", "st.global.b32 [%pc+{at}], %c{n};")}
  ret;
}}
""")


def _text(module: Module, target: llvm.Target, threads: int = 32) -> str:
    """Return the text for a kind of CPU, whose addresses are proved, and which LLVM compiles."""
    with llvm.generating_for(target):
        text = SharingCompiler().emit_llvm(module, module.functions[0], (threads, 1, 1))
        llvm.object_code(text, 1)
    clamp_proof.prove(text)
    return text


def _compare(module: Module, columns: int, steps: int, seed: int, threads: int = 32) -> None:
    dice = np.random.default_rng(seed)
    counts = (4 * steps, 2 * columns * steps, 4 * columns)
    buffers = [dice.bytes(128 * count + 4 * (threads - 32)) for count in counts]
    plans = [None, *list(jit.legal_plans(module.functions[0], (threads, 1, 1)))[::5]]
    compare(module, buffers, (1, 1, 1), (threads, 1, 1), plans)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(("s8", "u8"), repeat=2)))
def test_all_signs(a: str, b: str) -> None:
    module = _chains(4, 2, a, b)
    assert f"@llvm.x86.tdpb{b[0]}{a[0]}d(" in _text(module, TILED)
    _compare(module, 4, 2, seed=1)


@pytest.mark.parametrize(("columns", "steps"), [(1, 3), (2, 1), (3, 2), (4, 7), (7, 4), (16, 3)])
def test_shapes(columns: int, steps: int) -> None:
    """An odd block of columns is left to dot products of lanes."""
    module = _chains(columns, steps)
    assert len(_TILE.findall(_text(module, TILED))) == columns // 2 * steps
    assert ("@product." in _text(module, TILED)) == bool(columns % 2)
    _compare(module, columns, steps, seed=10 * columns + steps)


@pytest.mark.parametrize(
    ("between", "least"),
    [
        ("add.u32 %c0, %c0, %t;", 2),  # sums of the first blocks are not only passed on
        ("xor.b32 %t, %c5, %t; st.global.b32 [%pb], %t;", 2),  # nor those of the second
        ("setp.eq.u32 %p, 0, 0; selp.b32 %c1, %c1, 0, %p;", 4),  # they are: the outcome is known
        ("setp.eq.u32 %p, 0, 1; selp.b32 %c1, %c1, 0, %p;", 2),
        ("bar.sync 0;", 4),
        ("mov.b32 %c2, %c3;", 2),
        ("mov.b32 %a4, %a0; mov.b32 %a5, %a1; mov.b32 %a6, %a2; mov.b32 %a7, %a3;", 4),
        ("st.global.b32 [%pb], %a0; ld.global.b32 %b9, [%pb];", 4),
    ],
)
def test_code_between_steps(between: str, least: int) -> None:
    module = _chains(4, 2, between=between)
    assert len(_TILE.findall(_text(module, TILED))) >= least
    _compare(module, 4, 2, seed=3)


def test_sums_that_are_read_early_are_not_delayed() -> None:
    """A later product of the same A depends on an earlier one."""
    _compare(_chains(4, 2, last="mov.b32 %c0, %c15;"), 4, 2, seed=4)
    module = _chains(6, 1, between="mov.b32 %b0, %c0;")
    _compare(module, 6, 1, seed=5)


def test_a_group_that_depends_on_another_one() -> None:
    """Products of another A, which only half of a large group reads, are not within that."""
    shape = "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"
    other = "".join(
        f"{shape} {{{c}}}, {{%b0, %b1, %b2, %b3}}, {{%b4, %b5}}, {{{c}}};"
        for c in (", ".join(f"%c{4 * n + r}" for r in range(4)) for n in range(4, 8))
    )
    sums = "".join(f"add.u32 %c{n}, %c{n}, %t;" for n in range(16, 32))
    module = _chains(8, 1, before=other + sums)
    text = _text(module, TILED)
    calls = re.findall(r"@llvm\.x86\.(ldtilecfg|tilerelease|tdpb)", text.split("\ndefine ", 1)[1])
    assert tuple(calls) == _WHOLE
    _compare(module, 8, 1, seed=8)


def test_part_of_a_warp() -> None:
    """Lanes that do not exist read as zeros."""
    module = _chains(4, 2)
    dice = np.random.default_rng(6)
    buffers = [dice.bytes(128 * count) for count in (8, 16, 16)]
    compare(module, buffers, (1, 1, 1), (24, 1, 1), [None])


def test_other_machines_use_no_tiles() -> None:
    module = _chains(4, 2)
    for target in (PLAIN, llvm.AVX2):
        assert "tile" not in _text(module, target)


def test_a_machine_without_permission_uses_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "request", lambda: False)
    assert "+amx-" not in llvm._host.__wrapped__().features


def test_bits_are_those_of_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _chains(8, 4)
    _compare(module, 8, 4, seed=7)
    monkeypatch.setattr(dot_products, "native_tiles", lambda: False)
    _compare(_chains(8, 4, last="mov.b32 %t, %t;"), 8, 4, seed=7)


def test_an_access_of_a_tile_outside_the_stack_is_detected() -> None:
    text = _text(_chains(2, 1), TILED)
    short = re.sub(r"alloca \[544 x i8\]", "alloca [512 x i8]", text)
    assert short != text
    with pytest.raises(clamp_proof.NotShown, match="tileloadd64"):
        clamp_proof.prove(short)
