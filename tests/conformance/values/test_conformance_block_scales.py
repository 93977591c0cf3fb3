"""mma.sync of elements of 4 to 8 bits, with block scales and without, on both executors."""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.warp_fragments import GRID, WARPS, run_fragments
from support.oracles import matrix_oracle, scaled_oracle as oracle, sparse_oracle
from vgpu_sim.compiler.errors import InvalidPtxError, UnsupportedPtxError

pytestmark = pytest.mark.timeout(600)
Array = oracle.Array
ROWS, COLUMNS = 16, 8
COUNT = WARPS * GRID
KINDS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def _patterns(kind: str, shape: tuple[int, ...], dice: np.random.Generator) -> Array:
    return dice.integers(0, 1 << (1 + sum(oracle.FIELDS[kind])), shape, np.uint8)


def _fragment_of_a(matrix: Array, bits: int) -> Array:
    kind = "u8" if bits == 8 else "u4"
    return matrix_oracle.fragment(
        matrix, kind, lambda lane, i: matrix_oracle.place_in_a(kind, ROWS, lane, i)
    )


def _fragment_of_b(matrix: Array, bits: int) -> Array:
    kind = "u8" if bits == 8 else "u4"
    return matrix_oracle.fragment(
        matrix, kind, lambda lane, i: matrix_oracle.place_in_b(kind, lane, i)
    )


