"""binary16, bfloat16 and packed numbers of PTX, on the interpreter, against rational arithmetic."""

import random
from collections.abc import Callable, Iterator

import ieee_oracle
import numpy as np
import pytest
from ieee_oracle import BY_NAME, Format
from interpreted_ptx import compile_verified, kernel
from ptx_lanes import Patterns, evaluate

from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError

COUNT = 768
RANDOM = random.Random(16)


def _format(type_: str) -> Format:
    return BY_NAME[type_.removesuffix("x2").upper()]


def _numbers(format_: Format, count: int = COUNT) -> list[int]:
    """Corners, patterns all over, and numbers near one, whose sums cancel."""
    found = []
    for _ in range(count):
        kind = RANDOM.random()
        one = format_.emax << (format_.precision - 1)
        if kind < 0.3:
            found.append(RANDOM.choice(format_.corners()))
        elif kind < 0.6:
            found.append(RANDOM.getrandbits(format_.bits))
        else:
            near = one + RANDOM.randint(-3 << format_.precision, 3 << format_.precision)
            found.append(near | RANDOM.getrandbits(1) * format_.sign)
    return found


def _is_nan(pattern: int, format_: Format) -> bool:
    return pattern & (format_.sign - 1) > format_.infinity


def _flush(pattern: int, format_: Format) -> int:
    return pattern & format_.sign if pattern & format_.infinity == 0 else pattern


def _saturate(pattern: int, format_: Format) -> int:
    one = format_.emax << (format_.precision - 1)
    return 0 if _is_nan(pattern, format_) or pattern & format_.sign else min(pattern, one)


def _relu(pattern: int, format_: Format) -> int:
    return 0 if pattern & format_.sign and not _is_nan(pattern, format_) else pattern


def _extremum(name: str, words: list[str], format_: Format, operands: list[int]) -> int:
    """PTX ISA, "min": the semantics' own pseudo code."""
    a, b = operands
    sign = (a ^ b) & format_.sign
    if "xorsign" in words:
        a, b = a & ~format_.sign, b & ~format_.sign
    nans = [_is_nan(value, format_) for value in (a, b)]
    if all(nans) or ("NaN" in words and any(nans)):
        return format_.nan
    if any(nans):
        result = b if nans[0] else a
    else:

        def rank(pattern: int) -> int:
            magnitude = pattern & (format_.sign - 1)
            return -magnitude - 1 if pattern & format_.sign else magnitude

        result = (min if name == "min" else max)(a, b, key=rank)
    return result & ~format_.sign | sign if "xorsign" in words else result


def _expected(spelling: str, format_: Format, operands: list[int]) -> int:
    name, *words = spelling.split(".")
    if "ftz" in words:
        operands = [_flush(value, format_) for value in operands]
    mode = next((w.upper() for w in words if w in ("rn", "rz", "rm", "rp")), "RN")
    if name in ("min", "max"):
        result = _extremum(name, words, format_, operands)
    elif name in ("neg", "abs"):
        result = operands[0] ^ format_.sign if name == "neg" else operands[0] & ~format_.sign
    else:
        op = {"add": "FADD", "sub": "FSUB", "mul": "FMUL", "fma": "FMA"}[name]
        result = ieee_oracle.operate(op, tuple(operands), format_, mode)
    if "ftz" in words:
        result = _flush(result, format_)
    if "sat" in words:
        result = _saturate(result, format_)
    return _relu(result, format_) if "relu" in words else result


