"""wgmma: descriptors, fragments and arithmetic, on the interpreter and the JIT, against numpy."""

from dataclasses import dataclass

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from support.oracles import matrix_oracle as oracle
from support.oracles import warpgroup_oracle
from support.oracles.matrix_oracle import Array
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

pytestmark = pytest.mark.timeout(600)
THREADS, ROWS = 128, 64
SPANS = (0, 32, 64, 128)


@dataclass(frozen=True)
class Case:
    """A product, spelled like ``m64n16k16.f32.f16.f16``, and where its factors are."""

    n: int
    k: int
    total: str
    a: str
    b: str
    spans: tuple[int, int] = (0, 0)  # A's is -1 in registers
    across: tuple[bool, bool] = (False, False)
    scale_d: str = "true"  # or "false", "p", "!p"
    scales: tuple[int, int] = (1, 1)
    clamp: bool = False
    tame: bool = True
    seed: int = 0
    constant: bool = False  # descriptors are constants of the kernel
    groups: int = 1

    @property
    def spelling(self) -> str:
        shape = f"m64n{self.n}k{self.k}"
        if self.a == "b1":
            return f"wgmma.mma_async.sync.aligned.{shape}.s32.b1.b1.and.popc"
        clamp = ".satfinite" if self.clamp else ""
        return f"wgmma.mma_async.sync.aligned.{shape}{clamp}.{self.total}.{self.a}.{self.b}"

    @property
    def immediates(self) -> str:
        found = ""
        if self.total[0] == "f":
            found = f", {self.scales[0]}, {self.scales[1]}"
        if self.a in ("f16", "bf16"):
            turns = self.across if self.spans[0] >= 0 else self.across[1:]
            found += "".join(f", {int(turn)}" for turn in turns)
        return found


def _source(case: Case, registers: int, size: int, layouts: list[int]) -> str:
    d = "{" + ", ".join(f"%d{n}" for n in range(registers)) + "}"
    in_registers = case.spans[0] < 0
    a = "{%a0, %a1, %a2, %a3}" if in_registers else "%da"
    threads = THREADS * case.groups
    chosen = {"true": "%one", "false": "%none"}.get(case.scale_d, case.scale_d.replace("p", "%p"))
    descriptors = "".join(
        f"mov.u64 %d{name}, {layouts[place]};"
        if case.constant
        else f"ld.param.u64 %d{name}, [p{3 + place}];"
        for place, name in enumerate("ab")
    )
    loads = "".join(f"ld.global.b32 %d{n}, [%pd+{4 * n}];" for n in range(registers))
    stores = "".join(f"st.global.b32 [%pd+{4 * n}], %d{n};" for n in range(registers))
    return f""".version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)
{{
  .reg .b32 %d<{registers}>, %a<4>, %w<4>, %i, %s, %t;
  .reg .b64 %pd, %pa, %pm, %da, %db, %o;
  .reg .pred %p, %one, %none, %more;
  .shared .align 1024 .b8 tile[{size}];
  mov.u32 %i, %tid.x;
  ld.param.u64 %pd, [p0]; mad.wide.u32 %pd, %i, {4 * registers}, %pd;
  ld.param.u64 %pm, [p1];
  ld.param.u64 %pa, [p2]; mad.wide.u32 %pa, %i, 16, %pa;
  mul.lo.u32 %t, %i, 16;
COPY:
  cvt.u64.u32 %o, %t; add.u64 %o, %o, %pm;
  ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%o];
  mov.u32 %s, tile; add.u32 %s, %s, %t;
  st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
  add.u32 %t, %t, {16 * threads};
  setp.lt.u32 %more, %t, {size};
  @%more bra COPY;
  {loads}
  ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%pa];
  {descriptors}
  mov.pred %one, 1; mov.pred %none, 0;
  setp.ne.u64 %p, %da, 0;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  wgmma.fence.sync.aligned;
  {case.spelling} {d}, {a}, %db, {chosen}{case.immediates};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  {stores}
  ret;
}}
"""


def _numbers(patterns: Array, type_: str, negated: bool) -> Array:
    numbers = oracle.values(patterns, type_)
    return -numbers if negated else numbers


