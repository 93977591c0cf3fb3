"""Integer division of vectors by floating-point division, since CPUs have no vector instruction for
it.

LLVM would divide lane by lane. The quotient of two floats with more bits than the integer
quotient is exact after truncation: for integers a and b, a / b is an integer or at least 1 / b
below the next one, which is more than an ulp. 64 bits take two steps that never exceed the
quotient, and a correction by one. None of this depends on the rounding mode, and no conversion
overflows.
"""

from vgpu_sim.exec.jit.arithmetic.words import Words

_FORMATS = {16: "float", 32: "double", 64: "double"}
_BELOW_ONE = "0x3FEFFFFFFFFFFFF0"  # 1 - 2^-49: twice the error that four roundings can add


def divide(words: Words, a: str, b: str, *, signed: bool) -> tuple[str, str]:
    """Return quotient and remainder of each lane, truncated toward zero.

    ``b`` is not 0, and not -1 if ``a`` is the smallest negative integer.
    """
    if words.bits == 64:
        return _signed_divide_64(words, a, b) if signed else _divide_64(words, a, b)
    letter = "s" if signed else "u"
    x, y = (_as_float(words, value, letter) for value in (a, b))
    kind = _float(words)
    real = words.text.let(f"fdiv {kind} {x}, {y}")
    quotient = words.text.let(f"fpto{letter}i {kind} {real} to {words.type}")
    return quotient, words.op("sub", a, words.op("mul", quotient, b))


def _float(words: Words) -> str:
    scalar = _FORMATS[words.bits]
    return words.text.type_of(scalar, words.vector)


def _as_float(words: Words, value: str, letter: str) -> str:
    return words.text.let(f"{letter}itofp {words.type} {value} to {_float(words)}")


def _divide_64(words: Words, a: str, b: str) -> tuple[str, str]:
    text, kind = words.text, _float(words)
    numerator = f"splat (double {_BELOW_ONE})"
    inverse = text.let(f"fdiv {kind} {numerator}, {_as_float(words, b, 'u')}")
    quotient, remainder = words.const(0), a
    for _ in range(2):
        real = text.let(f"fmul {kind} {_as_float(words, remainder, 'u')}, {inverse}")
        part = text.let(f"fptoui {kind} {real} to {words.type}")
        quotient = words.op("add", quotient, part)
        remainder = words.op("sub", remainder, words.op("mul", part, b))
    fits_again = words.test("uge", remainder, b)
    zero, less = words.const(0), words.op("sub", remainder, b)
    step = words.select(fits_again, words.const(1), zero)
    return words.op("add", quotient, step), words.select(fits_again, less, remainder)


def _signed_divide_64(words: Words, a: str, b: str) -> tuple[str, str]:
    signs = [words.op("ashr", value, words.const(63)) for value in (a, b)]
    x, y = (
        words.op("sub", words.op("xor", value, sign), sign)
        for value, sign in zip((a, b), signs, strict=True)
    )
    quotient, remainder = _divide_64(words, x, y)
    sign = words.op("xor", *signs)
    quotient = words.op("sub", words.op("xor", quotient, sign), sign)
    return quotient, words.op("sub", words.op("xor", remainder, signs[0]), signs[0])
