"""The results of PTX floating-point instructions, by the manual's definitions, on rational numbers.

Source: PTX ISA, "Floating Point Instructions", "Half Precision", "Mixed Precision" and "cvt". Built on
``ieee_oracle``; it shares no code with the simulator.
"""

import math
import random
from collections.abc import Sequence
from fractions import Fraction

from support.oracles import ieee_oracle
from support.oracles.ieee_oracle import BY_NAME, Format

_DIRECTIONS = ("rn", "rz", "rm", "rp")
_OPERATIONS = {
    "add": "FADD",
    "sub": "FSUB",
    "mul": "FMUL",
    "fma": "FMA",
    "mad": "FMA",
    "div": "FDIV",
    "rcp": "FRCP",
    "sqrt": "FSQRT",
}
TYPES = frozenset(("f32", "f64", "f32x2", "f16", "f16x2", "bf16", "bf16x2"))
OPCODES = frozenset((*_OPERATIONS, "neg", "abs", "min", "max"))


def format_of(type_: str) -> Format:
    """Return the format of a type; for a packed type, that of its elements."""
    return BY_NAME[type_.removesuffix("x2").upper()]


def is_float(type_: str) -> bool:
    return type_.upper() in BY_NAME


def numbers(dice: random.Random, format_: Format, count: int) -> list[int]:
    """Return corner cases, random patterns, and numbers near one, whose sums cancel."""
    found = []
    one = format_.emax << (format_.precision - 1)
    for _ in range(count):
        kind = dice.random()
        if kind < 0.3:
            found.append(dice.choice(format_.corners()))
        elif kind < 0.6:
            found.append(dice.getrandbits(format_.bits))
        else:
            near = one + dice.randint(-3 << format_.precision, 3 << format_.precision)
            found.append(near | dice.getrandbits(1) * format_.sign)
    return found


def nearest(value: float, format_: Format) -> int:
    """Return the pattern of the number of ``format_`` that is nearest to ``value``."""
    return ieee_oracle.encode(Fraction(value), format_) if value else 0


def is_nan(pattern: int, format_: Format) -> bool:
    return pattern & (format_.sign - 1) > format_.infinity


def flush(pattern: int, format_: Format) -> int:
    """Replace a subnormal number by a zero of its sign."""
    return pattern & format_.sign if pattern & format_.infinity == 0 else pattern


def saturate(pattern: int, format_: Format) -> int:
    """Clamp to [0, 1]; NaN becomes +0."""
    one = format_.emax << (format_.precision - 1)
    return 0 if is_nan(pattern, format_) or pattern & format_.sign else min(pattern, one)


def widen(pattern: int, format_: Format) -> int:
    """Convert a number of a narrow format to binary32, which holds all of them."""
    single = BY_NAME["F32"]
    value = ieee_oracle.decode(pattern, format_)
    sign = single.sign if pattern & format_.sign else 0
    if isinstance(value, str):
        return single.nan if value == "nan" else sign | single.infinity
    return ieee_oracle.encode(value, single) if value else sign


def extremum(name: str, words: Sequence[str], format_: Format, operands: Sequence[int]) -> int:
    """Return the minimum or maximum of two or three operands, by the pseudocode of PTX ISA,
    "min".
    """
    if "abs" in words and "xorsign" not in words:
        operands = [value & ~format_.sign for value in operands]
    first, *rest = operands
    for other in rest:
        first = _of_two(name, words, format_, first, other)
    return first


def _of_two(name: str, words: Sequence[str], format_: Format, a: int, b: int) -> int:
    sign = (a ^ b) & format_.sign
    if "xorsign" in words:
        a, b = a & ~format_.sign, b & ~format_.sign
    nans = [is_nan(value, format_) for value in (a, b)]
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


def evaluate_form(spelling: str, format_: Format, operands: Sequence[int]) -> int:
    """Return the result of an arithmetic instruction for one element."""
    name, *words = spelling.split(".")
    if words[-1] == "f64":
        words = [word for word in words if word != "ftz"]  # as an H100 computes
    if "ftz" in words:
        operands = [flush(value, format_) for value in operands]
    mode = next((word.upper() for word in words if word in _DIRECTIONS), "RN")
    if name in ("min", "max"):
        result = extremum(name, words, format_, operands)
    elif name in ("neg", "abs"):
        result = operands[0] ^ format_.sign if name == "neg" else operands[0] & ~format_.sign
    else:
        result = ieee_oracle.operate(_OPERATIONS[name], tuple(operands), format_, mode)
    if "ftz" in words:
        result = flush(result, format_)
    if "sat" in words:
        result = saturate(result, format_)
    if "relu" in words and result & format_.sign and not is_nan(result, format_):
        return 0
    return result


def convert_number(spelling: str, to: str, source: str, pattern: int) -> int:
    """Return the result of ``cvt`` between numbers in one register each; integers have 64 bits."""
    words = spelling.split(".")
    value: Fraction | str
    if is_float(source):
        kind = format_of(source)
        if "ftz" in words and source == "f32":
            pattern = flush(pattern, kind)
        value, negative = ieee_oracle.decode(pattern, kind), bool(pattern & kind.sign)
    else:
        number = _integer(pattern, source)
        value, negative = Fraction(number), number < 0
    if not is_float(to):
        return _to_integer(value, to, source, words) & ((1 << 64) - 1)
    result = _to_float(value, negative, format_of(to), words)
    if "ftz" in words and to == "f32":
        result = flush(result, format_of(to))
    return saturate(result, format_of(to)) if "sat" in words else result


def _integer(pattern: int, type_: str) -> int:
    bits = int(type_[1:])
    pattern &= (1 << bits) - 1
    return pattern - (1 << bits) if type_[0] == "s" and pattern >> (bits - 1) else pattern


def _limits(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    low = -(1 << (bits - 1)) if type_[0] == "s" else 0
    return low, low + (1 << bits) - 1


def _to_integer(value: Fraction | str, to: str, source: str, words: Sequence[str]) -> int:
    low, high = _limits(to)
    if value == "nan":  # 0 if all types are narrow, else the pattern with only its top bit
        wide = source == "f64" or to.endswith("64")
        return _integer(1 << (int(to[1:]) - 1), to) if wide else 0
    if isinstance(value, str):
        return low if value == "-inf" else high
    if is_float(source):
        return min(max(_integral(value, words), low), high)
    number = int(value)
    return min(max(number, low), high) if "sat" in words else _integer(number, to)


def _integral(value: Fraction, words: Sequence[str]) -> int:
    for word, rounded in (("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)):
        if word in words:
            return int(rounded(value))
    return round(value)


def _to_float(value: Fraction | str, negative: bool, format_: Format, words: Sequence[str]) -> int:
    sign = format_.sign if negative else 0
    if isinstance(value, str):
        return format_.nan if value == "nan" else sign | format_.infinity
    if any(word in words for word in ("rni", "rzi", "rmi", "rpi")):
        value = Fraction(_integral(value, words))
    mode = next((word.upper() for word in words if word in _DIRECTIONS), "RN")
    return ieee_oracle.encode(value, format_, mode) if value else sign
