"""Random products of tcgen05.mma: a kernel for each, and its results by numpy.

``python -m support.kernels.tensor_products N [FIRST]`` checks N of them on both executors.
"""

import sys
from dataclasses import dataclass

import numpy as np

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from support.kernels.warpgroup_products import SPANS
from support.oracles import (
    matrix_oracle as oracle,
    tensor_oracle,
    tensor_sparsity,
    warpgroup_oracle,
)
from support.oracles.matrix_oracle import Array

THREADS, LANES = 128, 128
SCALES_A, SCALES_B, LEFT, METADATA, EXTRA = 0, 4, 12, 20, 24
"""Columns after those of D: the scales of A and of B, A, and its metadata; and their number."""
_DENSE = (
    ("f16", "f32", "f16", "f16"),
    ("f16", "f16", "f16", "f16"),
    ("f16", "f32", "bf16", "bf16"),
    ("tf32", "f32", "tf32", "tf32"),
    *(("f8f6f4", "f32", a, b) for a in tensor_oracle.NARROW for b in tensor_oracle.NARROW),
    ("f8f6f4", "f16", "e4m3", "e2m1"),
    *(("i8", "s32", a, b) for a in ("u8", "s8") for b in ("u8", "s8")),
)
_SCALED = (
    *(("mxf8f6f4", a, b, 1) for a in tensor_oracle.NARROW for b in tensor_oracle.NARROW),
    *(("mxf4", "e2m1", "e2m1", 2) for _ in range(4)),
    *(("mxf4nvf4", "e2m1", "e2m1", each) for each in (2, 4, 4, 4)),
)


