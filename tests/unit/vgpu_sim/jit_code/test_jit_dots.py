"""The start-up test of VDPBF16PS: its expected results, and the deviations that it detects."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from support.oracles import matrix_oracle as oracle
from vgpu_sim.exec.jit.target import dot_products

Step = Callable[[float, float, float], float]


def _number(pattern: int) -> float:
    return float(np.uint32(pattern & 0xFFFF_FFFF).view(np.float32))


def _fused_sum(x: float, y: float, total: float) -> float:
    """Round once, with subnormals kept."""
    factors = (np.array([[np.float32(value)]]) for value in (x, y, total))
    return float(oracle.product(*factors, "f32")[0, 0])


def _flushed_late(x: float, y: float, total: float) -> float:
    """Round as for subnormals, then flush."""
    flushed = (math.copysign(0.0, v) if abs(v) < 2.0**-126 else v for v in (x, y, total))
    found = _fused_sum(*flushed)
    return math.copysign(0.0, found) if abs(found) < 2.0**-126 else found


def _separate(x: float, y: float, total: float) -> float:
    """Round the product, then the sum."""
    with np.errstate(all="ignore"):
        found = float(np.float32(np.float32(x) * np.float32(y)) + np.float32(total))
    return math.copysign(0.0, found) if abs(found) < 2.0**-126 else found


def _compute(
    step: Step, operands: Sequence[tuple[int, ...]], *, second_first: bool = True
) -> list[int]:
    """Return the results of an instruction that adds by ``step``, for patterns of c, a and b."""
    found = []
    for c, a, b in operands:
        total = _number(c)
        for shift in (0, 16) if second_first else (16, 0):
            pair = (_number(word << shift & 0xFFFF_0000) for word in (a, b))
            total = step(*pair, total)
        found.append(np.float32(total))
    return np.array(found, np.float32).view(np.uint32).tolist()


def _passes(monkeypatch: pytest.MonkeyPatch, computed: Callable[..., list[int]]) -> bool:
    monkeypatch.setattr(dot_products, "execute", computed)
    return dot_products._pairs_are_right.__wrapped__()


def test_the_definition_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _passes(monkeypatch, lambda rows: _compute(oracle._paired, rows))


@pytest.mark.parametrize(
    ("step", "second_first"),
    [(oracle._paired, False), (_fused_sum, True), (_flushed_late, True), (_separate, True)],
    ids=["other order", "subnormals kept", "flushed after rounding", "not fused"],
)
def test_deviating_instructions_fail(
    step: Step, second_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = lambda rows: _compute(step, rows, second_first=second_first)  # noqa: E731
    assert not _passes(monkeypatch, wrong)


def test_a_correct_instruction_is_used() -> None:
    if not dot_products._has("avx512bf16"):
        pytest.skip("this CPU has no AVX512_BF16")
    assert dot_products.native_pairs()
    dice = np.random.default_rng(4)
    patterns = dice.integers(0, 1 << 32, (64 * 16, 3), np.uint32)
    patterns[::2] &= np.uint32(0x80FF_81FF)  # near the smallest normal numbers
    operands = [tuple(row) for row in patterns.tolist()]
    want, have = _compute(oracle._paired, operands), dot_products.execute(operands)
    assert [0 if dot_products.is_nan(n) else n for n in have] == [
        0 if dot_products.is_nan(n) else n for n in want
    ]


def test_a_wrong_instruction_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_products, "_pairs_are_right", lambda: False)
    assert not dot_products.native_pairs()
