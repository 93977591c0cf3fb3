"""Elementary functions of complex numbers, given and returned as pairs of real tensors.

Formulas of inverse functions are those of W. Kahan, "Branch Cuts for Complex Elementary Functions".
"""

import math
from collections.abc import Callable
from typing import Any, Final

import torch

Pair = tuple[Any, Any]
_DISTANT: Final = 1e8
_FAR: Final = 20.0  # tanh is 1 in double precision from here on


def multiply(a: Pair, b: Pair) -> Pair:
    """Return a product."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def divide(a: Pair, b: Pair) -> Pair:
    """Return a quotient by Smith's method, which overflows only where the quotient does."""
    wide = b[0].abs() >= b[1].abs()
    large, small = torch.where(wide, b[0], b[1]), torch.where(wide, b[1], b[0])
    zero = large == 0
    ratio = torch.where(zero, 0, small / large)
    scale = 1 / (large + small * ratio)
    first, second = torch.where(wide, a[0], a[1]), torch.where(wide, a[1], a[0])
    real = (first + second * ratio) * scale
    imag = torch.where(wide, second - first * ratio, first * ratio - second) * scale
    size = b[0].abs()
    return torch.where(zero, a[0] / size, real), torch.where(zero, a[1] / size, imag)


def _choose(condition: Any, special: Pair, usual: Pair) -> Pair:
    """Return special parts where a condition holds."""
    return (
        torch.where(condition, special[0], usual[0]),
        torch.where(condition, special[1], usual[1]),
    )


def _is_wild(x: Any) -> Any:
    """Return where a number has no sine: it is infinite or no number."""
    return ~x.isfinite()


def exp(z: Pair) -> Pair:
    """Return the exponential."""
    x, y = z
    size = x.exp()
    y = torch.where(_is_wild(y) & (x == -math.inf), 1, y)  # any direction of nothing
    usual = size * y.cos(), torch.where(y == 0, y, size * y.sin())
    return _choose(_is_wild(y) & (x == math.inf), (x, torch.full_like(y, math.nan)), usual)


def _log_size(x: Any, y: Any) -> Any:
    """Return the logarithm of the absolute value, exact also near 1."""
    size = torch.hypot(x, y)
    large = torch.maximum(x.abs(), y.abs())
    small = torch.minimum(x.abs(), y.abs())
    near = 0.5 * torch.log1p((large - 1) * (large + 1) + small * small)
    return torch.where((size > 0.5) & (size < 2), near, size.log())


def log(z: Pair) -> Pair:
    """Return the principal logarithm."""
    return _log_size(*z), torch.atan2(z[1], z[0])


def log1p(z: Pair) -> Pair:
    """Return the logarithm of 1 + z, exact also near 0."""
    x, y = z
    near = 0.5 * torch.log1p(x * (2 + x) + y * y)
    real = torch.where(torch.hypot(x, y) < 0.5, near, _log_size(1 + x, y))
    return real, torch.atan2(y, 1 + x)


def expm1(z: Pair) -> Pair:
    """Return exp(z) - 1, exact also near 0."""
    half = (z[1] / 2).sin()
    return z[0].expm1() * z[1].cos() - 2 * half * half, z[0].exp() * z[1].sin()


def sqrt(z: Pair) -> Pair:
    """Return the principal root."""
    x, y = z
    size = ((x.abs() + torch.hypot(x, y)) / 2).sqrt()
    minor_part = torch.where(size == 0, 0, y.abs() / (2 * size))
    real = torch.where(x >= 0, size, minor_part)
    root = real, torch.copysign(torch.where(x >= 0, minor_part, size), y)
    level = torch.where(y.isnan(), y, 0)  # beside an infinite real part
    root = _choose(x == math.inf, (x, torch.copysign(level, y)), root)
    root = _choose(x == -math.inf, (level, torch.copysign(-x, y)), root)
    return _choose(y.isinf(), (y.abs(), y), root)


