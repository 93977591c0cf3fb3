"""Approximations of binary16 and bfloat16, and forms that PTX lacks; see also test_float_forms."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.ptx_lanes import evaluate
from support.oracles.float_forms import format_of, numbers
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError

COUNT = 768
RANDOM = random.Random(16)


_APPROXIMATE: dict[str, Callable[[np.ndarray], np.ndarray]] = {"ex2": np.exp2, "tanh": np.tanh}


@pytest.mark.parametrize("spelling", ["ex2.approx.f16", "tanh.approx.f16", "tanh.approx.bf16"])
@np.errstate(all="ignore")
def test_approximations_of_every_number(spelling: str) -> None:
    """PTX bounds: ex2 2^-9.9 relative, tanh 2^-10.987 (f16) and 2^-8 (bf16)."""
    a = np.arange(1 << 16, dtype=np.uint16)
    got = evaluate(f"{spelling} %d, %a;", 16, a)
    pairs = evaluate(f"{spelling}x2 %d, %a;", 32, a.view(np.uint32))
    assert (pairs.view(np.uint16) == got).all()
    if spelling.endswith("bf16"):
        x, y = ((v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for v in (a, got))
        ulp = 2.0**-8
    else:
        x, y = a.view(np.float16).astype(np.float64), got.view(np.float16).astype(np.float64)
        ulp = 2.0**-11
    wanted = _APPROXIMATE[spelling.split(".")[0]](x)
    assert (np.isnan(y) == np.isnan(wanted)).all()
    assert (got[np.isnan(y)] == 0x7FFF).all()
    fits = np.isfinite(wanted) & (np.abs(wanted) < 65000) & (np.abs(wanted) > 2.0**-14)
    relative = np.abs(y[fits] - wanted[fits]) / np.abs(wanted[fits])
    assert ulp / 2 < np.max(relative) <= ulp * 1.001
    subnormal = np.abs(wanted) <= 2.0**-14
    assert np.max(np.abs(y[subnormal] - wanted[subnormal])) <= 2.0**-25


@np.errstate(all="ignore")
def test_ex2_of_bfloat16_flushes() -> None:
    a = np.arange(1 << 16, dtype=np.uint16)
    got = evaluate("ex2.approx.ftz.bf16 %d, %a;", 16, a)
    assert (
        evaluate("ex2.approx.ftz.bf16x2 %d, %a;", 32, a.view(np.uint32)).view("<u2") == got
    ).all()
    x, y = ((v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for v in (a, got))
    wanted = np.exp2(x)
    assert (y[wanted < 2.0**-127] == 0).all()
    assert (got[x == -127] == 0).all()
    fits = (wanted > 2.0**-126) & (wanted < 2.0**127.9)
    assert np.max(np.abs(y[fits] / wanted[fits] - 1)) <= 2.0**-8 * 1.001


@pytest.mark.parametrize("bits", [32, 64])
def test_copysign(bits: int) -> None:
    format_ = format_of(f"f{bits}")
    a, b = (np.array(numbers(RANDOM, format_, COUNT), dtype=f"<u{bits // 8}") for _ in range(2))
    got = evaluate(f"copysign.f{bits} %d, %a, %b;", bits, a, b)
    sign = a.dtype.type(format_.sign)
    assert (got == (a & sign | b & ~sign)).all()


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("add.rz.f16 %h, %h, %h;", PtxSyntaxError, "'.f16' cannot stand after 'add.rz'"),
        ("add.sat.bf16 %h, %h, %h;", PtxSyntaxError, "'.bf16' cannot stand after 'add.sat'"),
        ("add.f16x2 %h, %h, %h;", InvalidPtxError, "has 16 bits, but .f16x2 needs 32"),
        ("add.rn.f32x2 %r, %r, %r;", InvalidPtxError, "has 32 bits, but .f32x2 needs 64"),
        ("set.eq.u16.f32 %h, %r, %r;", PtxSyntaxError, "'.f32' cannot stand after"),
        ("set.eq.f32.f16 %r, %h, %h;", PtxSyntaxError, "'.f16' cannot stand after"),
        ("set.eq.f16x2.bf16x2 %r, %r, %r;", PtxSyntaxError, "'.bf16x2' cannot stand after"),
        ("setp.lt.ftz.bf16 %p, %h, %h;", InvalidPtxError, "cannot stand after"),
    ],
)
def test_invalid_forms_are_rejected(body: str, error: type[Exception], message: str) -> None:
    registers = ".reg .b16 %h; .reg .b32 %r; .reg .pred %p;"
    with pytest.raises(error) as caught:
        compile_verified(kernel(body, registers=registers))
    assert message in str(caught.value)
