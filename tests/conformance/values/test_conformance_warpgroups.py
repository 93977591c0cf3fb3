"""wgmma: descriptors, fragments and arithmetic, on the interpreter and the JIT, against numpy.

``TESSERA_WARPGROUP_PRODUCTS`` is the number of random products.
"""

import os

import pytest

from support.kernels.warpgroup_products import SPANS, Case, check, random_case
from vgpu_sim.exec import jit

pytestmark = pytest.mark.timeout(600)
_PRODUCTS = int(os.environ.get("TESSERA_WARPGROUP_PRODUCTS", "12"))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("span", SPANS)
def test_halves_in_shared_memory(span: int, across: bool) -> None:
    other = SPANS[(SPANS.index(span) + across) % 4]
    n = {0: 8, 32: 16, 64: 40, 128: 72}[span]
    check(Case(n, 16, "f32", "f16", "f16", (span, other), (across, not across), seed=span))


@pytest.mark.parametrize(
    ("n", "k", "total", "a", "b"),
    [
        (24, 16, "f32", "bf16", "bf16"),
        (32, 16, "f16", "f16", "f16"),
        (24, 8, "f32", "tf32", "tf32"),
        (16, 32, "f32", "e4m3", "e4m3"),
        (8, 32, "f16", "e5m2", "e5m2"),
        (8, 32, "f32", "e5m2", "e4m3"),
        (48, 32, "s32", "s8", "u8"),
        (24, 32, "s32", "u8", "u8"),
        (16, 256, "s32", "b1", "b1"),
    ],
)
@pytest.mark.parametrize("spans", [(64, 32), (-1, 128)])
def test_types(n: int, k: int, total: str, a: str, b: str, spans: tuple[int, int]) -> None:
    check(Case(n, k, total, a, b, spans, seed=n, tame=spans[0] > 0, constant=spans[0] > 0))


@pytest.mark.parametrize(
    ("n", "k", "total", "a", "b", "spans", "across"),
    [
        (24, 32, "f32", "f16", "f16", (64, 128), (False, False)),
        (16, 32, "f16", "f16", "f16", (32, 32), (True, True)),
        (8, 32, "f32", "bf16", "bf16", (-1, 64), (False, False)),
        (16, 32, "f32", "bf16", "bf16", (0, 0), (False, True)),
        (8, 16, "f32", "tf32", "tf32", (128, 0), (False, False)),
        (16, 64, "f32", "e4m3", "e4m3", (-1, 0), (False, False)),
        (8, 64, "f32", "e5m2", "e4m3", (32, 64), (False, False)),
        (24, 64, "s32", "s8", "u8", (-1, 128), (False, False)),
    ],
)
def test_sparse(
    n: int, k: int, total: str, a: str, b: str, spans: tuple[int, int], across: tuple[bool, bool]
) -> None:
    check(Case(n, k, total, a, b, spans, across, seed=n + k, sparse=True))


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("scales", [(1, -1), (-1, -1)])
def test_scales(shown: bool, scales: tuple[int, int]) -> None:
    check(Case(8, 16, "f32", "f16", "f16", (128, 128), shown=shown, scales=scales, seed=5))


def test_lane_by_lane() -> None:
    """A plan of single lanes reads the factors of other lanes one by one."""
    check(Case(8, 16, "f32", "f16", "f16", (-1, 64), seed=6), [jit.Plan(1, 1)])


@pytest.mark.parametrize("seed", range(_PRODUCTS))
def test_random_products(seed: int) -> None:
    check(random_case(seed, 32))
