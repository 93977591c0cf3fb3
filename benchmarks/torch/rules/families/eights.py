"""Floats of 8 bits: every code of each format, converted both ways, compared, moved and multiplied."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, INTS, Array, cast, special_values
from benchmarks.torch.rules.eight_bits import EIGHTS
from benchmarks.torch.rules.exact import results
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cuda, header

Make = Callable[[Row, str], Iterator[Case]]
_FORMATS = "torch/headeronly/util/"
_TYPES = header(_FORMATS + "Float8_e4m3fn.h", "fp8e4m3fn_from_fp32_value, and its siblings")
_COPY = cuda("Copy.cu", "float8_copy_kernel_cuda")
_TO = "by way of float32, to nearest, ties to even; "
_BEYOND = {
    "float8_e4m3fn": "infinity and what is too large become 448",
    "float8_e5m2": "what is too large becomes infinity",
    "float8_e4m3fnuz": "infinity and what is too large become NaN, -0 becomes 0",
    "float8_e5m2fnuz": "infinity and what is too large become NaN, -0 becomes 0",
    "float8_e8m0fnu": "the nearest power of two of the absolute value; infinity becomes NaN",
}
_FROM = ("float64", "float32", "float16", "bfloat16", "bool", "int32", "int64", "uint8")
_BELOW = 2.0**31  # integers are compared for numbers that all conversions hold


def _all_numbers(dtype: str) -> Array:
    """Return all numbers of 16-bit and 8-bit types, and of wider types those of a 16-bit type."""
    if dtype in EIGHTS or dtype == "bool":
        return special_values(dtype)
    if dtype in INTS:
        return np.array([0, 1, 3, 100], dtype=dtype)
    bits = np.arange(2**16, dtype="uint32")
    if dtype in ("bfloat16", "float32"):
        return (bits << 16).view("float32")
    return bits.astype("uint16").view("float16").astype(dtype)


def _to_eight(target: str) -> Make:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = _all_numbers(dtype)
        expected = results(cast(values, target), target)
        yield Case(f"a.to(torch.{target})", (Operand(values, dtype),), expected, label=dtype)

    return make


def _from_eight(target: str) -> Make:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        converted = values
        if target in INTS:
            values = values[np.isfinite(values) & (np.abs(values) < _BELOW)]
            converted = values.astype("int64")
        expected = results(cast(converted, target), target)
        yield Case(f"a.to(torch.{target})", (Operand(values, dtype),), expected, label=dtype)

    return make


def _of_pairs(call: str, function: Callable[[Array, Array], Array], result: str = "") -> Make:
    """Make a case of all numbers, and the same in reverse order."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        turned = np.flip(values).copy()
        operands = Operand(values, dtype), Operand(turned, dtype)
        expected = results(function(values, turned), result or dtype)
        yield Case(call, operands[: 1 + ("b" in call)], expected, label=dtype)

    return make


def _different_from_number(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    expected = results(values != cast(np.asarray(1.7), dtype), "bool")
    yield Case("a != 1.7", (Operand(values, dtype),), expected, label=dtype)


def _chosen(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    turned = np.flip(values).copy()
    with np.errstate(invalid="ignore"):
        mask = values > 1
    operands = Operand(mask, "bool"), Operand(values, dtype), Operand(turned, dtype)
    expected = results(np.where(mask, values, turned), dtype)
    yield Case("torch.where(a, b, c)", operands, expected, label=dtype)


def _indexed(row: Row, dtype: str) -> Iterator[Case]:
    values, places = special_values(dtype), np.array([3, 1, 2])
    operands = Operand(values, dtype), Operand(places, "int64")
    yield Case("a[b]", operands, results(values[places], dtype), label=dtype)


def _written(row: Row, dtype: str) -> Iterator[Case]:
    values, places = special_values(dtype), np.array([3, 1, 2])
    source = np.flip(values)[:3].copy()
    operands = Operand(values, dtype), Operand(source, dtype), Operand(places, "int64")
    written = values.copy()
    written[places] = source
    yield Case("a.index_put_((c,), b)", operands, results(written, dtype), label=dtype)


def _scaled_products(row: Row, dtype: str) -> Iterator[Case]:
    """Yield products of small whole numbers, of which every sum is exact, with their scales."""
    first = (np.arange(32 * 64).reshape(32, 64) % 5 - 2).astype("float32")
    second = (np.arange(48 * 64).reshape(48, 64) % 7 - 3).astype("float32")
    of_rows, of_columns = np.full((32, 1), 0.5), np.full((1, 48), 4.0)
    of_rows[3], of_columns[0, 5] = 2.0, 0.25
    scales: tuple[tuple[Array, Array], ...] = (
        (np.asarray(2.0), np.asarray(0.5)),
        (of_rows, of_columns),
    )
    exact = first.astype("float64") @ second.T
    for of_first, of_second in scales:
        for bias in ("", ", bias=e"):
            operands = [
                Operand(first, dtype),
                Operand(second, dtype),
                Operand(of_first.astype("float32"), "float32"),
                Operand(of_second.astype("float32"), "float32"),
            ]
            if bias:
                operands.append(Operand(np.ones(48, dtype="float32"), "bfloat16"))
            product = cast(exact * of_first * of_second + (1 if bias else 0), "bfloat16")
            yield Case(
                f"torch._scaled_mm(a, b.t(), scale_a=c, scale_b=d{bias}, out_dtype=torch.bfloat16)",
                tuple(operands),
                results(product, "bfloat16", zero_sign=False),
                label=f"{dtype} scales {of_first.shape}{bias}",
            )


def _row(name: str, make: Make, rule: str, source: str, accepts: Sequence[str] = EIGHTS) -> Row:
    return Row(name, "eights", rule, source, tuple(accepts), make)


_BITS = "elements are unchanged, in all bits"
_EQUALITY = cuda("CompareEQKernel.cu", "compare_eq_ne_kernel")
_SOURCES = ("bool", "uint8", "int64", *FLOATS, *EIGHTS)

ROWS = (
    *(_row(f"to.{name}", _to_eight(name), _TO + _BEYOND[name], _TYPES, _SOURCES) for name in EIGHTS),
    *(_row(f"to.{name}", _from_eight(name), "by way of float32", _COPY) for name in _FROM),
    _row("eq.float8", _of_pairs("torch.eq(a, b)", lambda a, b: a == b, "bool"),
         "of the numbers", _EQUALITY),
    _row("ne.float8", _different_from_number, "a number is rounded to the type first", _EQUALITY),
    _row("isnan.float8", _of_pairs("torch.isnan(a)", lambda a, b: np.isnan(a), "bool"),
         "self != self", _EQUALITY),
    _row("where.float8", _chosen, _BITS, cuda("TensorCompare.cu", "where_kernel_impl")),
    _row("index.float8", _indexed, _BITS, cuda("IndexKernel.cu", "index_kernel_impl")),
    _row("index_put.float8", _written, _BITS, cuda("IndexKernel.cu", "index_put_kernel_impl"),
         [name for name in EIGHTS if name != "float8_e8m0fnu"]),
    _row("cat.float8", _of_pairs("torch.cat((a, b))", lambda a, b: np.concatenate((a, b))), _BITS,
         cuda("Shape.cu", "cat_out_cuda")),
    _row("_scaled_mm", _scaled_products, "the sum in float32 times both scales, plus the bias,"
         " rounded once", cuda("ScaledBlas.cpp", "_scaled_mm_cuda"), ("float8_e4m3fn",)),
)  # fmt: skip