@dataclass(frozen=True)
class Case:
    """A product: ``scales`` is the number of scales of a row, 0 for none."""

    kind: str
    total: str
    a: str
    b: str
    m: int = 128
    n: int = 16
    spans: tuple[int, int] = (0, 0)
    across: tuple[bool, bool] = (False, False)
    in_tensor: bool = False
    adds: bool = True
    negated: tuple[bool, bool] = (False, False)
    masked: bool = False
    shift: int = 0
    exact: bool = False  # scales are UE4M3
    scales: int = 0
    seed: int = 0
    pair: bool = False
    stationary: bool = False
    sparse: bool = False
    shifted: bool = False
    zeros: int = 0  # a descriptor of zero columns

    @property
    def selector(self) -> int:
        """Which of four columns has the metadata."""
        return self.seed % 4 if self.sparse and self.kind in ("f16", "tf32") else 0

    @property
    def blocks(self) -> int:
        return 1 + self.pair

    @property
    def rows(self) -> int:
        """The rows of each block."""
        return self.m // self.blocks

    @property
    def parts(self) -> int:
        """The parts of D's columns, which are in lanes one after the other."""
        return LANES // self.rows if self.pair or self.stationary else 1

    @property
    def width(self) -> int:
        """The columns of D in tensor memory."""
        return self.n // self.parts

    @property
    def lanes(self) -> Array:
        """The lanes of a block's rows, part by part."""
        if self.parts == 1:
            return tensor_oracle.lanes_of_rows(self.rows)
        return np.arange(LANES)

    @property
    def k(self) -> int:
        """The elements of a row of A that are stored."""
        return {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(self.kind, 32)

    @property
    def descriptor(self) -> int:
        return tensor_oracle.instruction_descriptor(self)

    @property
    def statement(self) -> str:
        a = "[%left]" if self.in_tensor else "%da"
        head = f"tcgen05.mma{'.ws' * self.stationary}{'.sp' * self.sparse}"
        head += f".cta_group::{self.blocks}.kind::{self.kind}"
        idesc = "[%meta], %idesc" if self.sparse else "%idesc"
        if self.scales:
            vec = f".scale_vec::{self.scales}X" if self.kind == "mxf4nvf4" else ""
            return f"{head}.block_scale{vec} [%ta], {a}, %db, {idesc}, [%sa], [%sb], %p;"
        words = ", ".join(f"%m{n}" for n in range(4 * self.blocks))
        mask = f", {{{words}}}" if self.masked else ""
        last = f", {self.shift}" if self.shift else f", {self.zeros}" if self.zeros else ""
        head += ".ashift" * self.shifted
        return f"{head} [%ta], {a}, %db, {idesc}{mask}, %p{last};"


def source(case: Case, size: int) -> str:
    columns, group = case.width + EXTRA, f"cta_group::{case.blocks}"
    masks = " ".join(
        f"ld.param.u64 %x, [p{n}]; cvt.u32.u64 %m{2 * n}, %x; shr.u64 %x, %x, 32;"
        f" cvt.u32.u64 %m{2 * n + 1}, %x;"
        for n in range(4)
    )
    shared = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster"
    commit = f"{shared}.multicast::cluster.b64 [%s], %both;" if case.pair else f"{shared}.b64 [%s];"
    meet = "barrier.cluster.arrive; barrier.cluster.wait;" if case.pair else "bar.sync 0;"
    return f""".version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 pt, .param .u64 pm, .param .u64 pa, .param .u64 pb, .param .u64 pi,
                  .param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{".reqnctapercluster 2" * case.pair}
{{
  .shared .align 4 .b32 base; .shared .align 8 .b64 bar;
  .reg .b32 %i, %s, %t, %ta, %w<4>, %own, %idesc, %left, %sa, %sb, %r, %n, %m<8>, %warp, %rank;
  .reg .b32 %at, %meta;
  .reg .b64 %pt, %pm, %da, %db, %o, %x; .reg .pred %p, %q, %more, %first, %issues; .reg .b16 %both;
  mov.u32 %i, %tid.x;
  ld.param.u64 %pt, [pt]; ld.param.u64 %pm, [pm]; ld.param.u64 %da, [pa]; ld.param.u64 %db, [pb];
  ld.param.u32 %idesc, [pi]; mul.lo.u32 %t, %i, 16;
  mov.u32 %rank, %cluster_ctarank;
  mad.wide.u32 %pm, %rank, {size}, %pm; mad.wide.u32 %pt, %rank, {4 * LANES * columns}, %pt;
  mov.u32 %s, tile; and.b32 %s, %s, 0x3ffff; shr.u32 %s, %s, 4; cvt.u64.u32 %o, %s;
  add.u64 %da, %da, %o; add.u64 %db, %db, %o;
COPY:
  cvt.u64.u32 %o, %t; add.u64 %o, %o, %pm; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%o];
  mov.u32 %s, tile; add.u32 %s, %s, %t; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
  add.u32 %t, %t, {16 * THREADS}; setp.lt.u32 %more, %t, {size}; @%more bra COPY;
  setp.eq.u32 %first, %i, 0; @%first mbarrier.init.shared.b64 [bar], 1;
  shr.u32 %warp, %i, 5; setp.eq.u32 %q, %warp, 0; mov.u32 %s, base;
  @%q tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%s], 512;
  bar.sync 0;
  ld.shared.b32 %ta, [base]; shl.b32 %own, %warp, 21; add.u32 %own, %own, %ta;
  mad.wide.u32 %pt, %i, {4 * columns}, %pt; mov.u32 %n, 0; mov.b64 %o, %pt; mov.u32 %at, %own;
FILL:
  ld.global.b32 %r, [%o]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%at], {{%r}};
  add.u64 %o, %o, 4; add.u32 %at, %at, 1; add.u32 %n, %n, 1;
  setp.lt.u32 %more, %n, {columns}; @%more bra FILL;
  tcgen05.wait::st.sync.aligned;
  {meet}
  tcgen05.fence::after_thread_sync;
  add.u32 %sa, %ta, {case.width + SCALES_A}; add.u32 %sb, %ta, {case.width + SCALES_B};
  add.u32 %left, %ta, {case.width + LEFT}; add.u32 %meta, %ta, {case.width + METADATA};
  {masks}
  setp.{"ne" if case.adds else "eq"}.u32 %p, %idesc, 0;
  mov.u32 %s, bar;
  mov.u16 %both, 3; setp.eq.u32 %issues, %rank, {case.seed % case.blocks};
  and.pred %issues, %issues, %first;
  @%issues {case.statement}
  @%issues {commit}
WAIT:
  mbarrier.try_wait.parity.shared.b64 %more, [bar], 0; @!%more bra WAIT;
  mov.u32 %n, 0; mov.u32 %at, %own;
READ:
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r}}, [%at]; st.global.b32 [%pt], %r;
  add.u64 %pt, %pt, 4; add.u32 %at, %at, 1; add.u32 %n, %n, 1;
  setp.lt.u32 %more, %n, {columns}; @%more bra READ;
  bar.sync 0;
  @%q tcgen05.dealloc.{group}.sync.aligned.b32 %ta, 512;
  ret;
}}
"""


def _bytes_of(matrix: Array, type_: str, *, in_tensor: bool, whole: bool) -> Array:
    """Return rows of bytes."""
    if type_ in ("e2m3", "e3m2", "e2m1"):
        return tensor_oracle.pack(matrix, type_, in_tensor=in_tensor, whole=whole)
    return np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), -1)


