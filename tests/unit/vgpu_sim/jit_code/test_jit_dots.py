"""The start-up test of VDPBF16PS: what it expects, and what it would notice."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from support.oracles import matrix_oracle as oracle
from vgpu_sim.exec.jit.target import dot_products

Step = Callable[[float, float, float], float]


def _number(pattern: int) -> float:
    return float(np.uint32(pattern & 0xFFFF_FFFF).view(np.float32))


def _fused(x: float, y: float, total: float) -> float:
    """Round once, subnormals kept."""
    factors = (np.array([[np.float32(value)]]) for value in (x, y, total))
    return float(oracle.product(*factors, "f32")[0, 0])


def _flushed_late(x: float, y: float, total: float) -> float:
    """Round as for subnormals, then flush."""
    flushed = (math.copysign(0.0, v) if abs(v) < 2.0**-126 else v for v in (x, y, total))
    found = _fused(*flushed)
    return math.copysign(0.0, found) if abs(found) < 2.0**-126 else found


def _separate(x: float, y: float, total: float) -> float:
    """Round the product, then the sum."""
    with np.errstate(all="ignore"):
        found = float(np.float32(np.float32(x) * np.float32(y)) + np.float32(total))
    return math.copysign(0.0, found) if abs(found) < 2.0**-126 else found


def _computed(
    step: Step, operands: Sequence[tuple[int, ...]], *, second_first: bool = True
) -> list[int]:
    """What an instruction would give that adds by ``step``, for patterns of c, a and b."""
    found = []
    for c, a, b in operands:
        total = _number(c)
        for shift in (0, 16) if second_first else (16, 0):
            pair = (_number(word << shift & 0xFFFF_0000) for word in (a, b))
            total = step(*pair, total)
        found.append(np.float32(total))
    return np.array(found, np.float32).view(np.uint32).tolist()


def _passes(monkeypatch: pytest.MonkeyPatch, computed: Callable[..., list[int]]) -> bool:
    monkeypatch.setattr(dot_products, "computed", computed)
    return dot_products._pairs_are_right.__wrapped__()


def test_the_definition_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _passes(monkeypatch, lambda rows: _computed(oracle._paired, rows))


@pytest.mark.parametrize(
    ("step", "second_first"),
    [(oracle._paired, False), (_fused, True), (_flushed_late, True), (_separate, True)],
    ids=["other order", "subnormals kept", "flushed after rounding", "not fused"],
)
def test_others_do_not(step: Step, second_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = lambda rows: _computed(step, rows, second_first=second_first)  # noqa: E731
    assert not _passes(monkeypatch, wrong)


def test_the_instruction_is_used_where_it_is_right() -> None:
    if not dot_products._has("avx512bf16"):
        pytest.skip("this CPU has no AVX512_BF16")
    assert dot_products.native_pairs()
    dice = np.random.default_rng(4)
    patterns = dice.integers(0, 1 << 32, (64 * 16, 3), np.uint32)
    patterns[::2] &= np.uint32(0x80FF_81FF)  # about the least numbers
    operands = [tuple(row) for row in patterns.tolist()]
    want, have = _computed(oracle._paired, operands), dot_products.computed(operands)
    assert [0 if dot_products.is_nan(n) else n for n in have] == [
        0 if dot_products.is_nan(n) else n for n in want
    ]


def test_a_wrong_instruction_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_products, "_pairs_are_right", lambda: False)
    assert not dot_products.native_pairs()
