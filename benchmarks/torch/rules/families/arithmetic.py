"""Arithmetic of two operands: what is computed in opmath, and which division takes place."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.dtypes import COMPLEXES, FLOATS, REALS, Array, special_values
from benchmarks.torch.rules.eight_bits import EIGHTS
from benchmarks.torch.rules.elementwise import Functor, binary, expect
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cuda, header

Rounding = Callable[[Array], Array]
_OPMATH = "tensors are rounded to the common type, a number to opmath; computed and rounded once"
_NARROW = "both operands are rounded to the common type; computed in float32 and rounded once"
_ADD = header("ATen/native/cuda/Loops.cuh", "opmath_symmetric_gpu_kernel_with_scalars")
_MUL = cuda("BinaryMulKernel.cu", "mul_kernel_cuda, MulFunctor")
_DIV = cuda("BinaryDivTrueKernel.cu", "div_true_kernel_cuda")
_TRUNC = cuda("BinaryDivTruncKernel.cu", "div_trunc_kernel_cuda")
_FLOOR = header("c10/util/generic_math.h", "div_floor_floating, div_floor_integer")
_REMAINDER = cuda("BinaryRemainderKernel.cu", "remainder_kernel_cuda, fmod_kernel_cuda")
_POW = cuda("PowKernel.cu", "pow_tensor_tensor_kernel, pow_tensor_scalar_kernel")
_MISC = "BinaryMiscOpsKernels.cu"


def multiply(first: Array, second: Array) -> Array:
    """Multiply; bool is a conjunction."""
    return first & second if first.dtype == bool else first * second


def divide(first: Array, second: Array) -> Array:
    """Divide by a tensor, or multiply with a number's reciprocal."""
    return first / second if second.ndim else divide_by_number(first, second)


def divide_by_number(first: Array, second: Array) -> Array:
    """Multiply with a number's reciprocal."""
    return first * (np.ones_like(second) / second)


def truncate(rounded: Rounding, first: Array, second: Array) -> Array:
    """Divide, round and drop the fraction; a number's reciprocal is a factor; integers wrap."""
    if first.dtype.kind in "iu":
        quotient = first.astype(object) // second.astype(object)
        away = (first.astype(object) % second.astype(object) != 0) & ((first < 0) != (second < 0))
        return wrap(quotient + away, first)
    if second.ndim:
        return np.trunc(rounded(first / second))
    return np.trunc(divide_by_number(first, second))


def wrap(exact: Array, like: Array) -> Array:
    """Keep the low bits of exact integers in a type."""
    bits = like.dtype.itemsize * 8
    values = np.array([int(x) & ((1 << bits) - 1) for x in np.ravel(exact)], dtype=f"uint{bits}")
    return values.astype(like.dtype).reshape(like.shape)


