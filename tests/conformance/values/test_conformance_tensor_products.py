"""tcgen05.mma: kinds, layouts and flags, on the interpreter and the JIT, against numpy.

``TESSERA_TENSOR_PRODUCTS`` is the number of random products.
"""

import os

import pytest

from support.kernels.tensor_products import Case, check, random_case

pytestmark = pytest.mark.timeout(600)
_PRODUCTS = int(os.environ.get("TESSERA_TENSOR_PRODUCTS", "6"))


@pytest.mark.parametrize(
    "case",
    [
        Case("f16", "f32", "f16", "f16", 128, 32, (128, 64), (True, True), seed=1),
        Case("f16", "f32", "bf16", "bf16", 64, 24, (0, 32), shift=3, masked=True, seed=2),
        Case("f16", "f16", "f16", "f16", 64, 16, (64, 128), negated=(True, False), seed=3),
        Case("tf32", "f32", "tf32", "tf32", 128, 16, (32, 0), in_tensor=True, shift=1, seed=4),
        Case("f8f6f4", "f32", "e5m2", "e2m1", 128, 16, (128, 64), adds=False, seed=5),
        Case("f8f6f4", "f16", "e2m3", "e3m2", 64, 8, (0, 32), in_tensor=True, seed=6),
        Case("i8", "s32", "s8", "u8", 64, 24, (64, 64), masked=True, seed=7),
        Case("mxf8f6f4", "f32", "e4m3", "e3m2", 128, 40, (128, 32), scales=1, seed=14),
        Case("mxf4", "f32", "e2m1", "e2m1", 128, 16, (128, 0), in_tensor=True, scales=2, seed=9),
        Case("mxf4nvf4", "f32", "e2m1", "e2m1", 128, 8, exact=True, scales=4, seed=10),
    ],
    ids=lambda case: f"{case.kind}-{case.total}-{case.a}-{case.b}",
)
def test_kinds(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case("f16", "f32", "f16", "f16", 256, 48, (128, 64), (True, True), pair=True, seed=1),
        Case("f16", "f32", "bf16", "bf16", 128, 16, (0, 32), masked=True, pair=True, seed=2),
        Case("tf32", "f32", "tf32", "tf32", 128, 32, in_tensor=True, shift=1, pair=True, seed=3),
        Case("f8f6f4", "f16", "e5m2", "e2m1", 256, 16, (32, 128), masked=True, pair=True, seed=4),
        Case("i8", "s32", "s8", "u8", 128, 64, (64, 64), pair=True, seed=5),
        Case("mxf8f6f4", "f32", "e4m3", "e3m2", 256, 48, scales=1, pair=True, seed=14),
        Case("mxf4nvf4", "f32", "e2m1", "e2m1", 128, 32, exact=True, scales=4, pair=True, seed=7),
    ],
    ids=lambda case: f"{case.kind}-{case.m}-{case.a}-{case.b}",
)
def test_products_of_two_blocks(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case("f16", "f32", "f16", "f16", 32, 64, (128, 64), stationary=True, seed=1),
        Case("f8f6f4", "f32", "e4m3", "e5m2", 64, 64, in_tensor=True, stationary=True, seed=2),
        Case("i8", "s32", "u8", "s8", 128, 64, stationary=True, seed=3),
    ],
    ids=lambda case: f"{case.kind}-{case.m}",
)
def test_products_by_stationary_weights(case: Case) -> None:
    check(case)


_ZEROS = 1 << 39 | 3 << 40 | 2 << 48  # four used columns, three of zeros


@pytest.mark.parametrize(
    "case",
    [
        Case("f16", "f32", "f16", "f16", 128, 16, (128, 64), (True, True), sparse=True, seed=2),
        Case("f16", "f32", "bf16", "bf16", 64, 24, (0, 128), sparse=True, masked=True, seed=3),
        Case("tf32", "f32", "tf32", "tf32", 128, 16, in_tensor=True, sparse=True, seed=4),
        Case("f8f6f4", "f16", "e2m3", "e3m2", 64, 8, in_tensor=True, sparse=True, seed=6),
        Case("i8", "s32", "s8", "u8", 64, 24, (64, 64), sparse=True, seed=7),
        Case("mxf8f6f4", "f32", "e4m3", "e3m2", 128, 16, scales=1, sparse=True, seed=14),
        Case("mxf4nvf4", "f32", "e2m1", "e2m1", 128, 8, scales=4, sparse=True, seed=10),
        Case("f16", "f32", "f16", "f16", 256, 32, (128, 64), pair=True, sparse=True, seed=1),
        Case("f8f6f4", "f32", "e4m3", "e5m2", 64, 64, sparse=True, stationary=True, seed=2),
    ],
    ids=lambda case: f"{case.kind}-{case.m}-{case.a}-{case.b}",
)
def test_sparse_products(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        Case("f16", "f32", "bf16", "bf16", 128, 16, in_tensor=True, shifted=True, seed=8),
        Case("tf32", "f32", "tf32", "tf32", 128, 32, in_tensor=True, pair=True, sparse=True,
             shifted=True, seed=3),
    ],
    ids=["one", "pair-sparse"],
)  # fmt: skip
def test_shifted_rows(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("rows", "zeros"), [(128, _ZEROS | 1 << 32 | 5), (64, _ZEROS | 1 << 33 | 0x0601), (32, _ZEROS)]
)
def test_zero_columns(rows: int, zeros: int) -> None:
    check(Case("i8", "s32", "u8", "s8", rows, 64, stationary=True, zeros=zeros, seed=3))


@pytest.mark.parametrize("seed", range(300, 300 + _PRODUCTS))
def test_random_products(seed: int) -> None:
    check(random_case(seed, 32))
