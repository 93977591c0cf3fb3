"""Video instructions and packed integers, part by part, following the manual's pseudocode.

Source: PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions", and packed types of add,
sub, min, max, abs and neg.
"""

from collections.abc import Callable
from dataclasses import dataclass

from support.oracles.scalar_ptx.numbers import Function, to_signed
from support.oracles.scalar_ptx.text import Negative, Number, Operand, SyntaxFault
from support.oracles.scalar_ptx.threads import SPECIALS

_M32 = (1 << 32) - 1
_PLAIN = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
_SCALAR = frozenset(_PLAIN) - {"vavrg"} | {"vshl", "vshr", "vmad"}
_SIMD = frozenset(f"{name}{count}" for name in _PLAIN for count in (2, 4))
OPCODES = _SCALAR | _SIMD
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Video:
    """``compute`` takes the whole words of ``sources`` and returns the whole word of ``to``."""

    to: str
    sources: tuple[Operand, ...]
    compute: Callable[..., int]


def _clamp(value: int, bits: int, is_signed: bool) -> int:
    low = -(1 << (bits - 1)) if is_signed else 0
    return max(low, min(value, low + (1 << bits) - 1))


def _arithmetic(name: str, modifiers: list[str], a: int, b: int) -> int:
    match name:
        case "vadd":
            return a + b
        case "vsub":
            return a - b
        case "vabsdiff":
            return abs(a - b)
        case "vmin":
            return min(a, b)
        case "vmax":
            return max(a, b)
        case "vavrg":
            return (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1
        case "vset":
            return int(_TESTS[modifiers[2]](a, b))
    raise SyntaxFault(name)


def read(words: tuple[str, ...], operands: tuple[Operand, ...]) -> Video:
    """Return a prepared video instruction.

    Raises:
        SyntaxFault: the words are not a video instruction.
    """
    opcode, *modifiers = words
    if opcode in _SIMD:
        return _simd(opcode, modifiers, operands)
    if opcode == "vmad":
        return _vmad(modifiers, operands)
    return _scalar(opcode, modifiers, operands)


def _named(operand: Operand) -> tuple[Operand, str]:
    if isinstance(operand, Number) or (isinstance(operand, str) and operand in SPECIALS):
        return operand, ""
    if isinstance(operand, str):
        name, _, selector = operand.partition(".")
        return name, selector
    raise SyntaxFault(f"{operand}")


def _part(word: int, selector: str, kind: str) -> int:
    """partSelectSignExtend."""
    bits = {"": 32, "b": 8, "h": 16}[selector[:1]]
    value = word >> bits * int(selector[1:] or 0) & ((1 << bits) - 1)
    return to_signed(value, bits) if kind == "s32" else value


def _scalar(opcode: str, modifiers: list[str], operands: tuple[Operand, ...]) -> Video:
    kinds = ["u32", *modifiers[:2]] if opcode == "vset" else modifiers[:3]
    own = kinds[1] if opcode == "vset" else kinds[0]
    (to, dsel), (a, asel), (b, bsel), *rest = map(_named, operands)
    second = modifiers[-1] if modifiers[-1] in ("add", "min", "max") else ""
    size = {"": 32, "b": 8, "h": 16}[dsel[:1]]

    def compute(x: int, y: int, c: int = 0) -> int:
        ta, tb = _part(x, asel, kinds[1]), _part(y, bsel, kinds[2])
        if opcode in ("vshl", "vshr"):
            tb = min(tb, 32) if "clamp" in modifiers else tb & 31
            value = ta << tb if opcode == "vshl" else ta >> tb
            if "sat" not in modifiers:  # see docs/binding.md
                value &= _M32
                value = to_signed(value, 32) if own == "s32" else value
        else:
            value = _arithmetic(opcode, modifiers, ta, tb)
            if opcode in ("vadd", "vsub") and second and "sat" not in modifiers:
                value = to_signed(value & _M32, 32)
            if second and own == "u32" and "sat" not in modifiers:
                value &= (1 << 64) - 1  # see vgpu_sim/compiler/lower/video/scalar.py
        if "sat" in modifiers:
            value = _clamp(value, size, own == "s32")
        number = to_signed(c, 32) if own == "s32" else c
        if second:
            value = {"add": value + number, "min": min(value, number), "max": max(value, number)}[
                second
            ]
        if dsel:
            place = size * int(dsel[1:])
            field = ((1 << size) - 1) << place
            return c & ~field | value << place & field
        return value & _M32

    return Video(str(to), tuple(source for source, _ in ((a, ""), (b, ""), *rest)), compute)


def _vmad(modifiers: list[str], operands: tuple[Operand, ...]) -> Video:
    first, *rest = operands
    minus = [isinstance(operand, Negative) for operand in rest]
    (a, asel), (b, bsel), (c, _) = (
        _named(operand.operand if isinstance(operand, Negative) else operand) for operand in rest
    )
    _, atype, btype = modifiers[:3]
    negated = minus[0] != minus[1]
    is_signed = "s32" in (atype, btype) or negated or minus[2]
    scale = next((int(word[3:]) for word in modifiers if word.startswith("shr")), 0)

    def compute(x: int, y: int, z: int) -> int:
        value = _part(x, asel, atype) * _part(y, bsel, btype)
        lsb = 0
        if "po" in modifiers:
            lsb = 1
        elif negated:
            value, lsb = ~value, 1
        elif minus[2]:
            z, lsb = ~z & _M32, 1
        value += (to_signed(z, 32) if is_signed else z) + lsb
        value >>= scale
        if "sat" in modifiers:
            value = _clamp(value, 32, is_signed)
        return value & _M32

    return Video(str(first), (a, b, c), compute)


def _simd(opcode: str, modifiers: list[str], operands: tuple[Operand, ...]) -> Video:
    name, count = opcode[:-1], int(opcode[-1])
    kinds = ["u32", *modifiers[:2]] if name == "vset" else modifiers[:3]
    bits = 32 // count
    (to, mask), (a, asel), (b, bsel), (c, _) = map(_named, operands)
    places = mask[1:] or "3210"[4 - count :]
    first = asel[1:] or ("10" if count == 2 else "3210")
    second = bsel[1:] or ("32" if count == 2 else "7654")

    def element(word: int, place: int, kind: str) -> int:
        value = word >> bits * place & ((1 << bits) - 1)
        return to_signed(value, bits) if kind == "s32" else value

    def compute(x: int, y: int, z: int) -> int:
        both = y << 32 | x
        results = []
        for i in range(count):
            left = element(both, int(first[count - 1 - i]), kinds[1])
            right = element(both, int(second[count - 1 - i]), kinds[2])
            value = _arithmetic(name, modifiers, left, right)
            results.append(_clamp(value, bits, kinds[0] == "s32") if "sat" in modifiers else value)
        chosen = [str(i) in places for i in range(count)]
        if "add" in modifiers:
            return z + sum(v for v, used in zip(results, chosen, strict=True) if used) & _M32
        total = 0
        for i, used in enumerate(chosen):
            part = results[i] if used else z >> bits * i
            total |= (part & ((1 << bits) - 1)) << bits * i
        return total

    return Video(str(to), (a, b, c), compute)


_PACKED = {"u16x2": 16, "s16x2": 16, "u8x4": 8, "s8x4": 8}


def packed_operation(words: tuple[str, ...]) -> Function | None:
    """Return the function of an instruction on a packed type; None if its type is not packed."""
    opcode, *modifiers = words
    bits, is_signed = _PACKED.get(modifiers[-1], 0), modifiers[-1][0] == "s"
    if not bits:
        return None
    exact: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "min": min,
        "max": max,
        "abs": abs,
        "neg": lambda a: -a,
    }

    def compute(*sources: int) -> int:
        total = 0
        for place in range(0, 32, bits):
            parts = [word >> place & ((1 << bits) - 1) for word in sources]
            value = exact[opcode](*(to_signed(v, bits) if is_signed else v for v in parts))
            value = _clamp(value, bits, is_signed) if "sat" in modifiers else value
            value = max(value, 0) if "relu" in modifiers else value
            total |= (value & ((1 << bits) - 1)) << place
        return total

    return Function(compute, 32, (32,) * (1 if opcode in ("abs", "neg") else 2))