def _scale_words(codes: Array, per_quad: int, byte: int, thread: int, noise: Array) -> Array:
    """Return a warp's registers with ``codes`` (rows, blocks); the rest of their bits is noise."""
    words = noise.copy()
    for r, row in enumerate(codes):
        lane = 4 * (r % 8) + (2 * thread + r // 8 if per_quad == 2 else thread)
        held = bytearray(int(words[lane]).to_bytes(4, "little"))
        held[byte : byte + len(row)] = row.tobytes()
        words[lane] = int.from_bytes(held, "little")
    return words.reshape(32, 1)


def _numbers(matrix: Array, kind: str) -> list[list[float]]:
    return [[oracle.number(int(one), kind) for one in row] for row in matrix]


def _scales(codes: Array, kind: str) -> list[list[float]]:
    return [[oracle.scale(int(one), kind) for one in row] for row in codes]


def _matrix_patterns(registers: Array) -> Array:
    return matrix_oracle.matrix_of(registers, "f32", (ROWS, COLUMNS)).view(np.uint32)


def _check(
    kinds: tuple[str, str],
    depth: int,
    blocks: int,
    scale: str,
    words: str,
    selectors: tuple[int, int, int, int],
    *,
    tame: bool = False,
    dynamic: bool = False,
    sparse: bool = False,
) -> None:
    dice = np.random.default_rng(depth + blocks + sum(selectors))
    bits = 4 if "kind::mxf4" in words else 8
    a = [_patterns(kinds[0], (ROWS, depth), dice) for _ in range(COUNT)]
    b = [_patterns(kinds[1], (COLUMNS, depth), dice) for _ in range(COUNT)]
    c = [(dice.normal(size=(ROWS, COLUMNS)) * 8).astype(np.float32) for _ in range(COUNT)]
    first, beyond = (110, 140) if tame and scale == "ue8m0" else (0, 256)
    codes = [
        tuple(dice.integers(first, beyond, (n, blocks), np.uint8) for n in (ROWS, COLUMNS))
        for _ in range(COUNT)
    ]
    noise = dice.integers(0, 1 << 32, (COUNT, 2, 32), np.uint32)
    byte_a, thread_a, byte_b, thread_b = selectors
    held = oracle.container_byte if bits == 8 else lambda pattern, kind: pattern
    stored, before = a, ""
    if sparse:
        places = [sparse_oracle.choose_places(depth * bits // 8, False, dice) for _ in a]
        kept = [sparse_oracle.stored_mask(one, 8 / bits) for one in places]
        stored = [x[k].reshape(ROWS, depth // 2) for x, k in zip(a, kept, strict=True)]
        a = [np.where(k, x, np.uint8(0)) for x, k in zip(a, kept, strict=True)]
        before = "%e0, 0, "
    fragments = {
        "a": [_fragment_of_a(_held(x, kinds[0], held), bits) for x in stored],
        "b": [_fragment_of_b(_held(y, kinds[1], held).T, bits) for y in b],
        "c": [matrix_oracle.fragment(z, "f32", matrix_oracle.place_in_c) for z in c],
        "s": [
            _scale_words(x, 2, byte_a, thread_a, n[0])
            for (x, _), n in zip(codes, noise, strict=True)
        ],
        "t": [
            _scale_words(y, 1, byte_b, thread_b, n[1])
            for (_, y), n in zip(codes, noise, strict=True)
        ],
    }
    if sparse:
        fragments["e"] = [
            sparse_oracle.metadata_words(p, 8, 0, n[0]) for p, n in zip(places, noise, strict=True)
        ]
    chosen = [str(one) for one in selectors]
    begin = ""
    if dynamic:
        begin = ".reg .b16 %h<4>;" + "".join(
            f" mov.b16 %h{n}, {one};" for n, one in enumerate(chosen)
        )
        chosen = [f"%h{n}" for n in range(4)]
    select = "{{{{{}, {}}}}}, {{t}}, {{{{{}, {}}}}}".format(*chosen)
    ordered = "sp::ordered_metadata." if sparse else ""
    instruction = f"{begin} mma.{ordered}sync.aligned.{words} {{d}}, {{a}}, {{b}}, {{c}}, {before}{{s}}, {select};"
    arrays = {name: (np.array(found), 32) for name, found in fragments.items()}
    found = run_fragments(instruction, arrays, 4, 32)
    for x, y, z, (left, right), have in zip(a, b, c, codes, found, strict=True):
        want = oracle.scaled_product(
            _numbers(x, kinds[0]),
            _numbers(y, kinds[1]),
            _scales(left, scale),
            _scales(right, scale),
            z,
        )
        np.testing.assert_array_equal(_matrix_patterns(have), want)


def _held(matrix: Array, kind: str, held: object) -> Array:
    assert callable(held)
    return np.array([[held(int(one), kind) for one in row] for row in matrix], np.uint8)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(KINDS, KINDS)))
def test_mxf8f6f4(a: str, b: str) -> None:
    words = f"m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{a}.{b}.f32.ue8m0"
    place = KINDS.index(a) + KINDS.index(b)
    _check((a, b), 32, 1, "ue8m0", words, (place % 4, place % 2, 3 - place % 4, place % 4))


@pytest.mark.parametrize("tame", [True, False], ids=["numbers", "patterns"])
@pytest.mark.parametrize(
    ("kind", "size", "scale"),
    [
        ("mxf4", 2, "ue8m0"),
        ("mxf4nvf4", 2, "ue8m0"),
        ("mxf4nvf4", 4, "ue8m0"),
        ("mxf4nvf4", 4, "ue4m3"),
    ],
)
def test_nibbles(kind: str, size: int, scale: str, tame: bool) -> None:
    words = (
        f"m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::{size}X.f32.e2m1.e2m1.f32.{scale}"
    )
    for byte, thread in ((0, 1), (2, 0)) if size == 2 else ((0, 1), (0, 0)):
        selectors = (byte, thread, byte, 2 + thread)
        _check(("e2m1", "e2m1"), 64, size, scale, words, selectors, tame=tame)


@pytest.mark.parametrize(
    ("kinds", "kind", "depth", "size", "scale"),
    [
        (("e4m3", "e2m1"), "mxf8f6f4", 64, 1, "ue8m0"),
        (("e5m2", "e2m3"), "mxf8f6f4", 64, 1, "ue8m0"),
        (("e2m1", "e2m1"), "mxf4", 128, 2, "ue8m0"),
        (("e2m1", "e2m1"), "mxf4nvf4", 128, 4, "ue4m3"),
    ],
)
def test_sparse(kinds: tuple[str, str], kind: str, depth: int, size: int, scale: str) -> None:
    types = f"f32.{kinds[0]}.{kinds[1]}.f32.{scale}"
    shape = f"m16n8k{depth}.row.col.kind::{kind}.block_scale.scale_vec::{size}X"
    words = f"{shape}.{types}"
    _check(kinds, depth, size, scale, words, (0, 1, 0, 2), tame=True, sparse=True)


def test_selectors_in_registers_and_modifiers_in_another_order() -> None:
    words = "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e3m2.f32.ue8m0"
    for selectors in ((1, 1, 2, 3), (3, 0, 0, 1)):
        _check(("e4m3", "e3m2"), 32, 1, "ue8m0", words, selectors, dynamic=True)


@pytest.mark.parametrize("total", ["f16", "f32"])
@pytest.mark.parametrize(("a", "b"), [("e2m1", "e3m2"), ("e2m3", "e5m2"), ("e4m3", "e4m3")])
def test_without_scales(a: str, b: str, total: str) -> None:
    dice = np.random.default_rng(len(total))
    x = [_patterns(a, (ROWS, 32), dice) for _ in range(COUNT)]
    y = [_patterns(b, (COLUMNS, 32), dice) for _ in range(COUNT)]
    c = [
        (dice.normal(size=(ROWS, COLUMNS)) * 8).astype(matrix_oracle.NUMPY[total])
        for _ in range(COUNT)
    ]
    fragments = {
        "a": [_fragment_of_a(_held(one, a, oracle.container_byte), 8) for one in x],
        "b": [_fragment_of_b(_held(one, b, oracle.container_byte).T, 8) for one in y],
        "c": [matrix_oracle.fragment(z, total, matrix_oracle.place_in_c) for z in c],
    }
    arrays = {name: (np.array(found), 32) for name, found in fragments.items()}
    words = f"m16n8k32.row.col.kind::f8f6f4.{total}.{a}.{b}.{total}"
    results = 2 if total == "f16" else 4
    found = run_fragments(
        f"mma.sync.aligned.{words} {{d}}, {{a}}, {{b}}, {{c}};", arrays, results, 32
    )
    for left, right, z, have in zip(x, y, c, found, strict=True):
        rows, columns = _numbers(left, a), _numbers(right, b)
        want = np.array(
            [
                [oracle.chain(r, k, float(z[i, n])) for n, k in enumerate(columns)]
                for i, r in enumerate(rows)
            ]
        )
        with np.errstate(over="ignore"):
            numbers = want.astype(matrix_oracle.NUMPY[total])
        got = matrix_oracle.matrix_of(have, total, (ROWS, COLUMNS))
        np.testing.assert_array_equal(np.isnan(got), np.isnan(numbers))
        np.testing.assert_array_equal(got[~np.isnan(got)], numbers[~np.isnan(numbers)])


@pytest.mark.parametrize(
    ("kind", "size", "scale"), [("mxf4", 2, "ue8m0"), ("mxf4nvf4", 4, "ue4m3")]
)
def test_every_pair_of_e2m1_times_every_scale(kind: str, size: int, scale: str) -> None:
    """A row has one element, and so has a column: each result is one product of ml_dtypes."""
    codes = range(256 if scale == "ue8m0" else 128)
    one = 127 if scale == "ue8m0" else 0x38
    fields = [
        (upper, code, other)
        for upper in range(2)
        for code, other in [(n, one) for n in codes] + [(one, n) for n in codes]
    ]
    a = np.zeros((ROWS, 64), np.uint8)
    a[:, 0] = np.arange(ROWS)
    b = np.zeros((2, 64, COLUMNS), np.uint8)
    b[:, 0] = np.arange(ROWS).reshape(2, COLUMNS)
    halves = [_fragment_of_b(part, 4) for part in b]
    scales = np.array([(code, other) for _, code, other in fields], np.uint32)
    count = len(fields)
    fragments = {
        "a": np.broadcast_to(_fragment_of_a(a, 4), (count, 32, 4)),
        "b": np.array([halves[upper] for upper, _, _ in fields]),
        "c": np.zeros((count, 32, 4), np.uint32),
        "s": np.broadcast_to(scales[:, 0, None, None], (count, 32, 1)),
        "t": np.broadcast_to(scales[:, 1, None, None], (count, 32, 1)),
    }
    types = f"f32.e2m1.e2m1.f32.{scale}"
    words = f"m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::{size}X.{types}"
    operands = "{d}, {a}, {b}, {c}, {s}, {{0, 0}}, {t}, {{0, 0}}"
    arrays = {
        name: (np.ascontiguousarray(part).astype(np.uint32), 32) for name, part in fragments.items()
    }
    found = run_fragments(f"mma.sync.aligned.{words} {operands};", arrays, 4, 32, count // WARPS)
    elements = np.arange(ROWS, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    number = ml_dtypes.float8_e8m0fnu if scale == "ue8m0" else ml_dtypes.float8_e4m3fn
    factors = scales.astype(np.uint8).view(number).astype(np.float64).prod(axis=1)
    for (upper, _, _), factor, have in zip(fields, factors, found, strict=True):
        columns = elements[COLUMNS * upper : COLUMNS * (upper + 1)]
        with np.errstate(over="ignore"):
            want = (elements[:, None] * columns * factor + 0.0).astype(np.float32)
        np.testing.assert_array_equal(
            matrix_oracle.matrix_of(have, "f32", (ROWS, COLUMNS)), want, f"{upper} {factor}"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_those_of_ml_dtypes(kind: str) -> None:
    """The oracle's decoding, on which the tests above rest."""
    count = 1 << (1 + sum(oracle.FIELDS[kind]))
    want = np.arange(count, dtype=np.uint8).view(_DTYPES[kind]).astype(np.float64)
    np.testing.assert_array_equal([oracle.number(n, kind) for n in range(count)], want)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("ue8m0", ml_dtypes.float8_e8m0fnu), ("ue4m3", ml_dtypes.float8_e4m3fn)]
)
def test_scales_are_those_of_ml_dtypes(kind: str, dtype: type) -> None:
    count = 256 if kind == "ue8m0" else 128
    want = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float64)
    np.testing.assert_array_equal([oracle.scale(n, kind) for n in range(count)], want)


@pytest.mark.parametrize(
    ("kind", "size", "types", "selectors", "reason"),
    [
        ("mxf8f6f4", 1, "e4m3.e2m1.f32.ue8m0", "{4, 0}", "byte-id is 4"),
        ("mxf8f6f4", 1, "e4m3.e2m1.f32.ue8m0", "{0, 2}", "thread-id is 2"),
        ("mxf4", 2, "e2m1.e2m1.f32.ue8m0", "{1, 0}", "byte-id is 1, but it must be 0 or 2"),
        ("mxf4nvf4", 4, "e2m1.e2m1.f32.ue4m3", "{2, 0}", "byte-id is 2, but it must be 0"),
        ("mxf4nvf4", 2, "e2m1.e2m1.f32.ue4m3", "{0, 0}", "ue4m3"),
        ("mxf4", 4, "e2m1.e2m1.f32.ue8m0", "{0, 0}", "scale_vec::4X"),
    ],
)
def test_what_ptx_does_not_allow_is_refused(
    kind: str, size: int, types: str, selectors: str, reason: str
) -> None:
    shape = "m16n8k32" if kind == "mxf8f6f4" else "m16n8k64"
    words = f"{shape}.row.col.kind::{kind}.block_scale.scale_vec::{size}X.f32.{types}"
    with pytest.raises((InvalidPtxError, UnsupportedPtxError), match=reason):
        compile_verified(_one_product(words, selectors))


def test_a_target_without_block_scales_is_refused() -> None:
    words = "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0"
    source = _one_product(words, "{0, 0}").replace("sm_120a", "sm_100a")
    with pytest.raises(InvalidPtxError, match=r"needs .target sm_120f"):
        compile_verified(source)


def _one_product(words: str, selectors: str) -> str:
    d = "{%f0, %f1, %f2, %f3}"
    operands = f"{d}, {{%r0, %r1, %r2, %r3}}, {{%r0, %r1}}, {d}, %r0, {selectors}, %r1, {{0, 0}}"
    body = f"mma.sync.aligned.{words} {operands};"
    return kernel(body, "", registers=".reg .b32 %r<4>; .reg .f32 %f<4>;")


def test_sums_of_the_oracle_are_those_of_fractions() -> None:
    dice = np.random.default_rng(11)
    numbers = [0.0, -0.0, 1.0, 2.0**-149, 2.0**127, -(2.0**-133), 1 + 2.0**-23, 3 * 2.0**-150]
    numbers += (dice.normal(size=40).astype(np.float32) * np.ldexp(1.0, np.arange(40))).tolist()
    for x, y, z in itertools.product(numbers, [1.0, 0.75, -(2.0**-24), 2.0**100], numbers):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        for double, rounded in ((False, oracle._single), (True, oracle._double)):
            if exact != 0:
                assert oracle._fused((x, y), z, double=double) == rounded(exact), (x, y, z)
