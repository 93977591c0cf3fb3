"""Integer instructions beyond plain arithmetic, bit by bit, following the manual's pseudocode.

Source: PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions", "prmt". Each
function takes patterns and returns one of the width in its row.
"""

from collections.abc import Callable

from support.oracles.scalar_ptx.numbers import Function, to_signed

Compute = Callable[..., int]
_M32 = (1 << 32) - 1
_NONE = _M32


def function(words: tuple[str, ...]) -> Function | None:
    """Return the function that an instruction computes; None if it is not defined here."""
    opcode, *modifiers = words
    make = _MAKERS.get(opcode)
    return None if make is None else make(opcode, modifiers)


def _kind(modifiers: list[str]) -> tuple[int, bool]:
    """Return width and sign of the last modifier that is a type."""
    kind = next(word for word in reversed(modifiers) if word[1:].isdigit() and word[0] in "bus")
    return int(kind[1:]), kind[0] == "s"


def _bit(value: int, place: int) -> int:
    return value >> place & 1


def _bfe(opcode: str, modifiers: list[str]) -> Function:
    bits, is_signed = _kind(modifiers)
    msb = bits - 1

    def compute(a: int, b: int, c: int) -> int:
        position, length = (min(n, 0xFF) if bits == 64 else n & 0xFF for n in (b, c))
        fill = _bit(a, min(position + length - 1, msb)) if is_signed and length else 0
        result = 0
        for i in range(bits):
            inside = i < length and position + i <= msb
            result |= (_bit(a, position + i) if inside else fill) << i
        return result

    return Function(compute, bits, (bits, 32, 32))


def _bfi(opcode: str, modifiers: list[str]) -> Function:
    bits, _ = _kind(modifiers)

    def compute(a: int, b: int, c: int, d: int) -> int:
        position, length = (min(n, 0xFF) if bits == 64 else n & 0xFF for n in (c, d))
        for i in range(length):
            if position + i < bits:
                b = b & ~(1 << (position + i)) | _bit(a, i) << (position + i)
        return b

    return Function(compute, bits, (bits, bits, 32, 32))


def _bmsk(opcode: str, modifiers: list[str]) -> Function:
    clamp = "clamp" in modifiers

    def compute(a: int, b: int) -> int:
        if clamp and a >= 32:
            return 0
        first, count = a & 31, 32 if clamp and b >= 32 else b & 31
        return sum(1 << i for i in range(32) if first <= i < first + count)

    return Function(compute, 32, (32, 32))


def _szext(opcode: str, modifiers: list[str]) -> Function:
    clamp, is_signed = "clamp" in modifiers, "s32" in modifiers

    def compute(a: int, b: int) -> int:
        if clamp and b >= 32:
            return a
        count = b & 31
        value = sum(_bit(a, i) << i for i in range(count))
        if is_signed and count and _bit(a, count - 1):
            value -= 1 << count
        return value & _M32

    return Function(compute, 32, (32, 32))


def _bfind(opcode: str, modifiers: list[str]) -> Function:
    bits, is_signed = _kind(modifiers)

    def compute(a: int) -> int:
        wanted = 0 if is_signed and _bit(a, bits - 1) else 1
        for i in reversed(range(bits)):
            if _bit(a, i) == wanted:
                return bits - 1 - i if "shiftamt" in modifiers else i
        return _NONE

    return Function(compute, 32, (bits,))


def _fns(opcode: str, modifiers: list[str]) -> Function:
    def compute(mask: int, base: int, offset: int) -> int:
        steps = to_signed(offset, 32)
        if steps == 0:
            return base if base < 32 and _bit(mask, base) else _NONE
        position, count = base, abs(steps) - 1
        while 0 <= position < 32:
            if _bit(mask, position):
                if count == 0:
                    return position
                count -= 1
            position += 1 if steps > 0 else -1
        return _NONE

    return Function(compute, 32, (32, 32, 32))


def _counted(opcode: str, modifiers: list[str]) -> Function:
    bits, _ = _kind(modifiers)

    def popc(a: int) -> int:
        return sum(_bit(a, i) for i in range(bits))

    def clz(a: int) -> int:
        count = 0
        while count < bits and not _bit(a, bits - 1 - count):
            count += 1
        return count

    return Function({"popc": popc, "clz": clz}[opcode], 32, (bits,))


def _brev(opcode: str, modifiers: list[str]) -> Function:
    bits, _ = _kind(modifiers)
    return Function(lambda a: sum(_bit(a, i) << (bits - 1 - i) for i in range(bits)), bits, (bits,))


def _shf(opcode: str, modifiers: list[str]) -> Function:
    clamp, left = "clamp" in modifiers, "l" in modifiers

    def compute(a: int, b: int, c: int) -> int:
        n = min(c, 32) if clamp else c & 31
        value = b << n | a >> (32 - n) if left else b << (32 - n) | a >> n
        return value & _M32

    return Function(compute, 32, (32, 32, 32))


