"""Random products of warpgroups (wgmma): a kernel for each, and its results by numpy.

``python -m support.kernels.warpgroup_products N [FIRST]`` checks N of them on both executors.
"""

import sys
from dataclasses import dataclass

import numpy as np

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from support.oracles import matrix_oracle as oracle, sparse_oracle, warpgroup_oracle
from support.oracles.matrix_oracle import Array
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

THREADS, ROWS = 128, 64
SPANS = (0, 32, 64, 128)
_HALVES = ("f16", "bf16", "tf32")  # their units of sparsity have 16 bits
_TYPES = (
    *((16, total, "f16", "f16") for total in ("f32", "f16")),
    (16, "f32", "bf16", "bf16"),
    (8, "f32", "tf32", "tf32"),
    *(
        (32, total, a, b)
        for total in ("f32", "f16")
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    ),
    *((32, "s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    (256, "s32", "b1", "b1"),
)


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
    shown: bool = True  # D is added
    inverted: bool = False  # scale-d is !p
    scales: tuple[int, int] = (1, 1)
    clamp: bool = False
    tame: bool = True
    seed: int = 0
    constant: bool = False  # descriptors are constants of the kernel
    groups: int = 1
    sparse: bool = False

    @property
    def spelling(self) -> str:
        shape = f"m64n{self.n}k{self.k}"
        if self.a == "b1":
            return f"wgmma.mma_async.sync.aligned.{shape}.s32.b1.b1.and.popc"
        clamp = ".satfinite" if self.clamp else ""
        name = "wgmma.mma_async.sp" if self.sparse else "wgmma.mma_async"
        return f"{name}.sync.aligned.{shape}{clamp}.{self.total}.{self.a}.{self.b}"

    @property
    def selector(self) -> int:
        """The selector of metadata: any of two where two lanes of a quad provide it."""
        return self.seed % 2 if self.a in _HALVES else 0

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
    chosen = "!%p" if case.inverted else "%p"
    sparse = f"%e, {case.selector}, " if case.sparse else ""
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
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)
{{
  .reg .b32 %d<{registers}>, %a<4>, %w<4>, %i, %s, %t, %e;
  .reg .b64 %pd, %pa, %pm, %da, %db, %o;
  .reg .pred %p, %more;
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
  ld.param.u64 %pa, [p2]; mad.wide.u32 %pa, %i, 4, %pa; ld.global.b32 %e, [%pa+{16 * threads}];
  {descriptors}
  setp.{"ne" if case.shown != case.inverted else "eq"}.u64 %p, %db, 0;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  wgmma.fence.sync.aligned;
  {case.spelling} {d}, {a}, %db, {sparse}{chosen}{case.immediates};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  {stores}
  ret;
}}
"""


def _numbers(patterns: Array, type_: str, negated: bool) -> Array:
    numbers = oracle.values(patterns, type_)
    return -numbers if negated else numbers


def list_plans(module: Module, threads: int, dice: np.random.Generator) -> list[jit.Plan | None]:
    """Return the JIT's own plan, and a random legal one."""
    legal = list(jit.legal_plans(module.functions[0], (threads, 1, 1)))
    assert any(plan.width > 1 for plan in legal)
    return [None, legal[int(dice.integers(len(legal)))]]


def check(case: Case, plans: list[jit.Plan | None] | None = None) -> None:
    """Run the product on the interpreter and the JIT; compare the results with numpy's.

    Raises:
        AssertionError: they differ in a bit.
    """
    dice = np.random.default_rng(case.seed)
    bits = oracle.bits_of(case.a)
    a = oracle.patterns(case.a, (ROWS, case.k), dice, case.tame)
    b = oracle.patterns(case.b, (case.n, case.k), dice, case.tame)
    c = oracle.patterns(case.total, (ROWS, case.n), dice, case.tame)
    stored, metadata = a, np.zeros((4 * case.groups, 32, 1), np.uint32)
    if case.sparse:
        a, stored, metadata = _sparse(case, a, dice)
    memory = bytearray(dice.bytes(128 << 10))
    end, words = 0, [0, 0]
    for place, (matrix, span) in enumerate(zip((stored, b), case.spans, strict=True)):
        if span < 0:
            continue
        layout, end = warpgroup_oracle.random_layout(
            dice,
            span,
            case.across[place],
            len(matrix),
            max(1, bits // 8),
            end,
            4 if case.sparse and place else 2,
        )
        warpgroup_oracle.write(memory, layout, matrix, bits)
        words[place] = layout.descriptor
    end = -(-end // 4096) * 4096  # a whole number of rows of 16 bytes per thread
    assert end <= len(memory)
    memory = memory[:end]
    fragments, registers = [], []
    for warp in range(4 * case.groups):
        rows = slice(16 * (warp % 4), 16 * (warp % 4) + 16)
        placed = _fragments_of_c(c[rows], case.total)
        registers.append(placed)
        fragments.append(
            oracle.fragment(stored[rows], case.a, lambda t, i: oracle.place_in_a(case.a, 16, t, i))
        )
    addends = np.array(registers)
    module = compile_verified(_source(case, addends.shape[-1], end, words), (9, 0))
    buffers = [addends.tobytes(), bytes(memory), np.array(fragments).tobytes() + metadata.tobytes()]
    threads = THREADS * case.groups
    chosen = list_plans(module, threads, dice) if plans is None else plans
    found = compare(module, buffers, (1, 1, 1), (threads, 1, 1), chosen, extra=words, dynamic=end)
    have = np.frombuffer(found[0], np.uint32).reshape(addends.shape)
    negated = case.scales[0] != case.scales[1]
    x, y = _numbers(a, case.a, negated), oracle.values(b, case.b).T
    z = c if case.shown else np.zeros_like(c)
    want = oracle.mma(x, y, z, case.a, case.total, case.clamp)
    for warp in range(4 * case.groups):
        rows = slice(16 * (warp % 4), 16 * (warp % 4) + 16)
        expected = _fragments_of_c(want[rows], case.total)
        np.testing.assert_array_equal(have[warp], expected)


def _sparse(case: Case, a: Array, dice: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return A with zeros, its stored elements, and each warp's registers of metadata."""
    unit, bits = 16 if case.a in _HALVES else 8, oracle.bits_of(case.a)
    wholes, stored, words = [], [], []
    for warp in range(4):
        own = a[16 * warp : 16 * warp + 16]
        places = sparse_oracle.choose_places(case.k * bits // unit, case.a == "tf32", dice)
        kept = sparse_oracle.stored_mask(places, unit / bits)
        noise = dice.integers(0, 1 << 32, 32, np.uint32)
        words.append(sparse_oracle.metadata_words(places, unit, case.selector, noise))
        wholes.append(np.where(kept, own, np.zeros((), own.dtype)))
        stored.append(own[kept].reshape(16, case.k // 2))
    metadata = np.array(words * case.groups, np.uint32)
    return np.concatenate(wholes), np.concatenate(stored), metadata


def _fragments_of_c(matrix: Array, type_: str) -> Array:
    """Return the registers of each lane for 16 rows of D: four elements of each eight columns."""
    blocks = [
        oracle.fragment(np.ascontiguousarray(matrix[:, n : n + 8]), type_, oracle.place_in_c)
        for n in range(0, matrix.shape[1], 8)
    ]
    return np.concatenate(blocks, axis=1)


def random_case(seed: int, most_columns: int = 256) -> Case:
    """Return a product of random shape, types, layouts and immediates."""
    dice = np.random.default_rng(seed)
    k, total, a, b = _TYPES[int(dice.integers(len(_TYPES)))]
    n = 8 * int(dice.integers(1, most_columns // 8 + 1))
    if total == "s32" and n > 24:
        n -= n % 16
    flip = [bool(bit) for bit in dice.integers(0, 2, 10)]
    turns = a in ("f16", "bf16")
    left = -1 if dice.integers(3) == 0 else SPANS[int(dice.integers(4))]
    right = SPANS[int(dice.integers(4))]
    fits = right != 32 or (flip[1] and turns)  # a line of 32 bytes is too short for its depth
    sparse = a != "b1" and fits and dice.integers(4) == 0
    return Case(
        n,
        2 * k if sparse else k,
        total,
        a,
        b,
        (left, right),
        (flip[0] and turns and left >= 0, flip[1] and turns),
        shown=flip[2] or flip[3],
        inverted=flip[4],
        scales=(1 - 2 * flip[5], 1 - 2 * flip[6]) if total[0] == "f" else (1, 1),
        clamp=flip[7] and a in ("s8", "u8"),
        tame=flip[8],
        constant=flip[9],
        groups=1 + int(dice.integers(4) == 0),
        seed=seed,
        sparse=bool(sparse),
    )


def main(count: int, first: int) -> None:
    """Check ``count`` random products; print the number of a wrong one."""
    for seed in range(first, first + count):
        case = random_case(seed, 256 if seed % 4 == 0 else 64)
        try:
            check(case)
        except Exception:
            print(f"{seed}: {case}", flush=True)
            raise
        if (seed + 1) % 20 == 0:
            print(f"{seed + 1 - first} products agree", flush=True)
    print(f"{count} products, from {first} on, agree")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
