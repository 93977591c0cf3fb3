"""The effect of PTX's instructions on small and packed floats, and of a few on any floats.

As in ``numbers``, these are plain functions on integers. A packed instruction applies that of
its element twice.
"""

from collections.abc import Callable, Sequence

from support.oracles.scalar_ptx import ieee
from support.oracles.scalar_ptx.numbers import Function

BF16 = ieee.Format(16, 8, 0x7FFF)
FORMATS = {"f16": ieee.F16, "bf16": BF16, "f32": ieee.F32, "f64": ieee.F64}
_MODES = ("rn", "rz", "rm", "rp")
# bits, precision, exponent of the least subnormal number, largest pattern, result for a NaN
_TINY = {
    "e4m3": (8, 4, -9, 0x7E, 0x7F),
    "e5m2": (8, 3, -16, 0x7B, 0x7F),
    "e2m3": (8, 4, -3, 0x1F, 0x1F),
    "e3m2": (8, 3, -4, 0x1F, 0x1F),
    "e2m1": (4, 2, -1, 0x7, 0x7),
}
_SIGNS = {"e4m3": 0x80, "e5m2": 0x80, "e2m3": 0x20, "e3m2": 0x20, "e2m1": 0x8}


def function(words: tuple[str, ...]) -> Function | None:
    """Return the function that an instruction computes; None if it is not defined here."""
    opcode, *modifiers = words
    if opcode == "cvt":
        return _conversion(modifiers)
    kind = modifiers[-1] if modifiers else ""
    if opcode in ("add", "sub", "fma") and modifiers[-2:-1] == ["f32"] and kind in ("f16", "bf16"):
        return _mixed(opcode, modifiers)
    if opcode == "copysign":
        format_ = FORMATS[kind]
        return _same(format_.bits, 2, lambda a, b: a & format_.sign | b & ~format_.sign)
    if opcode == "slct":
        return _select(modifiers)
    if opcode == "testp":
        return _property(modifiers[0], FORMATS[kind])
    element = kind.removesuffix("x2")
    extra = {"NaN", "xorsign", "relu"} & set(modifiers)
    if element not in FORMATS or (element == kind and kind in ("f16", "f32", "f64") and not extra):
        return None if kind != "f16" else _arithmetic(opcode, modifiers, kind)
    return _arithmetic(opcode, modifiers, kind)


def _same(bits: int, count: int, compute: Callable[..., int]) -> Function:
    return Function(compute, bits, (bits,) * count)


def _twice(bits: int, compute: Callable[..., int]) -> Callable[..., int]:
    mask = (1 << bits) - 1

    def both(*operands: int) -> int:
        low = compute(*(operand & mask for operand in operands))
        return compute(*(operand >> bits for operand in operands)) << bits | low

    return both


def _arithmetic(opcode: str, modifiers: Sequence[str], kind: str) -> Function | None:
    format_ = FORMATS[kind.removesuffix("x2")]
    mode = next((word for word in modifiers if word in _MODES), "rn")
    table: dict[str, tuple[int, Callable[..., int]]] = {
        "add": (2, lambda a, b: ieee.add(format_, a, b, mode)),
        "sub": (2, lambda a, b: ieee.subtract(format_, a, b, mode)),
        "mul": (2, lambda a, b: ieee.multiply(format_, a, b, mode)),
        "fma": (3, lambda a, b, c: ieee.fma(format_, a, b, c, mode)),
        "neg": (1, lambda a: a ^ format_.sign),
        "abs": (1, lambda a: a & ~format_.sign),
        "min": (2, lambda a, b: _extremum(format_, a, b, modifiers, larger=False)),
        "max": (2, lambda a, b: _extremum(format_, a, b, modifiers, larger=True)),
    }
    if opcode not in table:
        return None
    count, plain = table[opcode]

    def compute(*operands: int) -> int:
        if "ftz" in modifiers:
            operands = tuple(map(format_.flush, operands))
        result = plain(*operands)
        result = format_.flush(result) if "ftz" in modifiers else result
        result = format_.saturate(result) if "sat" in modifiers else result
        return _positive(format_, result) if "relu" in modifiers else result

    if kind in FORMATS:
        return _same(format_.bits, count, compute)
    return _same(2 * format_.bits, count, _twice(format_.bits, compute))


def _positive(format_: ieee.Format, pattern: int) -> int:
    return 0 if pattern & format_.sign and not format_.is_nan(pattern) else pattern


def _extremum(
    format_: ieee.Format, a: int, b: int, modifiers: Sequence[str], *, larger: bool
) -> int:
    sign = (a ^ b) & format_.sign
    if "xorsign" in modifiers:
        a, b = a & ~format_.sign, b & ~format_.sign
    if "NaN" in modifiers and (format_.is_nan(a) or format_.is_nan(b)):
        return format_.nan
    result = ieee.least(format_, a, b, larger)
    return result | sign if "xorsign" in modifiers and not format_.is_nan(result) else result


def _mixed(opcode: str, modifiers: Sequence[str]) -> Function:
    small, wide = FORMATS[modifiers[-1]], ieee.F32
    mode = next((word for word in modifiers if word in _MODES), "rn")
    count = 2 if opcode == "fma" else 1
    plain: Callable[..., int] = {
        "add": lambda a, c: ieee.add(wide, a, c, mode),
        "sub": lambda a, c: ieee.subtract(wide, a, c, mode),
        "fma": lambda a, b, c: ieee.fma(wide, a, b, c, mode),
    }[opcode]

    def compute(*operands: int) -> int:
        widened = [ieee.to_format(small, value, wide, "rn") for value in operands[:count]]
        result = plain(*widened, *operands[count:])
        return wide.saturate(result) if "sat" in modifiers else result

    return Function(compute, 32, (16,) * count + (32,))