def _plans(module: Module, threads: int) -> list[jit.Plan | None]:
    legal = list(jit.legal_plans(module.functions[0], (threads, 1, 1)))
    assert any(plan.width > 1 for plan in legal)
    return [None, legal[len(legal) // 2]]


def _check(case: Case, *, alone: bool = False) -> None:
    dice = np.random.default_rng(case.seed)
    bits = oracle.bits_of(case.a)
    a = oracle.patterns(case.a, (ROWS, case.k), dice, case.tame)
    b = oracle.patterns(case.b, (case.n, case.k), dice, case.tame)
    c = oracle.patterns(case.total, (ROWS, case.n), dice, case.tame)
    memory = bytearray(dice.bytes(48 << 10))
    end, words = 0, [1, 0]
    for place, (matrix, span) in enumerate(zip((a, b), case.spans, strict=True)):
        if span < 0:
            continue
        layout, end = warpgroup_oracle.random_layout(
            dice, span, case.across[place], len(matrix), max(1, bits // 8), end
        )
        warpgroup_oracle.write(memory, layout, matrix, bits)
        words[place] = layout.descriptor
    end = -(-end // 1024) * 1024
    assert end <= len(memory)
    memory = memory[:end]
    fragments, registers = [], []
    for warp in range(4 * case.groups):
        rows = slice(16 * (warp % 4), 16 * (warp % 4) + 16)
        placed = _fragments_of_c(c[rows], case.total)
        registers.append(placed)
        fragments.append(
            oracle.fragment(a[rows], case.a, lambda t, i: oracle.place_in_a(case.a, 16, t, i))
        )
    addends = np.array(registers)
    module = compile_verified(_source(case, addends.shape[-1], end, words), (9, 0))
    buffers = [addends.tobytes(), bytes(memory), np.array(fragments).tobytes()]
    threads = THREADS * case.groups
    plans: list[jit.Plan | None] = [jit.Plan(1, 1)] if alone else _plans(module, threads)
    found = compare(module, buffers, (1, 1, 1), (threads, 1, 1), plans, extra=words)
    have = np.frombuffer(found[0], np.uint32).reshape(addends.shape)
    negated = case.scales[0] != case.scales[1]
    x, y = _numbers(a, case.a, negated), oracle.values(b, case.b).T
    shown = case.scale_d in ("true", "p")
    z = c if shown else np.zeros_like(c)
    if case.a == "bf16":
        want = oracle.paired_product(x, y, z)
    elif case.total == "s32":
        want = oracle.product(x, y, z, "s32", case.clamp)
    else:
        want = oracle.product(x, y, z, "f32")
    if case.total == "f16":
        with np.errstate(over="ignore"):
            want = want.astype(np.float16)
        want = np.where(np.isnan(want), np.uint16(0x7FFF).view(np.float16), want)
    for warp in range(4 * case.groups):
        rows = slice(16 * (warp % 4), 16 * (warp % 4) + 16)
        expected = _fragments_of_c(want[rows], case.total)
        np.testing.assert_array_equal(have[warp], expected)


def _fragments_of_c(matrix: Array, type_: str) -> Array:
    """Return the registers of each lane for 16 rows of D: four elements of each eight columns."""
    blocks = [
        oracle.fragment(np.ascontiguousarray(matrix[:, n : n + 8]), type_, oracle.place_in_c)
        for n in range(0, matrix.shape[1], 8)
    ]
    return np.concatenate(blocks, axis=1)


@pytest.mark.parametrize("total", ["f32", "f16"])
@pytest.mark.parametrize("across", [(False, False), (True, True), (False, True), (True, False)])
@pytest.mark.parametrize("span", SPANS)
def test_halves_in_shared_memory(span: int, across: tuple[bool, bool], total: str) -> None:
    other = SPANS[(SPANS.index(span) + across[0]) % 4]
    n = {0: 8, 32: 16, 64: 40, 128: 136}[span]
    _check(Case(n, 16, total, "f16", "f16", (span, other), across, seed=span, tame=total == "f16"))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("span", SPANS)
def test_bfloats_in_shared_memory(span: int, across: bool) -> None:
    case = Case(24, 16, "f32", "bf16", "bf16", (span, span), (across, across), seed=span)
    _check(case)


@pytest.mark.parametrize(
    ("n", "k", "total", "a", "b"),
    [
        (24, 8, "f32", "tf32", "tf32"),
        (16, 32, "f32", "e4m3", "e5m2"),
        (8, 32, "f16", "e5m2", "e4m3"),
        (48, 32, "s32", "s8", "u8"),
        (24, 32, "s32", "u8", "u8"),
        (8, 32, "s32", "u8", "s8"),
        (16, 256, "s32", "b1", "b1"),
    ],
)
@pytest.mark.parametrize("spans", [(0, 128), (128, 64), (64, 32), (-1, 128)])
def test_other_types(n: int, k: int, total: str, a: str, b: str, spans: tuple[int, int]) -> None:
    if a == "b1":
        return
    _check(Case(n, k, total, a, b, spans, seed=n, tame=spans[0] == 0, constant=spans[0] == 64))


@pytest.mark.parametrize("spans", [(0, 128), (-1, 64)])
def test_bits(spans: tuple[int, int]) -> None:
    _check(Case(16, 256, "s32", "b1", "b1", spans))