def sinh(z: Pair) -> Pair:
    """Return the hyperbolic sine."""
    x, y = z
    usual = x.sinh() * y.cos(), x.cosh() * y.sin()
    usual = _choose((y == 0) & _is_wild(x), z, usual)
    return _choose(_is_wild(y) & (x.isinf() | (x == 0)), (x, torch.full_like(y, math.nan)), usual)


def cosh(z: Pair) -> Pair:
    """Return the hyperbolic cosine."""
    x, y = z
    nan = torch.full_like(x, math.nan)
    usual = x.cosh() * y.cos(), x.sinh() * y.sin()
    usual = _choose((y == 0) & _is_wild(x), (x.abs(), y), usual)
    usual = _choose((y == 0) & (x == 0), (torch.ones_like(x), y), usual)
    usual = _choose(_is_wild(y) & (x == 0), (nan, x), usual)
    return _choose(_is_wild(y) & x.isinf(), (x.abs(), nan), usual)


def tanh(z: Pair) -> Pair:
    """Return the hyperbolic tangent."""
    x, y = z
    far = x.abs() > _FAR
    tangent, sine = y.tan(), torch.where(far, 0, x).sinh()
    factor = 1 + tangent * tangent
    below = 1 + factor * sine * sine
    real = factor * (1 + sine * sine).sqrt() * sine / below
    small = 4 * y.sin() * y.cos() * (-2 * x.abs()).exp()
    usual = torch.where(far, x.sign(), real), torch.where(far, small, tangent / below)
    usual = _choose(_is_wild(y) & x.isinf(), (x.sign(), torch.zeros_like(y)), usual)
    return _choose((y == 0) & x.isnan(), z, usual)


def _turn(z: Pair) -> Pair:
    """Return i z."""
    return -z[1], z[0]


def _turn_back(z: Pair) -> Pair:
    """Return -i z."""
    return z[1], -z[0]


def sin(z: Pair) -> Pair:
    """Return the sine."""
    return _turn_back(sinh(_turn(z)))


def cos(z: Pair) -> Pair:
    """Return the cosine."""
    return cosh(_turn(z))


def tan(z: Pair) -> Pair:
    """Return the tangent."""
    return _turn_back(tanh(_turn(z)))


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """Return the roots of 1 - z and 1 + z."""
    return sqrt((1 - z[0], -z[1])), sqrt((1 + z[0], z[1]))


def _is_infinite(z: Pair) -> Any:
    return z[0].isinf() | z[1].isinf()


def asin(z: Pair) -> Pair:
    """Return the arc sine."""
    low, high = _roots(z)
    real = torch.atan2(z[0], multiply(low, high)[0])
    imag = (low[0] * high[1] - low[1] * high[0]).asinh()
    far = _is_infinite(z)
    real = torch.where(far, torch.atan2(z[0].abs(), z[1].abs()), real)
    imag = torch.where(far, math.inf, imag)
    imag = torch.where((z[1] == 0) & (z[0].abs() <= 1), 0, imag)
    real = torch.where(z[0] == 0, 0, real)
    sign = torch.where(z[0].isinf() & z[1].isnan(), -z[0], z[1])
    return torch.copysign(real, z[0]), torch.copysign(imag, sign)


def acos(z: Pair) -> Pair:
    """Return the arc cosine."""
    low, high = _roots(z)
    imag = (high[0] * low[1] - high[1] * low[0]).asinh()
    real = 2 * torch.atan2(low[0], high[0])
    far = _is_infinite(z)
    real = torch.where(far, torch.atan2(z[1].abs(), z[0]), real)
    imag = torch.where(far, math.inf, imag)
    imag = torch.where((z[1] == 0) & (z[0].abs() <= 1), 0, imag)
    real = torch.where(z[0] == 0, math.pi / 2, real)
    sign = torch.where(z[0].isinf() & z[1].isnan(), z[0], -z[1])
    return real, torch.copysign(imag, sign)


def asinh(z: Pair) -> Pair:
    """Return the inverse hyperbolic sine."""
    return _turn_back(asin(_turn(z)))