def floor_divide(rounded: Rounding, first: Array, second: Array) -> Array | tuple[Array, ...]:
    """Divide and round down, from the remainder; by zero as IEEE does, integers give 0."""
    if first.dtype.kind in "iu":
        safe = np.where(second == 0, 1, second).astype(object)
        quotient = wrap(first.astype(object) // safe, first)
        return np.where(second == 0, 0, quotient).astype(first.dtype)
    plain = _floor(rounded, first, second, lambda values: values / second)
    if second.ndim:
        return plain
    inverse = np.ones_like(second) / second
    return _floor(rounded, first, second, lambda values: values * inverse), plain


def _floor(rounded: Rounding, first: Array, second: Array, quotient: Rounding) -> Array:
    remainder = np.fmod(first, second)
    divided = quotient(first - remainder)
    divided = np.where((remainder != 0) & ((second < 0) != (remainder < 0)), divided - 1, divided)
    floored = rounded(np.floor(divided))
    floored = np.where(divided - floored > 0.5, rounded(floored + 1), floored)
    zero = np.copysign(np.zeros_like(first), quotient(first))
    floored = np.where(divided != 0, floored, zero)
    return np.where(second == 0, first / second, floored).astype(first.dtype)


def fmod(first: Array, second: Array) -> Array:
    """Return the remainder with the dividend's sign."""
    return np.fmod(first, second)


def remainder(first: Array, second: Array) -> Array:
    """Return the remainder with the divisor's sign, from fmod's."""
    modulo = np.fmod(first, second)
    differ = (modulo != 0) & ((second < 0) != (modulo < 0))
    return np.where(differ, modulo + second, modulo).astype(modulo.dtype)


def defined_division(first: Array, second: Array) -> Array:
    """Select the pairs of integers that C++ defines: no zero, and no quotient that overflows."""
    if second.dtype.kind not in "iu":
        return np.ones(first.shape, dtype=bool)
    allowed = second != 0
    if second.dtype.kind == "i":
        allowed &= ~((first == np.iinfo(first.dtype).min) & (second == -1))
    return np.asarray(allowed)


def power(base: Array, exponent: Array) -> Array:
    """Raise to a power: integers wrap; a negative power of one is 1, of -1 its sign, of others 0."""
    if base.dtype.kind in "iu":
        pairs = zip(np.ravel(base), np.ravel(np.broadcast_to(exponent, base.shape)), strict=True)
        bits = base.dtype.itemsize * 8
        exact = [_integer_power(int(x), int(n), bits) for x, n in pairs]
        return wrap(np.array(exact, dtype=object), base)
    wide = "longdouble" if base.dtype.kind == "f" else "complex128"
    return np.asarray(np.power(base.astype(wide), exponent.astype(wide)))


def _integer_power(base: int, exponent: int, bits: int) -> int:
    if exponent < 0:
        return 1 if base == 1 else (-1 if exponent % 2 else 1) if base == -1 else 0
    return pow(base, exponent, 1 << bits)


def power_of_number(rounded: Rounding, base: Array, exponent: Array) -> Array | tuple[Array, ...]:
    """Raise to a number: squares and cubes are products, which half types round each time."""
    number = float(exponent)
    if base.dtype.kind != "f":
        return power(base, np.broadcast_to(exponent, base.shape))
    if number == 2:
        return base * base
    if number == 3:
        return rounded(base * base) * base
    if number == -2:
        return 1.0 / rounded(base * base).astype("float64")
    if number == 0.5:
        return np.sqrt(base)
    if number == -1:
        return np.ones_like(base) / base
    return power(base, rounded(exponent))


def _scaled(first: Array, second: Array) -> tuple[Array, ...]:
    """Add twice the second operand, in one rounding or two."""
    twice = first + (second + second)
    if first.dtype.kind != "f":
        return (twice,)
    return twice, first.astype("longdouble") + 2 * second.astype("longdouble")


def _with_whole_numbers(row: Row, dtype: str) -> Iterator[Case]:
    """Yield sums with integers that 16-bit types do not hold."""
    values = special_values(dtype)
    operands = Operand(values, dtype), Operand(np.full(values.shape, 2049), "int64")
    expected = expect(Functor(lambda a, b: a + b, narrow=False), operands)
    yield Case("a + b", operands, (expected,), label=f"{dtype} int64")


def _xlogy(first: Array, second: Array) -> Array:
    product = first.astype("longdouble") * np.log(second.astype("longdouble"))
    return np.where(np.isnan(second), np.nan, np.where(first == 0, 0, product))


def _xlog1py(first: Array, second: Array) -> Array:
    product = first.astype("longdouble") * np.log1p(second.astype("longdouble"))
    return np.where(np.isnan(second), np.nan, np.where(first == 0, 0, product))


def _atan2(first: Array, second: Array) -> Array:
    return np.asarray(np.arctan2(first.astype("longdouble"), second.astype("longdouble")))


def _hypot(first: Array, second: Array) -> Array:
    return np.asarray(np.hypot(first.astype("longdouble"), second.astype("longdouble")))


def _heaviside(first: Array, second: Array) -> tuple[Array, ...]:
    step = np.where(first == 0, second, (first > 0).astype(second.dtype))
    return step, np.where(first != first, first, step).astype(first.dtype)


def _row(
    name: str,
    rule: str,
    source: str,
    accepts: tuple[str, ...],
    functor: Functor,
    call: str = "",
    **options: object,
) -> Row:
    call = call or f"torch.{name}(a, b)"
    make = binary(functor, call, **options)  # type: ignore[arg-type]
    refuses = EIGHTS if name == "add" else () if name in _COMPLEX else COMPLEXES
    out = _OUT.get(name, "castable")
    return Row(name, "arithmetic", rule, source, accepts, make, call, refuses, out)  # type: ignore[arg-type]


_OUT = {"mul.into": "none", "rsub": "none", "heaviside": "exact"}


_COMPLEX = [
    "add",
    "sub",
    "rsub",
    "add.alpha",
    "mul",
    "mul.into",
    "div.number",
    "true_divide",
    "div",
    "pow",
    "pow.number",
    "pow.float",
]


_WIDE = "operands are rounded to the common type; one function of libdevice, rounded once"
_FLOATING = ("bool", *REALS)

ROWS = (
    _row("add", _OPMATH, _ADD, ("bool", *REALS), Functor(lambda a, b: a + b, narrow=False), "a + b",
         inplace="a.add_(b)", reverse="a + b"),
    Row("add.int64", "arithmetic", "integers are rounded to the common type before the addition", _ADD,
        FLOATS, _with_whole_numbers),
    _row("sub", _OPMATH, _ADD, REALS, Functor(lambda a, b: a - b, narrow=False), "a - b",
         inplace="a.sub_(b)", reverse="a - b"),
    _row("rsub", _OPMATH, _ADD, REALS, Functor(lambda a, b: b - a, narrow=False),
         "torch.rsub(a, b)"),
    _row("add.alpha", "self + alpha * other in opmath, with or without one rounding between",
         _ADD, REALS, Functor(_scaled, narrow=False), "torch.add(a, b, alpha=2)"),
    _row("mul", _OPMATH, _MUL, ("bool", *REALS), Functor(multiply, narrow=False), "a * b",
         inplace="a.mul_(b)", reverse="a * b"),
    _row("mul.into", _OPMATH, _MUL, FLOATS, Functor(multiply, narrow=False),
         "torch.mul(a, b, out=torch.empty_like(a))"),
    _row("true_divide", "tensors: one division in float32; by a number, or a CPU tensor without"
         " dimensions: its product with the reciprocal in opmath", _DIV, ("bool", *REALS),
         Functor(divide, narrow=False, result="float"), "torch.true_divide(a, b)"),
    _row("div", "as true_divide; in place the same", _DIV, FLOATS,
         Functor(divide, narrow=False, result="float"), "a / b", inplace="a.div_(b)"),
    _row("div.trunc", "half types round the quotient of tensors before its fraction is dropped; a number's"
         " reciprocal is a factor", _TRUNC,
         REALS, Functor(truncate, narrow=False, rounds=True), "torch.div(a, b, rounding_mode='trunc')", valid=defined_division),
    _row("floor_divide", "from fmod's remainder; by zero IEEE's quotient, of integers 0", _FLOOR,
         REALS, Functor(floor_divide, narrow=False, rounds=True),
         "torch.floor_divide(a, b)"),
    _row("div.floor", "as floor_divide", _FLOOR, REALS,
         Functor(floor_divide, narrow=False, rounds=True), "torch.div(a, b, rounding_mode='floor')"),
    _row("fmod", _NARROW, _REMAINDER, REALS, Functor(fmod), valid=defined_division),
    _row("remainder", _NARROW + ", with the divisor's sign", _REMAINDER, REALS,
         Functor(remainder), valid=defined_division),
    _row("pow", "tensors in the common type; integers wrap", _POW, REALS,
         Functor(power, ulps=4), numbers=False,
         valid=lambda a, b: (b >= 0) if b.dtype.kind in "iu" else np.ones(a.shape, dtype=bool)),
    _row("pow.number", "the exponent is rounded to the tensor's type; 2, 3 and -2 are products that"
         " half types round, 0.5 a square root", _POW, REALS,
         Functor(power_of_number, narrow=False, ulps=4, rounds=True), "a ** b", zero_dim=False, tensors=False,
         chosen=(2, 3, 4)),
    _row("pow.float", "the exponent is rounded to the tensor's type; -2 is a quotient of a rounded"
         " square", _POW, FLOATS, Functor(power_of_number, narrow=False, ulps=4, rounds=True),
         "a ** b", zero_dim=False, tensors=False, chosen=(0.1, 1.7, -2.5, 0.5, -2, -1)),
    _row("atan2", _WIDE, cuda("BinaryGeometricKernels.cu", "atan2_kernel_cuda"), _FLOATING,
         Functor(_atan2, result="float", ulps=3), numbers=False),
    _row("hypot", _WIDE, cuda("BinaryGeometricKernels.cu", "hypot_kernel_cuda"), FLOATS,
         Functor(_hypot, ulps=3), numbers=False),
    _row("copysign", "the magnitude's bits with the other's sign",
         cuda("CopysignKernel.cu", "copysign_kernel_cuda"), _FLOATING,
         Functor(np.copysign, result="float")),
    _row("xlogy", "NaN where other is NaN, 0 where self is 0, otherwise self * log(other)",
         cuda(_MISC, "xlogy_kernel_cuda"), _FLOATING, Functor(_xlogy, result="float", ulps=3)),
    _row("special.xlog1py", "NaN where other is NaN, 0 where self is 0",
         cuda(_MISC, "xlog1py_kernel_cuda"), _FLOATING, Functor(_xlog1py, result="float", ulps=3),
         "torch.special.xlog1py(a, b)"),
    _row("heaviside", "other where self is 0, otherwise 0 or 1; NaN gives 0, in later releases NaN",
         cuda("StepKernel.cu", "heaviside_kernel_cuda"), ("bool", *REALS), Functor(_heaviside),
         numbers=False, zero_dim=False),
)  # fmt: skip