def _select(modifiers: Sequence[str]) -> Function:
    kind, by = modifiers[-2:]
    bits = int(kind[1:])

    def chosen(a: int, b: int, c: int) -> int:
        if by == "s32":
            return b if c >> 31 else a
        c = ieee.F32.flush(c) if "ftz" in modifiers else c
        order = ieee.compare(ieee.F32, c, 0)
        return a if order is not None and order >= 0 else b

    return Function(chosen, bits, (bits, bits, 32))


def _property(name: str, format_: ieee.Format) -> Function:
    def holds(a: int) -> int:
        magnitude = a & (format_.sign - 1)
        subnormal = 0 < magnitude < format_.hidden
        return int(
            {
                "finite": magnitude < format_.infinity,
                "infinite": magnitude == format_.infinity,
                "number": magnitude <= format_.infinity,
                "notanumber": magnitude > format_.infinity,
                "normal": magnitude < format_.infinity and not subnormal,
                "subnormal": subnormal,
            }[name]
        )

    return Function(holds, 1, (format_.bits,))


def _conversion(modifiers: Sequence[str]) -> Function | None:
    to, source = modifiers[-2:]
    element = to.removesuffix("x2")
    if element in _TINY:
        return _to_tiny(element, source, modifiers)
    if source.removesuffix("x2") in _TINY:
        return _of_tiny(source.removesuffix("x2"), element, modifiers)
    mode = next((word for word in modifiers if word in (*_MODES, "rna")), "rn")
    if to == "tf32":
        return Function(lambda a: _tf32(a, mode, modifiers), 32, (32,))
    if source not in FORMATS or element not in FORMATS:
        return None
    if to == element and not {"relu", "satfinite"} & set(modifiers) and "bf16" not in (to, source):
        return None
    if any(word.endswith("i") for word in modifiers[:-2]):
        return None
    from_format, format_ = FORMATS[source], FORMATS[element]

    def convert(a: int) -> int:
        result = ieee.to_format(from_format, a, format_, mode)
        if "satfinite" in modifiers and format_.is_infinite(result):
            result -= 1
        return _positive(format_, result) if "relu" in modifiers else result

    if to == element:
        return Function(convert, format_.bits, (from_format.bits,))
    return Function(lambda a, b: convert(a) << 16 | convert(b), 32, (32, 32))


def _tf32(a: int, mode: str, modifiers: Sequence[str]) -> int:
    if ieee.F32.is_nan(a):
        return ieee.F32.nan
    magnitude, sign = a & 0x7FFF_FFFF, a & 0x8000_0000
    if sign and "relu" in modifiers:
        return 0
    kept, rest = divmod(magnitude, 1 << 13)
    if mode == "rn":
        kept += rest > 0x1000 or (rest == 0x1000 and kept & 1)
    elif mode == "rna":
        kept += rest >= 0x1000
    most = 0x7F7F_E000 if "satfinite" in modifiers else 0x7F80_0000
    return sign | min(kept << 13, most)


def _to_tiny(name: str, source: str, modifiers: Sequence[str]) -> Function:
    bits, precision, unit, largest, nan = _TINY[name]
    format_ = FORMATS[source.removesuffix("x2")]

    def convert(a: int) -> int:
        if format_.is_nan(a):
            return nan
        sign = _SIGNS[name] if a & format_.sign else 0
        if sign and "relu" in modifiers:
            return 0
        if format_.is_infinite(a):
            return sign | largest
        value, exponent = format_.parts(a)
        place = max(exponent + value.bit_length() - precision, unit)
        dropped = place - exponent
        kept, rest = value << max(-dropped, 0), 0
        if dropped > 0:
            kept, rest = divmod(value, 1 << dropped)
            half = 1 << (dropped - 1)
            kept += rest > half or (rest == half and kept & 1)
        return sign | min(((place - unit) << (precision - 1)) + kept, largest)

    if source == "f32":
        return Function(lambda a, b: convert(a) << bits | convert(b), 2 * bits, (32, 32))
    return Function(lambda a: convert(a >> 16) << bits | convert(a & 0xFFFF), 2 * bits, (32,))


def _of_tiny(name: str, to: str, modifiers: Sequence[str]) -> Function:
    bits, precision, unit, largest, _ = _TINY[name]
    format_, sign = FORMATS[to], _SIGNS[name]

    def convert(a: int) -> int:
        magnitude = a & (sign - 1)
        marked = format_.sign if a & sign else 0
        if magnitude > largest:
            if name == "e5m2" and magnitude == 0x7C:
                return 0 if marked and "relu" in modifiers else marked | format_.infinity
            return format_.nan
        if marked and "relu" in modifiers:
            return 0
        field, fraction = divmod(magnitude, 1 << (precision - 1))
        value = fraction + (1 << (precision - 1)) if field else fraction
        return ieee.encode(format_, bool(marked), value, max(field - 1, 0) + unit, "rn")

    mask = (1 << bits) - 1
    return Function(lambda a: convert(a >> bits & mask) << 16 | convert(a & mask), 32, (2 * bits,))