_MODES = {  # PTX ISA, table of prmt: the source bytes for d.b3 to d.b0, for c & 3 from 0 to 3
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def _prmt(opcode: str, modifiers: list[str]) -> Function:
    mode = _MODES.get(modifiers[-1])

    def compute(a: int, b: int, c: int) -> int:
        octets = (b << 32 | a).to_bytes(8, "little")
        result = []
        for i in range(4):
            if mode is not None:
                result.append(octets[int(mode[c & 3][3 - i])])
                continue
            choice = c >> 4 * i & 15
            byte = octets[choice & 7]
            result.append((0xFF if byte & 0x80 else 0) if choice & 8 else byte)
        return int.from_bytes(bytes(result), "little")

    return Function(compute, 32, (32, 32, 32))


def _lop3(opcode: str, modifiers: list[str]) -> Function:
    def compute(a: int, b: int, c: int, table: int) -> int:
        return sum(
            _bit(table, _bit(a, i) * 4 + _bit(b, i) * 2 + _bit(c, i)) << i for i in range(32)
        )

    return Function(compute, 32, (32, 32, 32, 32))


def _cnot(opcode: str, modifiers: list[str]) -> Function:
    bits, _ = _kind(modifiers)
    return Function(lambda a: int(a == 0), bits, (bits,))


def _clamped(value: int, is_signed: bool, bits: int = 32) -> int:
    low = -(1 << (bits - 1)) if is_signed else 0
    return max(low, min(low + (1 << bits) - 1, value)) & ((1 << bits) - 1)


def _saturated(opcode: str, modifiers: list[str]) -> Function | None:
    if modifiers not in (["sat", "u32"], ["sat", "s32"]):
        return None
    is_signed = modifiers[1] == "s32"
    sign = 1 if opcode == "add" else -1

    def compute(a: int, b: int) -> int:
        x, y = (to_signed(v, 32) if is_signed else v for v in (a, b))
        return _clamped(x + sign * y, is_signed)

    return Function(compute, 32, (32, 32))


def _mad(opcode: str, modifiers: list[str]) -> Function | None:
    if modifiers != ["hi", "sat", "s32"]:
        return None

    def compute(a: int, b: int, c: int) -> int:
        high = to_signed(a, 32) * to_signed(b, 32) >> 32
        return _clamped(high + to_signed(c, 32), is_signed=True)

    return Function(compute, 32, (32, 32, 32))


def _short(opcode: str, modifiers: list[str]) -> Function:
    is_signed = modifiers[-1] == "s32"

    def product(a: int, b: int) -> int:
        x, y = (v & 0xFFFFFF for v in (a, b))
        if is_signed:
            x, y = to_signed(x, 24), to_signed(y, 24)
        part = x * y >> (16 if "hi" in modifiers else 0) & _M32
        return to_signed(part, 32) if is_signed else part

    if opcode == "mul24":
        return Function(lambda a, b: product(a, b) & _M32, 32, (32, 32))
    if "sat" in modifiers:
        return Function(
            lambda a, b, c: _clamped(product(a, b) + to_signed(c, 32), is_signed=True),
            32,
            (32, 32, 32),
        )
    return Function(lambda a, b, c: product(a, b) + c & _M32, 32, (32, 32, 32))


def _sad(opcode: str, modifiers: list[str]) -> Function:
    bits, is_signed = _kind(modifiers)

    def compute(a: int, b: int, c: int) -> int:
        x, y = (to_signed(v, bits) if is_signed else v for v in (a, b))
        return c + (y - x if x < y else x - y) & ((1 << bits) - 1)

    return Function(compute, bits, (bits, bits, bits))


def _relu(opcode: str, modifiers: list[str]) -> Function | None:
    if modifiers != ["relu", "s32"]:
        return None
    choose = min if opcode == "min" else max
    return Function(lambda a, b: max(0, choose(to_signed(a, 32), to_signed(b, 32))), 32, (32, 32))


def _octets(value: int, kind: str, bits: int = 8) -> list[int]:
    parts = [value >> bits * i & ((1 << bits) - 1) for i in range(32 // bits)]
    return [to_signed(part, bits) for part in parts] if kind[0] == "s" else parts


def _dot(opcode: str, modifiers: list[str]) -> Function:
    first, second = modifiers[-2:]

    def compute(a: int, b: int, c: int) -> int:
        if opcode == "dp4a":
            factors, others = _octets(a, first), _octets(b, second)
        else:
            factors, others = _octets(a, first, 16), _octets(b, second)
            others = others[2:] if "hi" in modifiers else others[:2]
        return c + sum(x * y for x, y in zip(factors, others, strict=True)) & _M32

    return Function(compute, 32, (32, 32, 32))


def _clmad(opcode: str, modifiers: list[str]) -> Function:
    def compute(a: int, b: int, c: int) -> int:
        product = 0
        for i in range(64):
            product ^= (a << i) * _bit(b, i)
        return (product >> 64 if "hi" in modifiers else product & ((1 << 64) - 1)) ^ c

    return Function(compute, 64, (64, 64, 64))


_MAKERS: dict[str, Callable[[str, list[str]], Function | None]] = {
    "bfe": _bfe,
    "bfi": _bfi,
    "bmsk": _bmsk,
    "szext": _szext,
    "bfind": _bfind,
    "fns": _fns,
    "popc": _counted,
    "clz": _counted,
    "brev": _brev,
    "shf": _shf,
    "prmt": _prmt,
    "lop3": _lop3,
    "cnot": _cnot,
    "add": _saturated,
    "sub": _saturated,
    "mad": _mad,
    "mul24": _short,
    "mad24": _short,
    "sad": _sad,
    "min": _relu,
    "max": _relu,
    "dp4a": _dot,
    "dp2a": _dot,
    "clmad": _clmad,
}
CARRIED = frozenset(["addc", "subc", "madc"])  # ``carries``
OPCODES = frozenset(_MAKERS) - {"add", "sub", "mad", "min", "max"}  # others in ``numbers``
