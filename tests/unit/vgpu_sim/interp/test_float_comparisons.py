"""setp, set, slct and testp of PTX on the interpreter, compared with exact numbers."""

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from support.execution.ptx_lanes import Patterns, evaluate
from support.oracles import ieee_oracle
from support.oracles.ieee_oracle import BY_NAME, Format

RANDOM = random.Random(5)
COUNT = 512
_ORDER: dict[str, Callable[[object, object], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,  # type: ignore[operator]
    "le": lambda a, b: a <= b,  # type: ignore[operator]
    "gt": lambda a, b: a > b,  # type: ignore[operator]
    "ge": lambda a, b: a >= b,  # type: ignore[operator]
}
_COMBINE: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
}


def _holds(how: str, format_: Format, a: int, b: int, ftz: bool = False) -> bool:
    if ftz:
        a, b = (v & format_.sign if v & format_.infinity == 0 else v for v in (a, b))
    x, y = ieee_oracle.decode(a, format_), ieee_oracle.decode(b, format_)
    if "nan" in (x, y):
        return how == "nan" or (len(how) == 3 and how != "num")
    if how in ("num", "nan"):
        return how == "num"
    bound = 2 ** (format_.emax + 2)
    exact = [{"+inf": bound, "-inf": -bound}.get(str(v), v) for v in (x, y)]
    return _ORDER[how[:2]](*exact)


_HOWS = [*_ORDER, *(f"{how}u" for how in _ORDER), "num", "nan"]


