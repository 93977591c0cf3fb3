"""mma.sp: products with a factor of which half is stored, on both executors against numpy."""

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.warp_fragments import GRID, WARPS, run_fragments
from support.oracles import matrix_oracle as oracle, sparse_oracle
from vgpu_sim.compiler.errors import InvalidPtxError

pytestmark = pytest.mark.timeout(600)
Array = oracle.Array
ROWS, COLUMNS = 16, 8
COUNT = WARPS * GRID
UNITS = {"f16": 16, "bf16": 16, "tf32": 16}
"""Bits of the units of which two in four are stored; others have 8."""


def _check(
    shape: str, a: str, b: str, total: str, words: str, selector: int, *, tame: bool = True
) -> None:
    depth = int(shape.split("k")[1])
    dice = np.random.default_rng(depth + selector)
    bits = oracle.bits_of(a)
    unit = UNITS.get(a, 8)
    x = [oracle.patterns(a, (ROWS, depth), dice, tame) for _ in range(COUNT)]
    y = [oracle.patterns(b, (depth, COLUMNS), dice, tame) for _ in range(COUNT)]
    z = [oracle.patterns(total, (ROWS, COLUMNS), dice, tame) for _ in range(COUNT)]
    places = [
        sparse_oracle.choose_places(depth * bits // unit, a == "tf32", dice) for _ in range(COUNT)
    ]
    noise = dice.integers(0, 1 << 32, (COUNT, 32), np.uint32)
    kept = [sparse_oracle.stored_mask(one, unit / bits) for one in places]
    stored = [m[k].reshape(ROWS, depth // 2) for m, k in zip(x, kept, strict=True)]
    fragments = {
        "a": [oracle.fragment(m, a, lambda t, i: oracle.place_in_a(a, ROWS, t, i)) for m in stored],
        "b": [oracle.fragment(m, b, lambda t, i: oracle.place_in_b(b, t, i)) for m in y],
        "c": [oracle.fragment(m, total, oracle.place_in_c) for m in z],
        "e": [
            sparse_oracle.metadata_words(p, unit, selector, n)
            for p, n in zip(places, noise, strict=True)
        ],
    }
    arrays = {name: (np.array(found), 32) for name, found in fragments.items()}
    results = arrays["c"][0].shape[-1]
    text = f"mma.{words.format(shape=shape)} {{d}}, {{a}}, {{b}}, {{c}}, %e0, {selector};"
    found = run_fragments(text, arrays, results, 32)
    for m, k, right, c, have in zip(x, kept, y, z, found, strict=True):
        left = oracle.values(np.where(k, m, np.zeros((), m.dtype)), a)
        right = oracle.values(right, b)
        want = oracle.mma(left, right, c, a, total, "satfinite" in words)
        got = oracle.matrix_of(have, total, (ROWS, COLUMNS))
        np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{got.itemsize}"))


@pytest.mark.parametrize("ordered", ["", "::ordered_metadata"], ids=["", "ordered"])
@pytest.mark.parametrize(
    ("shape", "factors", "total", "selector"),
    [
        ("m16n8k16", "f16", "f16", 3),
        ("m16n8k32", "f16", "f32", 1),
        ("m16n8k16", "bf16", "f32", 2),
        ("m16n8k32", "bf16", "f32", 0),
        ("m16n8k8", "tf32", "f32", 1),
        ("m16n8k16", "tf32", "f32", 1),
    ],
)
def test_floats(shape: str, factors: str, total: str, selector: int, ordered: str) -> None:
    words = f"sp{ordered}.sync.aligned.{{shape}}.row.col.{total}.{factors}.{factors}.{total}"
    _check(shape, factors, factors, total, words, selector)


@pytest.mark.parametrize(("a", "b"), [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2")])
def test_narrow_floats(a: str, b: str) -> None:
    words = f"sp.sync.aligned.{{shape}}.row.col.f32.{a}.{b}.f32"
    _check("m16n8k64", a, b, "f32", words, 0)


@pytest.mark.parametrize(
    ("shape", "a", "b", "selector", "clamp"),
    [
        ("m16n8k32", "s8", "u8", 1, ""),
        ("m16n8k32", "s8", "s8", 0, ".satfinite"),
        ("m16n8k64", "u8", "u8", 0, ".satfinite"),
        ("m16n8k64", "s4", "s4", 1, ".satfinite"),
        ("m16n8k128", "u4", "s4", 0, ""),
    ],
)
def test_integers(shape: str, a: str, b: str, selector: int, clamp: str) -> None:
    words = f"sp.sync.aligned.{{shape}}.row.col{clamp}.s32.{a}.{b}.s32"
    _check(shape, a, b, "s32", words, selector, tame=False)


@pytest.mark.parametrize(
    ("shape", "type_", "selector"),
    [("m16n8k16", "f16", 4), ("m16n8k32", "bf16", 2), ("m16n8k16", "tf32", 2)],
)
def test_a_selector_of_no_lane_is_invalid(shape: str, type_: str, selector: int) -> None:
    large = shape == "m16n8k32" or type_ == "tf32"
    a, b = ("{%r0, %r1, %r2, %r3}",) * 2 if large else ("{%r0, %r1}",) * 2
    body = (
        f"mma.sp.sync.aligned.{shape}.row.col.f32.{type_}.{type_}.f32"
        f" {{%f0, %f1, %f2, %f3}}, {a}, {b}, {{%f0, %f1, %f2, %f3}}, %r0, {selector};"
    )
    source = kernel(body, "", registers=".reg .b32 %r<4>; .reg .f32 %f<4>;")
    with pytest.raises(InvalidPtxError, match=f"the sparsity selector is {selector}"):
        compile_verified(source)
