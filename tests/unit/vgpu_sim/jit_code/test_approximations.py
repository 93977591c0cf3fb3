"""The approximate instructions compared with numpy's binary64 functions: bounds and special values.

The bounds are those of docs/isa.md; each is within the bounds of PTX (PTX ISA, "ex2", "lg2",
"sin", "cos", "tanh", "rsqrt", "rcp": for example 2 ulp of ex2, 2^-20.5 of sin up to pi).
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution.ptx_lanes import evaluate

NAN, INFINITY, SIGN = 0x7FFF_FFFF, 0x7F80_0000, 0x8000_0000
LANES = 1 << 16
Doubles = NDArray[np.float64]


def _singles(*parts: Doubles) -> NDArray[np.uint32]:
    return np.concatenate(parts).astype(np.float32).view(np.uint32)


def _operands(low: float, high: float) -> NDArray[np.uint32]:
    """Return numbers over a whole range, and patterns over the whole format."""
    rng = np.random.default_rng(1)
    some = _singles(rng.uniform(low, high, LANES), np.linspace(low, high, 999))
    return np.concatenate([some, rng.integers(0, 1 << 32, LANES, dtype=np.uint32)])


def _ulps(got: NDArray[np.uint32], wanted: Doubles) -> Doubles:
    """Return distances in ulp of the expected binary32 numbers; NaN where both are NaN."""
    number, nearest = got.view(np.float32), wanted.astype(np.float32)
    same = (number == nearest) | (np.isnan(number) & np.isnan(nearest))
    unit = np.spacing(np.abs(nearest)).astype(np.float64)
    return np.where(same & ~np.isfinite(nearest), 0.0, np.abs(number - wanted) / unit)


_FUNCTIONS: dict[str, tuple[Callable[[Doubles], Doubles], float, float, float]] = {
    "ex2.approx.f32": (np.exp2, -160, 130, 0.95),
    "lg2.approx.f32": (np.log2, 0.25, 4, 0.501),
    "tanh.approx.f32": (np.tanh, -10, 10, 0.505),
}


@pytest.mark.parametrize("spelling", _FUNCTIONS)
@np.errstate(all="ignore")
def test_errors_are_bounded_in_units_of_the_last_place(spelling: str) -> None:
    function, low, high, bound = _FUNCTIONS[spelling]
    a = _operands(low, high)
    got = evaluate(f"{spelling} %d, %a;", 32, a)
    errors = _ulps(got, function(a.view(np.float32).astype(np.float64)))
    assert np.max(errors) <= bound
    assert np.max(errors) > 0.4  # a check without operands would always pass


@pytest.mark.parametrize(("spelling", "function"), [("sin", np.sin), ("cos", np.cos)])
@np.errstate(all="ignore")
def test_circular_functions_have_absolute_bounds(
    spelling: str, function: Callable[[Doubles], Doubles]
) -> None:
    a = np.concatenate([_operands(-np.pi, np.pi), _operands(-(2.0**24), 2.0**24)])
    x = a.view(np.float32).astype(np.float64)
    got = evaluate(f"{spelling}.approx.f32 %d, %a;", 32, a)
    number = got.view(np.float32).astype(np.float64)
    error = np.abs(number - function(x))
    assert np.max(error[np.abs(x) <= 2.0**24]) <= 2.0**-24
    near = np.abs(x) <= np.pi
    assert np.max(_ulps(got[near], function(x[near]))) <= 0.504
    finite = np.isfinite(x)
    assert np.max(np.abs(number[finite])) <= 1
    assert np.max((error / np.abs(x))[finite & (np.abs(x) > 2.0**24)]) <= 2.0**-24
    assert (got[~finite] == NAN).all()


def _sub(sign: int) -> int:
    return sign | 0x0000_1234


_SPECIAL = {
    "ex2": {0: 0x3F80_0000, SIGN: 0x3F80_0000, INFINITY: INFINITY, SIGN | INFINITY: 0}
    | {_sub(0): 0x3F80_0000, _sub(SIGN): 0x3F80_0000, 0xFFC0_0001: NAN, 0x7F80_0001: NAN},
    "lg2": {0: SIGN | INFINITY, SIGN: SIGN | INFINITY, INFINITY: INFINITY, SIGN | INFINITY: NAN}
    | {0xBF80_0000: NAN, 0x3F80_0000: 0, 0xFFC0_0001: NAN, 0x0040_0000: 0xC2FE_0000},
    "sin": {0: 0, SIGN: SIGN, INFINITY: NAN, SIGN | INFINITY: NAN, 0x7FC0_0001: NAN}
    | {_sub(0): _sub(0), _sub(SIGN): _sub(SIGN)},
    "cos": {0: 0x3F80_0000, SIGN: 0x3F80_0000, INFINITY: NAN, SIGN | INFINITY: NAN}
    | {_sub(0): 0x3F80_0000, 0x7FC0_0001: NAN},
    "tanh": {0: 0, SIGN: SIGN, INFINITY: 0x3F80_0000, SIGN | INFINITY: 0xBF80_0000}
    | {_sub(0): _sub(0), _sub(SIGN): _sub(SIGN), 0x7FC0_0001: NAN},
    "rsqrt": {0: INFINITY, SIGN: SIGN | INFINITY, INFINITY: 0, SIGN | INFINITY: NAN}
    | {0xBF80_0000: NAN, _sub(SIGN): NAN, 0x7FC0_0001: NAN, 0x4080_0000: 0x3F00_0000},
}
# The results for the same operands with subnormal numbers flushed to zeros of their sign.
_FLUSHED = {
    "lg2": {0x0040_0000: SIGN | INFINITY, _sub(SIGN): SIGN | INFINITY},
    "sin": {_sub(0): 0, _sub(SIGN): SIGN},
    "rsqrt": {_sub(0): INFINITY, _sub(SIGN): SIGN | INFINITY},
}


@pytest.mark.parametrize("name", _SPECIAL)
def test_special_values(name: str) -> None:
    for table, ftz in ((_SPECIAL[name], ""), (_SPECIAL[name] | _FLUSHED.get(name, {}), ".ftz")):
        if ftz and name == "tanh":
            continue
        got = evaluate(f"{name}.approx{ftz}.f32 %d, %a;", 32, np.array(list(table), np.uint32))
        assert [hex(v) for v in got] == [hex(v) for v in table.values()], ftz


def test_results_are_flushed() -> None:
    a = _singles(np.array([-126.5, -126.0, -140.0]))
    assert list(evaluate("ex2.approx.ftz.f32 %d, %a;", 32, a)) == [0, 0x0080_0000, 0]
    assert (evaluate("ex2.approx.f32 %d, %a;", 32, a) > 0).all()


def test_powers_and_logarithms_of_integers_are_exact() -> None:
    powers = np.arange(-149.0, 128.0)
    got = evaluate("ex2.approx.f32 %d, %a;", 32, _singles(powers))
    assert (got.view(np.float32) == np.exp2(powers)).all()
    back = evaluate("lg2.approx.f32 %d, %a;", 32, got)
    assert (back.view(np.float32) == powers).all()


@np.errstate(all="ignore")
def test_reciprocal_roots() -> None:
    a = np.abs(_operands(0, 100).view(np.float32))
    a = a[np.isfinite(a) & (a > 0)]
    got = evaluate("rsqrt.approx.f32 %d, %a;", 32, a.view(np.uint32)).view(np.float32)
    exact = 1 / np.sqrt(a.astype(np.float64))
    assert 2.0**-25 < np.max(np.abs(got - exact) / exact) <= 2.0**-23
    wide = np.random.default_rng(2).integers(1, 0x7FF << 52, LANES, dtype=np.uint64)
    got64 = evaluate("rsqrt.approx.f64 %d, %a;", 64, wide).view(np.float64)
    exact64 = 1 / np.sqrt(wide.view(np.float64).astype(np.longdouble))
    assert np.max(np.abs(got64 - exact64) / exact64) <= 2.0**-52


_N64, _I64, _S64 = 0x7FF8_0000_0000_0000, 0x7FF0_0000_0000_0000, 1 << 63
_COARSE = {
    "rcp": {0: _I64, _S64: _S64 | _I64, _I64: 0, _S64 | _I64: _S64, 1: _I64, _S64 | 5: _S64 | _I64}
    | {_I64 | 1: _N64, _S64 | _N64: _N64, 0x4000 << 48: 0x3FE0 << 48, 0x7FEF << 48: 0},
    "rsqrt": {
        0: _I64,
        _S64: _S64 | _I64,
        _I64: 0,
        _S64 | _I64: _N64,
        1: _I64,
        _S64 | 5: _S64 | _I64,
    }
    | {_I64 | 1: _N64, 0xBFF0 << 48: _N64, 0x4010 << 48: 0x3FE0 << 48},
}


@pytest.mark.parametrize("name", _COARSE)
def test_coarse_reciprocals_have_half_a_number(name: str) -> None:
    table = _COARSE[name]
    spelling = f"{name}.approx.ftz.f64 %d, %a;"
    got = evaluate(spelling, 64, np.array(list(table), np.uint64))
    assert [hex(v) for v in got] == [hex(v) for v in table.values()]
    rng = np.random.default_rng(3)
    a = rng.integers(0x0020 << 48, 0x7FC0 << 48, LANES, dtype=np.uint64)
    got = evaluate(spelling, 64, a)
    assert (got & np.uint64(0xFFFF_FFFF) == 0).all()
    x = a.view(np.float64)
    exact = 1 / (np.sqrt(x) if name == "rsqrt" else x)
    error = np.max(np.abs(got.view(np.float64) - exact) / exact)
    assert 2.0**-22 < error <= 2.0**-19
    lower = np.uint64(0xFFFF_FFFF)
    assert (evaluate(spelling, 64, a | lower) == evaluate(spelling, 64, a & ~lower)).all()