def _patterns(format_: Format, count: int = COUNT) -> Patterns:
    some = [RANDOM.choice(format_.corners()) for _ in range(count // 2)]
    some += [RANDOM.getrandbits(format_.bits) for _ in range(count - len(some))]
    RANDOM.shuffle(some)
    return np.array(some, dtype=f"<u{format_.bits // 8}")


def _pair(format_: Format, count: int = COUNT) -> tuple[Patterns, Patterns]:
    a, b = _patterns(format_, count), _patterns(format_, count)
    return a, np.where(np.arange(count) % 3 == 0, a, b)


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_setp_of_halves(type_: str) -> None:
    format_ = BY_NAME[type_.upper()]
    for how, ftz in itertools.product(_HOWS, (False, True) if type_ == "f16" else (False,)):
        a, b = _pair(format_)
        flush = ".ftz" if ftz else ""
        text = "selp.u32 %d, 1, 2, %p;"
        got = evaluate(f"setp.{how}{flush}.{type_} %p, %a, %b; {text}", 32, a, b)
        for x, y, result in zip(a, b, got, strict=True):
            assert result == (1 if _holds(how, format_, int(x), int(y), ftz) else 2), (how, x, y)


@pytest.mark.parametrize("combine", ["", "and", "or", "xor"])
@pytest.mark.parametrize("type_", ["f16x2", "bf16x2"])
def test_setp_of_packed_halves(type_: str, combine: str) -> None:
    """p is the result for the lower halves, q for the upper ones; one of them may be the
    operand.
    """
    format_ = BY_NAME[type_.removesuffix("x2").upper()]
    for how, negated in itertools.product(_HOWS, ("", "!")):
        a, b = _pair(format_, 2 * COUNT)
        c = np.array([RANDOM.getrandbits(1) for _ in range(COUNT)], np.uint32)
        third = f", {negated}%p" if combine else ""
        word = f".{combine}" if combine else ""
        body = f"setp.ne.u32 %p, %c, 0; setp.{how}{word}.{type_} %p|%q, %a, %b{third};"
        body += "selp.u32 %d, 1, 0, %p; selp.u32 %w0, 2, 0, %q; or.b32 %d, %d, %w0;"
        got = evaluate(body, 32, a.view(np.uint32), b.view(np.uint32), c)
        for lane, result in enumerate(got):
            wanted = 0
            for half in (0, 1):
                one = _holds(how, format_, int(a[2 * lane + half]), int(b[2 * lane + half]))
                if combine:
                    one = _COMBINE[combine](one, bool(c[lane]) != bool(negated))
                wanted |= one << half
            assert result == wanted, (how, lane)


_ONE = {"f32": 0x3F80_0000, "f16": 0x3C00, "bf16": 0x3F80}
_DESTINATION_BITS = {"u16": 16, "s16": 16, "f16": 16, "bf16": 16, "u32": 32, "s32": 32, "f32": 32}


@pytest.mark.parametrize(
    ("to", "source"),
    [
        *itertools.product(("u32", "s32", "f32", "f16"), ("f32", "f64")),
        *itertools.product(("u16", "s16", "u32", "s32", "f16"), ("f16",)),
        *itertools.product(("u16", "s16", "u32", "s32", "bf16"), ("bf16",)),
    ],
)
def test_set_of_floats(to: str, source: str) -> None:
    format_, bits = BY_NAME[source.upper()], _DESTINATION_BITS[to]
    for how, word in itertools.product(_HOWS, ("", ".xor")):
        a, b = _pair(format_)
        c = np.array([RANDOM.getrandbits(1) for _ in range(COUNT)], np.uint32)
        third = ", !%q" if word else ""
        body = f"setp.ne.u32 %q, %c, 0; set.{how}{word}.{to}.{source} %d, %a, %b{third};"
        got = evaluate(body, bits, a, b, c)
        for x, y, with_, result in zip(a, b, c, got, strict=True):
            one = _holds(how, format_, int(x), int(y))
            one = one != (not with_) if word else one
            assert int(result) == (_ONE.get(to, (1 << bits) - 1) if one else 0), (how, to, x, y)


def test_set_of_integers() -> None:
    for how, type_, to in itertools.product(
        ("eq", "lt", "hs", "ge"), ("u16", "s32", "u64"), ("u32", "f32")
    ):
        if how == "hs" and type_[0] != "u":
            continue
        bits = int(type_[1:])
        a, b = (
            np.array([RANDOM.getrandbits(bits) for _ in range(COUNT)], f"<u{bits // 8}")
            for _ in range(2)
        )
        b = np.where(np.arange(COUNT) % 3 == 0, a, b)
        got = evaluate(f"set.{how}.{to}.{type_} %d, %a, %b;", 32, a, b)
        x, y = (v.view(f"<i{bits // 8}") if type_[0] == "s" else v for v in (a, b))
        holds = {"eq": x == y, "lt": x < y, "hs": x >= y, "ge": x >= y}[how]
        assert (got == np.where(holds, _ONE.get(to, 0xFFFF_FFFF), 0)).all()


@pytest.mark.parametrize(
    ("to", "source"),
    [(to, source) for source in ("f16x2", "bf16x2") for to in (source, "u32", "s32")],
)
def test_set_of_packed_halves(to: str, source: str) -> None:
    format_ = BY_NAME[source.removesuffix("x2").upper()]
    yes = _ONE.get(to.removesuffix("x2"), 0xFFFF)
    for how in _HOWS:
        a, b = _pair(format_, 2 * COUNT)
        words = a.view(np.uint32), b.view(np.uint32)
        got = evaluate(f"set.{how}.{to}.{source} %d, %a, %b;", 32, *words).view(np.uint16)
        for x, y, result in zip(a, b, got, strict=True):
            assert int(result) == (yes if _holds(how, format_, int(x), int(y)) else 0), (how, x, y)


@pytest.mark.parametrize("type_", ["b16", "u32", "s64", "f32", "f64"])
def test_slct(type_: str) -> None:
    bits = int(type_[1:])
    a, b = (
        np.array([RANDOM.getrandbits(bits) for _ in range(COUNT)], f"<u{bits // 8}")
        for _ in range(2)
    )
    c = _patterns(BY_NAME["F32"])
    got = evaluate(f"slct.{type_}.s32 %d, %a, %b, %c;", bits, a, b, c)
    assert (got == np.where(c.view(np.int32) >= 0, a, b)).all()
    value = c.view(np.float32)
    got = evaluate(f"slct.{type_}.f32 %d, %a, %b, %c;", bits, a, b, c)
    assert (got == np.where(value >= 0, a, b)).all()
    subnormal = c & 0x7F80_0000 == 0
    got = evaluate(f"slct.ftz.{type_}.f32 %d, %a, %b, %c;", bits, a, b, c)
    assert (got == np.where((value >= 0) | subnormal, a, b)).all()


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_testp(type_: str) -> None:
    format_ = BY_NAME[type_.upper()]
    a = _patterns(format_)
    value = a.view(f"<f{format_.bits // 8}")
    least = np.finfo(value.dtype).tiny
    subnormal = (value != 0) & (np.abs(value) < least)
    properties = {
        "finite": np.isfinite(value),
        "infinite": np.isinf(value),
        "number": ~np.isnan(value),
        "notanumber": np.isnan(value),
        "normal": np.isfinite(value) & ~subnormal,
        "subnormal": subnormal,
    }
    for name, holds in properties.items():
        got = evaluate(f"testp.{name}.{type_} %p, %a; selp.u32 %d, 1, 0, %p;", 32, a)
        assert (got == holds).all(), name
        assert 0 < holds.sum() < len(holds)