def _spellings() -> Iterator[str]:
    for type_ in ("f16", "f16x2", "bf16", "bf16x2"):
        half = type_[0] == "f"
        for name in ("add", "sub", "mul"):
            ends = ("", ".rn", ".ftz", ".sat", ".rn.ftz.sat") if half else ("", ".rn")
            yield from (f"{name}{end}.{type_}" for end in ends)
        ends = (".rn", ".rn.relu")
        ends += (".rn.ftz", ".rn.sat", ".rn.ftz.sat", ".rn.ftz.relu") if half else ()
        yield from (f"fma{end}.{type_}" for end in ends)
        for name in ("neg", "abs"):
            yield from (f"{name}{end}.{type_}" for end in (("", ".ftz") if half else ("",)))
        for name in ("min", "max"):
            ends = ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")
            yield from (f"{name}{end}.{type_}" for end in ends)
            yield from (f"{name}.ftz{end}.{type_}" for end in (ends if half else ()))
    for name in ("min", "max"):
        ends = ("", ".ftz", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs", ".ftz.NaN.xorsign.abs")
        yield from (f"{name}{end}.f32" for end in ends)
    for name in ("add", "sub", "mul"):
        ends = ("", ".rn", ".rz", ".rm", ".rp", ".ftz", ".rz.ftz")
        yield from (f"{name}{end}.f32x2" for end in ends)
    yield from (f"fma.{end}.f32x2" for end in ("rn", "rz", "rm", "rp", "rp.ftz"))


@pytest.mark.parametrize("spelling", list(_spellings()))
def test_arithmetic(spelling: str) -> None:
    type_ = spelling.rsplit(".", 1)[1]
    format_, packed = _format(type_), type_.endswith("x2")
    bits = format_.bits * (2 if packed else 1)
    arity = {"fma": 3, "neg": 1, "abs": 1}.get(spelling.split(".")[0], 2)
    halves = [_numbers(format_, COUNT * (2 if packed else 1)) for _ in range(arity)]
    arrays = [np.array(column, dtype=f"<u{format_.bits // 8}") for column in halves]
    columns = [array.view(f"<u{bits // 8}") for array in arrays]
    got = evaluate(f"{spelling} %d, {', '.join(['%a', '%b', '%c'][:arity])};", bits, *columns)
    found = got.view(arrays[0].dtype)
    for place, result in enumerate(found):
        operands = [column[place] for column in halves]
        wanted = _expected(spelling, format_, operands)
        assert int(result) == wanted, (spelling, [hex(o) for o in operands], hex(result))


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


@pytest.mark.parametrize("small", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "fma"])
def test_mixed_precision(op: str, small: str) -> None:
    format_, single = BY_NAME[small.upper()], BY_NAME["F32"]
    for end in ("rn", "rz", "rm", "rp", "rn.sat"):
        count = 3 if op == "fma" else 2
        columns = [_numbers(format_) for _ in range(count - 1)] + [_numbers(single)]
        arrays: list[Patterns] = [np.array(c, np.uint16) for c in columns[:-1]]
        arrays.append(np.array(columns[-1], np.uint32))
        names = ", ".join(["%a", "%b", "%c"][:count])
        got = evaluate(f"{op}.{end}.f32.{small} %d, {names};", 32, *arrays)
        for place, result in enumerate(got):
            operands = [
                _widened(column[place], format_) if column is not columns[-1] else column[place]
                for column in columns
            ]
            name = {"add": "FADD", "sub": "FSUB", "fma": "FMA"}[op]
            wanted = ieee_oracle.operate(name, tuple(operands), single, end[:2].upper())
            wanted = _saturate(wanted, single) if end.endswith("sat") else wanted
            assert int(result) == wanted, (op, small, end, [hex(o) for o in operands])


def _widened(pattern: int, format_: Format) -> int:
    single = BY_NAME["F32"]
    value = ieee_oracle.decode(pattern, format_)
    sign = single.sign if pattern & format_.sign else 0
    if isinstance(value, str):
        return single.nan if value == "nan" else sign | single.infinity
    return ieee_oracle.encode(value, single) if value else sign


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_of_three(name: str) -> None:
    format_ = BY_NAME["F32"]
    for words in ([], ["NaN"], ["abs"], ["ftz", "NaN", "abs"]):
        columns = [_numbers(format_) for _ in range(3)]
        spelling = ".".join((name, *words, "f32"))
        got = evaluate(
            f"{spelling} %d, %a, %b, %c;", 32, *(np.array(c, np.uint32) for c in columns)
        )
        for place, result in enumerate(got):
            a, b, c = (column[place] for column in columns)
            if "abs" in words:
                a, b, c = (value & ~format_.sign for value in (a, b, c))
            if "ftz" in words:
                a, b, c = (_flush(value, format_) for value in (a, b, c))
            two = _extremum(name, words, format_, [a, b])
            assert int(result) == _extremum(name, words, format_, [two, c]), (spelling, a, b, c)


@pytest.mark.parametrize("bits", [32, 64])
def test_copysign(bits: int) -> None:
    format_ = BY_NAME[f"F{bits}"]
    a, b = (np.array(_numbers(format_), dtype=f"<u{bits // 8}") for _ in range(2))
    got = evaluate(f"copysign.f{bits} %d, %a, %b;", bits, a, b)
    sign = a.dtype.type(format_.sign)
    assert (got == (a & sign | b & ~sign)).all()


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("fma.rn.oob.f16 %h, %h, %h, %h;", UnsupportedPtxError, ".oob of fma.rn"),
        ("add.rz.f16 %h, %h, %h;", PtxSyntaxError, "'.f16' cannot stand after 'add.rz'"),
        ("add.sat.bf16 %h, %h, %h;", PtxSyntaxError, "'.bf16' cannot stand after 'add.sat'"),
        ("add.f16x2 %h, %h, %h;", InvalidPtxError, "has 16 bits, .f16x2 takes 32"),
        ("add.rn.f32x2 %r, %r, %r;", InvalidPtxError, "has 32 bits, .f32x2 takes 64"),
        ("set.eq.u16.f32 %h, %r, %r;", PtxSyntaxError, "'.f32' cannot stand after"),
        ("set.eq.f32.f16 %r, %h, %h;", PtxSyntaxError, "'.f16' cannot stand after"),
        ("set.eq.f16x2.bf16x2 %r, %r, %r;", PtxSyntaxError, "'.bf16x2' cannot stand after"),
        ("setp.lt.ftz.bf16 %p, %h, %h;", InvalidPtxError, "cannot stand after"),
    ],
)
def test_what_is_refused(body: str, error: type[Exception], message: str) -> None:
    registers = ".reg .b16 %h; .reg .b32 %r; .reg .pred %p;"
    with pytest.raises(error) as caught:
        compile_verified(kernel(body, registers=registers))
    assert message in str(caught.value)