def _shared(
    case: Case, a: Array, b: Array, dice: np.random.Generator
) -> tuple[list[bytearray], list[int], int]:
    """Return the shared memory of each block, the descriptors of A and B, and its size."""
    memories = [bytearray(dice.bytes(96 << 10)) for _ in range(case.blocks)]
    end, words = 0, [0, 0]
    for place, (matrix, type_) in enumerate(((a, case.a), (b, case.b))):
        size = oracle.bits_of(type_) // 8 if type_ in oracle.NUMPY else 1
        across, count = case.across[place], len(matrix) // case.blocks
        layout, end = warpgroup_oracle.random_layout(
            *(dice, case.spans[place], across, count, size, end),
            chunks=4 if case.sparse and place else 2,
        )
        words[place] = tensor_oracle.matrix_descriptor(layout)
        for block, memory in enumerate(memories):
            part = matrix[block * count : (block + 1) * count]
            if across:
                warpgroup_oracle.write(memory, layout, part, 8 * size)
            else:
                rows = _bytes_of(part, type_, in_tensor=False, whole=case.k == 64)
                warpgroup_oracle.write(memory, layout, rows, 8)
    end = -(-end // 4096) * 4096
    assert all(end <= len(memory) for memory in memories)
    return memories, words, end


def _product(case: Case, a: Array, b: Array, c: Array, codes: Array, places: Array) -> Array:
    """Return the words of a block's rows of D."""
    rows = np.maximum(np.arange(len(a)) - case.shifted, 0)
    x, y = tensor_oracle.values(a[rows], case.a), tensor_oracle.values(b, case.b)
    y = np.where(tensor_sparsity.zero_columns(case.zeros, case.n, case.parts)[:, None], 0, y)
    x, y = (-part if sign else part for part, sign in zip((x, y), case.negated, strict=True))
    if case.sparse:
        x = tensor_sparsity.expand(x, places[rows], case.kind)
    z = c.astype(np.float32) if case.total == "f16" else c
    if case.shift:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            z = z * np.float32(2.0**-case.shift)
    z = z if case.adds else np.zeros_like(z)
    if case.scales:
        scales_a = tensor_oracle.scales(codes[:, SCALES_A : SCALES_A + 4], case, 0, len(a))
        scales_b = tensor_oracle.scales(codes[:, SCALES_B : SCALES_B + 8], case, 1, len(b))
        want = tensor_oracle.add_scaled(x, y, z, scales_a, scales_b)
    elif case.a == "bf16":
        want = oracle.paired_product(x, y.T, z)
    else:
        want = oracle.product(x, y.T, z, "s32" if case.total == "s32" else "f32")
    return tensor_oracle.words(want, case.total)


def _split(case: Case, matrix: Array) -> Array:
    """Return a block's rows as they are in tensor memory: one part below the other."""
    return np.concatenate(np.split(matrix, case.parts, axis=1))


def check(case: Case) -> None:
    """Run the product on the interpreter and the JIT; compare the results with numpy's.

    Raises:
        AssertionError: they differ in a bit.
    """
    dice = np.random.default_rng(case.seed)
    a, b = (
        tensor_oracle.patterns(type_, (rows, depth), dice)
        for type_, rows, depth in (
            (case.a, case.m, case.k),
            (case.b, case.n, case.k << case.sparse),
        )
    )
    places = tensor_sparsity.random_codes(case.kind, case.m, case.k, dice)
    c = tensor_oracle.patterns(case.total, (case.m, case.n), dice)
    memories, words, end = _shared(case, a, b, dice)
    lanes, width = case.lanes, case.width
    before = dice.integers(0, 1 << 32, (case.blocks, LANES, width + EXTRA), np.uint32)
    mask = dice.integers(0, 1 << 32, 8, np.uint32) * case.masked
    expected = before.copy()
    for block in range(case.blocks):
        part = slice(block * case.rows, (block + 1) * case.rows)
        before[block, lanes, :width] = _split(case, tensor_oracle.words(c[part], case.total))
        if case.in_tensor:
            rows = _bytes_of(a[part], case.a, in_tensor=True, whole=case.k == 64).view(np.uint32)
            before[block, lanes, width + LEFT : width + LEFT + 8] = np.tile(rows, (case.parts, 1))
        if case.sparse:
            column = width + METADATA + case.selector
            given = before[block], places[part], case.kind, lanes, column, case.parts
            tensor_sparsity.write_metadata(*given)
        expected[block] = before[block]
        want = _product(case, a[part], b, c[part], before[block, :32, width:], places[part])
        own = mask[4 * block : 4 * block + 4]
        chosen = np.array([not own[lane // 32] >> lane % 32 & 1 for lane in lanes], bool)
        expected[block, lanes[chosen], :width] = _split(case, want)[chosen]
    module = compile_verified(source(case, end), (10, 0))
    extra = [*words, case.descriptor, *map(int, mask.astype(np.uint32).view(np.uint64))]
    buffers = [before.tobytes(), b"".join(bytes(memory[:end]) for memory in memories)]
    grid, block_shape = (case.blocks, 1, 1), (THREADS, 1, 1)
    found = compare(module, buffers, grid, block_shape, [None], extra=extra, dynamic=end)
    have = np.frombuffer(found[0], np.uint32).reshape(expected.shape)
    np.testing.assert_array_equal(have, expected)


def random_case(seed: int, most_columns: int = 256) -> Case:
    """Return a product of random shape, types, layouts and flags."""
    dice = np.random.default_rng(seed)
    flip = [bool(bit) for bit in dice.integers(0, 2, 8)]
    pair = seed % 5 == 4
    spans = (SPANS[int(dice.integers(4))], SPANS[int(dice.integers(4))])
    sparse = seed % 4 == 1
    if sparse and spans[1] == 32:
        spans = (spans[0], 64)
    if seed % 3 == 0:
        kind, a, b, scales = _SCALED[int(dice.integers(len(_SCALED)))]
        step = 16 if pair else 8
        n = step * int(dice.integers(1, most_columns // step + 1))
        exact = scales == 4 and flip[4]
        return Case(
            kind, "f32", a, b, 256 if pair and flip[3] else 128, n, spans, pair=pair, in_tensor=flip[0], adds=flip[1] or flip[2],
            negated=(flip[5], flip[6]), exact=exact, scales=scales, seed=seed,
            sparse=sparse,
        )  # fmt: skip
    kind, total, a, b = _DENSE[int(dice.integers(len(_DENSE)))]
    m, stationary = (64 if flip[3] else 128) << pair, not pair and seed % 7 == 0
    step = 16 if m >= 128 or kind == "i8" else 8
    step <<= pair and kind == "i8"
    n = step * int(dice.integers(1, most_columns // step + 1))
    if stationary:
        m, n = (32, 64, 128)[int(dice.integers(3))], (64, 128)[flip[1]]
    turned = kind == "f16"
    return Case(
        kind, total, a, b, m, n, spans,
        (flip[5] and turned and not flip[0], flip[6] and turned),
        in_tensor=flip[0],
        adds=flip[1] or flip[2],
        negated=(flip[4], flip[7]) if kind != "i8" else (False, False),
        masked=not stationary and int(dice.integers(3)) == 0,
        shift=int(dice.integers(1, 16)) if kind in ("f16", "tf32") and not stationary and dice.integers(3) == 0
        else 0,
        seed=seed,
        pair=pair,
        stationary=stationary,
        sparse=sparse,
        shifted=flip[0] and m >= 128 and not stationary and seed % 2 == 0,
        zeros=tensor_sparsity.random_zeros(dice) if stationary and flip[4] else 0,
    )  # fmt: skip


def main(count: int, first: int) -> None:
    """Check ``count`` random products; print the number of a wrong one."""
    for seed in range(first, first + count):
        case = random_case(seed, 256 if seed % 4 == 0 else 48)
        try:
            check(case)
        except Exception:
            print(f"{seed}: {case}", flush=True)
            raise
    print(f"{count} products, from {first} on, agree")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
