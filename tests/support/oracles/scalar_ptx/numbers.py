"""The effect of each arithmetic instruction of PTX on bit patterns: plain functions on integers.

``function(words)`` takes an opcode with its modifiers and returns its computation, with the widths
of its result and of each operand. Results that PTX leaves open follow docs/isa.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

from support.oracles.scalar_ptx import ieee
from support.oracles.scalar_ptx.text import WIDTHS, SyntaxFault

FORMATS = {"f16": ieee.F16, "f32": ieee.F32, "f64": ieee.F64}
_APPROXIMATE = {"approx": "rn", "full": "rn"}
_ROUNDINGS = {"rn": "rn", "rz": "rz", "rm": "rm", "rp": "rp"} | _APPROXIMATE


@dataclass(frozen=True)
class Function:
    """``compute`` takes patterns of the widths ``sources`` and returns one of ``bits``."""

    compute: Callable[..., int]
    bits: int
    sources: tuple[int, ...]
    signed: bool = False


def to_signed(value: int, bits: int) -> int:
    """Return a pattern's two's complement value."""
    return value - (1 << bits) if value >> (bits - 1) else value


def function(words: tuple[str, ...]) -> Function:
    """Return the function that an arithmetic instruction computes.

    Raises:
        SyntaxFault: the instruction is not defined here.
    """
    opcode, *modifiers = words
    if opcode == "cvt":
        return _conversion(modifiers)
    kind = modifiers[-1]
    if kind in FORMATS and opcode != "mov":
        return _float(opcode, modifiers[:-1], FORMATS[kind])
    if kind == "pred":
        return _logic(opcode)
    return _integer(opcode, modifiers[:-1], WIDTHS[kind], kind[0] == "s")


def _logic(opcode: str) -> Function:
    table: dict[str, Callable[..., int]] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: a ^ 1,
        "mov": lambda a: a,
    }
    if opcode not in table:
        raise SyntaxFault(f"{opcode}.pred")
    return Function(table[opcode], 1, (1,) if opcode in ("not", "mov") else (1, 1))


def _integer(opcode: str, modifiers: list[str], bits: int, is_signed: bool) -> Function:
    mask = (1 << bits) - 1

    def number(pattern: int) -> int:
        return pattern - mask - 1 if is_signed and pattern >> (bits - 1) else pattern

    def divide(a: int, b: int) -> int:
        if not b:
            return mask
        x, y = number(a), number(b)
        quotient = abs(x) // abs(y)
        return (-quotient if (x < 0) != (y < 0) else quotient) & mask

    def remainder(a: int, b: int) -> int:
        if not b:
            return mask
        x = number(a)
        rest = abs(x) % abs(number(b))
        return (-rest if x < 0 else rest) & mask

    def shift_right(a: int, count: int) -> int:
        return (number(a) >> min(count, bits)) & mask

    unary: dict[str, Callable[..., int]] = {
        "mov": lambda a: a,
        "neg": lambda a: -a & mask,
        "abs": lambda a: abs(number(a)) & mask,
        "not": lambda a: a ^ mask,
    }
    binary: dict[str, Callable[..., int]] = {
        "add": lambda a, b: (a + b) & mask,
        "sub": lambda a, b: (a - b) & mask,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "min": lambda a, b: min(number(a), number(b)) & mask,
        "max": lambda a, b: max(number(a), number(b)) & mask,
        "div": divide,
        "rem": remainder,
        "shl": lambda a, count: (a << count) & mask if count < bits else 0,
        "shr": shift_right,
    }
    if opcode in unary and not modifiers:
        return Function(unary[opcode], bits, (bits,), is_signed)
    if opcode in binary and not modifiers:
        second = 32 if opcode in ("shl", "shr") else bits
        return Function(binary[opcode], bits, (bits, second), is_signed)
    if opcode in ("mul", "mad") and len(modifiers) == 1:
        return _product(opcode, modifiers[0], bits, number)
    raise SyntaxFault(".".join((opcode, *modifiers)))


def _product(opcode: str, part: str, bits: int, number: Callable[[int], int]) -> Function:
    wide = bits * 2 if part == "wide" else bits
    shift = {"lo": 0, "wide": 0, "hi": bits}[part]
    mask = (1 << wide) - 1
    if opcode == "mul":
        return Function(lambda a, b: (number(a) * number(b) >> shift) & mask, wide, (bits, bits))
    return Function(
        lambda a, b, c: ((number(a) * number(b) >> shift) + c) & mask, wide, (bits, bits, wide)
    )


def _float(opcode: str, modifiers: list[str], format_: ieee.Format) -> Function:
    mode = next((_ROUNDINGS[word] for word in modifiers if word in _ROUNDINGS), "rn")
    one, sign = format_.one, format_.sign
    table: dict[str, tuple[int, Callable[..., int]]] = {
        "add": (2, lambda a, b: ieee.add(format_, a, b, mode)),
        "sub": (2, lambda a, b: ieee.subtract(format_, a, b, mode)),
        "mul": (2, lambda a, b: ieee.multiply(format_, a, b, mode)),
        "fma": (3, lambda a, b, c: ieee.fma(format_, a, b, c, mode)),
        "mad": (3, lambda a, b, c: ieee.fma(format_, a, b, c, mode)),
        "div": (2, lambda a, b: ieee.divide(format_, a, b, mode)),
        "rcp": (1, lambda a: ieee.divide(format_, one, a, mode)),
        "sqrt": (1, lambda a: ieee.square_root(format_, a, mode)),
        "min": (2, lambda a, b: ieee.least(format_, a, b, larger=False)),
        "max": (2, lambda a, b: ieee.least(format_, a, b, larger=True)),
        "neg": (1, lambda a: a ^ sign),
        "abs": (1, lambda a: a & ~sign),
    }
    if opcode not in table:
        raise SyntaxFault(".".join((opcode, *modifiers)))
    count, plain = table[opcode]
    compute = _modified(plain, modifiers, format_)
    return Function(compute, format_.bits, (format_.bits,) * count)


def _modified(
    plain: Callable[..., int], modifiers: list[str], format_: ieee.Format
) -> Callable[..., int]:
    ftz, sat = "ftz" in modifiers, "sat" in modifiers
    if not ftz and not sat:
        return plain

    def compute(*operands: int) -> int:
        result = format_.flush(plain(*map(format_.flush, operands))) if ftz else plain(*operands)
        return format_.saturate(result) if sat else result

    return compute


def _conversion(modifiers: list[str]) -> Function:
    to, source = modifiers[-2:]
    mode = next((word for word in modifiers if word in _ROUNDINGS or word[1:] == "zi"), "")
    mode = mode or next((word for word in modifiers if word in ("rni", "rmi", "rpi")), "")
    ftz, sat = "ftz" in modifiers, "sat" in modifiers
    bits, source_bits, is_signed = WIDTHS[to], WIDTHS[source], to[0] == "s"
    if source in FORMATS:
        from_format = FORMATS[source]
        flushes = ftz and source == "f32"
        if to not in FORMATS:

            def to_integer(a: int) -> int:
                a = from_format.flush(a) if flushes else a
                return ieee.to_integer(from_format, a, mode, bits, is_signed)

            return Function(to_integer, bits, (source_bits,), is_signed)
        inner = _between(from_format, FORMATS[to], mode)
        if flushes:
            return Function(
                _finished(lambda a: inner(from_format.flush(a)), to, ftz, sat), bits, (source_bits,)
            )
        return Function(_finished(inner, to, ftz, sat), bits, (source_bits,))
    if to in FORMATS:
        to_format = FORMATS[to]

        def to_float(a: int) -> int:
            value = to_signed(a, source_bits) if source[0] == "s" else a
            return ieee.encode(to_format, value < 0, abs(value), 0, mode)

        return Function(_finished(to_float, to, ftz, sat), bits, (source_bits,))
    lowest = -(1 << (bits - 1)) if is_signed else 0
    highest = (1 << (bits - is_signed)) - 1

    def to_other_width(a: int) -> int:
        value = to_signed(a, source_bits) if source[0] == "s" else a
        if sat:
            value = max(lowest, min(highest, value))
        return value & ((1 << bits) - 1)

    return Function(to_other_width, bits, (source_bits,), is_signed)


def _between(source: ieee.Format, to: ieee.Format, mode: str) -> Callable[[int], int]:
    if mode.endswith("i"):
        return lambda a: ieee.to_format(to, ieee.to_integral(source, a, mode), to, "rn")
    return lambda a: ieee.to_format(source, a, to, mode or "rn")


def _finished(plain: Callable[[int], int], to: str, ftz: bool, sat: bool) -> Callable[[int], int]:
    format_, flushes = FORMATS[to], ftz and to == "f32"

    def compute(a: int) -> int:
        result = plain(a)
        result = format_.flush(result) if flushes else result
        return format_.saturate(result) if sat else result

    return compute


def comparison(modifiers: list[str]) -> tuple[int, Callable[[int, int], bool]]:
    """Return the width and the test of ``setp.cmp[.bool][.ftz].type``."""
    how, kind = modifiers[0], modifiers[-1]
    if kind in FORMATS:
        return WIDTHS[kind], _float_test(how, FORMATS[kind], "ftz" in modifiers)
    bits = WIDTHS[kind]
    test = _TESTS[{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(how, how)]
    if kind[0] == "s":
        return bits, lambda a, b: test(to_signed(a, bits) - to_signed(b, bits))
    return bits, lambda a, b: test(a - b)


def _float_test(how: str, format_: ieee.Format, ftz: bool) -> Callable[[int, int], bool]:
    def compare(a: int, b: int) -> bool:
        if ftz:
            a, b = format_.flush(a), format_.flush(b)
        order = ieee.compare(format_, a, b)
        if how in ("num", "nan"):
            return (order is None) == (how == "nan")
        if order is None:
            return len(how) == 3
        return _TESTS[how[:2]](order)

    return compare


_TESTS: dict[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}