def acosh(z: Pair) -> Pair:
    """Return the inverse hyperbolic cosine."""
    low, high = sqrt((z[0] - 1, z[1])), sqrt((z[0] + 1, z[1]))
    real = (low[0] * high[0] + low[1] * high[1]).asinh()
    imag = 2 * torch.atan2(low[1], high[0])
    far = _is_infinite(z)
    imag = torch.where(far, torch.atan2(z[1], z[0]), imag)
    return torch.where(far, math.inf, real), imag


def atanh(z: Pair) -> Pair:
    """Return the inverse hyperbolic tangent."""
    x, y = z[0].abs(), z[1].abs()
    complement = 1 - x
    real = 0.25 * torch.log1p(4 * x / (complement * complement + y * y))
    imag = 0.5 * torch.atan2(2 * y, complement * (1 + x) - y * y)
    # From here on the squares could overflow, and 1 / z is all that is left of the series.
    size = torch.maximum(x, y)
    far = size > _DISTANT
    a, b = x / size, y / size
    square = a * a + b * b
    real = torch.where(far, a / square / size, real)
    imag = torch.where(far, math.pi / 2 - b / square / size, imag)
    infinite = _is_infinite(z)
    real = torch.where(infinite, 0, real)
    imag = torch.where(infinite, math.pi / 2, imag)
    imag = torch.where(z[1].isnan(), math.nan, imag)
    real = torch.where(x == 0, 0, real)
    return torch.copysign(real, z[0]), torch.copysign(imag, z[1])


def atan(z: Pair) -> Pair:
    """Return the arc tangent."""
    return _turn_back(atanh(_turn(z)))


def reciprocal(z: Pair) -> Pair:
    """Return 1 / z."""
    return divide((torch.ones_like(z[0]), torch.zeros_like(z[0])), z)


def _invert(z: Pair) -> Pair:
    """Return 1 / z as libc++ does: 0 where a part is infinite."""
    real, imag = (torch.copysign(torch.where(part.isinf(), 1.0, 0.0), part) for part in z)
    return _choose(_is_infinite(z), (0 * real, 0 * (0 * real - imag)), reciprocal(z))


def _rsqrt(z: Pair) -> Pair:
    """Return the reciprocal of the root."""
    return _invert(sqrt(z))


def sigmoid(z: Pair) -> Pair:
    """Return 1 / (1 + exp(-z))."""
    size = exp((-z[0], -z[1]))
    return _invert((1 + size[0], size[1]))


def sgn(z: Pair) -> Pair:
    """Return z divided by its absolute value, and 0 for 0."""
    size = torch.hypot(*z)
    return torch.where(size == 0, 0, z[0] / size), torch.where(size == 0, 0, z[1] / size)


def power(a: Pair, b: Pair) -> Pair:
    """Return a to the power of b; anything to the power of 0 is 1."""
    result = exp(multiply(b, log(a)))
    none = (b[0] == 0) & (b[1] == 0)
    zero = (a[0] == 0) & (a[1] == 0) & (b[0] > 0)
    real = torch.where(none, 1, torch.where(zero, 0, result[0]))
    return real, torch.where(none | zero, 0, result[1])


def _scaled(function: Callable[[Pair], Pair], factor: float) -> Callable[[Pair], Pair]:
    def compute(z: Pair) -> Pair:
        real, imag = function(z)
        return real * factor, imag * factor

    return compute


def _exp2(z: Pair) -> Pair:
    return exp((z[0] * math.log(2), z[1] * math.log(2)))


FUNCTIONS: Final[dict[str, Callable[[Pair], Pair]]] = {
    "exp": exp, "log": log, "log1p": log1p, "expm1": expm1, "sqrt": sqrt,
    "log2": _scaled(log, 1 / math.log(2)), "log10": _scaled(log, 1 / math.log(10)),
    "rsqrt": _rsqrt, "exp2": _exp2,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": sin, "cos": cos, "tan": tan,
    "asin": asin, "acos": acos, "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
    "reciprocal": reciprocal, "sigmoid": sigmoid, "sgn": sgn,
}  # fmt: skip
