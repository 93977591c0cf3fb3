"""Creation and conversion: in which type steps are computed, and how numbers are converted."""

import itertools
from collections.abc import Callable, Iterator
from math import ceil

import numpy as np

from benchmarks.torch.rules.dtypes import (
    COMPLEXES,
    FLOATS,
    HALVES,
    INTS,
    REALS_AND_BOOL,
    Array,
    cast,
    is_float,
    opmath,
    special_values,
)
from benchmarks.torch.rules.exact import MOVED, results, special_array
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cite_page, cuda, native

_RANGES = cuda("RangeFactories.cu", "arange_cuda_out")
_LINSPACE = cuda("RangeFactories.cu", "linspace_cuda_out")
_FACTORY = "TensorFactories.cpp"
_FILL = cuda("FillKernel.cu", "fill_kernel_cuda")
_COPY = cuda("Copy.cu", "direct_copy_kernel_cuda; torch/include/c10/util/TypeCast.h: convert")
Number = float | int


def linspace(start: Number, end: Number, steps: int, dtype: str) -> tuple[Array, ...]:
    """Return linspace's elements, with the fused multiplication and addition that nvcc makes.

    Both ends are converted to the type first. The step is float32 for integers, and has the type
    itself for floats, of which half types round each operation. The second half counts from the
    end. PyTorch's report 181807 has what a GPU printed for integers: the fused numbers.
    """
    low, high = (cast(np.asarray(x), dtype).astype(opmath(dtype)) for x in (start, end))
    index = np.arange(steps)
    front = index < steps // 2
    distance = np.where(front, index, steps - index - 1)
    if dtype in INTS:
        single = (np.float32(high) - np.float32(low)) / np.float32(steps - 1)
        product = np.float64(single) * distance
        elements = np.where(front, np.float64(low) + product, np.float64(high) - product)
        return (cast(np.trunc(elements.astype("float32")), dtype),)
    step = _round(_round(high - low, dtype) / _round(np.asarray(steps - 1), dtype), dtype)
    if dtype in HALVES:
        product = _round(step * _round(distance, dtype), dtype)
        return (cast(np.where(front, low + product, high - product), dtype),)
    exact = step.astype("longdouble") * distance
    return (cast(np.where(front, low + exact, high - exact), dtype),)


def _round(values: Array, dtype: str) -> Array:
    return cast(np.asarray(values), dtype).astype(opmath(dtype))


def arange(start: Number, end: Number, step: Number, dtype: str) -> tuple[Array, ...]:
    """Return arange's elements: the count in float64, each element in opmath, fused or not."""
    count = ceil((end - start) / step)
    index = np.arange(count)
    if dtype in INTS:
        return (cast(int(start) + int(step) * index, dtype),)
    wide = opmath(dtype)
    first, distance = np.asarray(start).astype(wide), np.asarray(step).astype(wide)
    plain = first + distance * index.astype(wide)
    fused = first.astype("longdouble") + distance.astype("longdouble") * index
    return cast(plain, dtype), cast(cast(fused, wide), dtype)


def _ranges(row: Row, dtype: str) -> Iterator[Case]:
    chosen: tuple[tuple[Number, Number, Number], ...] = ((0, 7, 1), (5, -4, -2), (3, 3, 1))
    if is_float(dtype):
        chosen = (*chosen, (0.1, 3.3, 0.1), (-1, 1, 0.3), (0, 40, 0.7), (0.3, 100.25, 0.1))
    for start, end, step in chosen:
        if dtype == "uint8" and end < 0:
            continue
        call = f"torch.arange({start}, {end}, {step}, dtype=torch.{dtype}, device=DEVICE)"
        expected = Expected(dtype, arange(start, end, step, dtype))
        yield Case(call, (), (expected,), label=f"{dtype} {start} {end} {step}")


def _linspaces(row: Row, dtype: str) -> Iterator[Case]:
    chosen: tuple[tuple[Number, Number, int], ...] = (
        (0, 100, 8), (0, 10, 4), (5, 0, 7), (0, 1, 1), (0, 5, 0), (0, 120, 16), (0.0004, 0, 204),
        (3.7, 0, 10), (0.9, 100.9, 5),
    )  # fmt: skip
    if dtype not in ("uint8", "int8"):
        chosen = (*chosen, (-3.3, 7.7, 37), (-1, 1, 101), (0, 999, 8), (0, 4094, 64), (3.7, -3, 10))
    if dtype == "uint8":
        chosen = (*chosen, (0, 255, 64))
    if dtype == "int64":
        counts = itertools.product((98, 999, 1798, 4094), (3, 8, 16, 64, 100))
        chosen = (*chosen, *((0, end, steps) for end, steps in counts))
    for start, end, steps in chosen:
        call = f"torch.linspace({start}, {end}, {steps}, dtype=torch.{dtype}, device=DEVICE)"
        start_alone = cast(np.asarray([start] * steps), dtype)
        choices = linspace(start, end, steps, dtype) if steps > 1 else (start_alone,)
        label = f"{dtype} {start} {end} {steps}"
        yield Case(call, (), (Expected(dtype, choices),), label=label)


def _logspaces(row: Row, dtype: str) -> Iterator[Case]:
    """Yield powers of whole numbers, to which integer types convert both ends."""
    start, end = (0.9, 3.9) if dtype in INTS else (0, 3)
    powers = np.array([1, 8]) if dtype in INTS else np.array([1, 8.0])
    call = f"torch.logspace({start}, {end}, 2, base=2.0, dtype=torch.{dtype}, device=DEVICE)"
    yield Case(call, (), results(cast(powers, dtype), dtype), label=dtype)


def _complex_ends(row: Row, dtype: str) -> Iterator[Case]:
    for start, end, steps in ((0.0004, 0, 204), (-1, 1, 101), (-3.3, 7.7, 37), (5, 0, 7)):
        ends = results(np.array([start, end]).astype(dtype), dtype, zero_sign=False)
        call = f"torch.linspace({start}, {end}, {steps}, dtype=torch.{dtype}, device=DEVICE)"
        yield Case(f"{call}[[0, -1]]", (), ends, label=f"{dtype} {start} {end} {steps}")


def _made(
    call: str, function: Callable[[str, Array], Array], only_type: bool = False
) -> Callable[[Row, str], Iterator[Case]]:
    """Make a case of a factory, which may follow a tensor ``a`` of two rows and three columns."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_array(dtype, (2, 3))
        text = call.format(f"dtype=torch.{dtype}, device=DEVICE")
        operands = (
            (Operand(values, dtype),)
            if "a" in text.split("(")[0].split(".") or "(a" in text
            else ()
        )
        expected = results(np.asarray(function(dtype, values)), dtype)
        yield Case(text, operands, expected, label=dtype, only_type=only_type)

    return make


def _number(dtype: str) -> Array:
    return cast(np.asarray(1.7 if is_float(dtype) else 1), dtype)


def _constant(number: Number) -> Callable[[str, Array], Array]:
    return lambda dtype, values: np.full((2, 3), number)


def _filled(dtype: str, values: Array) -> Array:
    return np.full((2, 3), _number(dtype))


def _converted(target: str, call: str) -> Callable[[Row, str], Iterator[Case]]:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        if target in INTS and dtype in FLOATS:
            info = np.iinfo(target)
            with np.errstate(invalid="ignore"):
                wide = values.astype("float64")
                inside = (wide >= max(info.min, -(2**31))) & (wide <= min(info.max, 2**31 - 1))
            values = values[inside & np.isfinite(values)]
        expected = results(cast(values, target), target)
        yield Case(call, (Operand(values, dtype),), expected, label=dtype)

    return make


def _row(
    name: str,
    make: Callable[[Row, str], Iterator[Case]],
    rule: str,
    source: str,
    accepts: tuple[str, ...] = MOVED,
) -> Row:
    return Row(name, "creation", rule, source, accepts, make)


def _conversion(name: str, target: str, call: str = "") -> Row:
    rule = "float64 becomes a half type by way of float32; fractions are dropped; NaN is true"
    make = _converted(target, call or f"a.{name}()")
    return Row(name, "creation", rule, _COPY, REALS_AND_BOOL, make)


_VALUE = "the number is converted to the type"
_EMPTY = "type and shape only"

ROWS = (
    _row("arange", _ranges, "start + step * index in opmath; the count is computed in float64",
         _RANGES, (*INTS, *FLOATS)),
    _row("linspace", _linspaces, "both ends are converted first; the second half counts from the"
         " end, which the last element equals", _LINSPACE, (*INTS, *FLOATS)),
    _row("linspace.complex", _complex_ends, "the first and the last element are both ends", _LINSPACE,
         COMPLEXES),
    _row("logspace", _logspaces, "the base to the power of linspace's elements; integer types convert"
         " both ends first", cuda("RangeFactories.cu", "logspace_cuda_out"), (*INTS, *FLOATS)),
    _row("full", _made("torch.full((2, 3), 1, {0})", _constant(1)), _VALUE, native(_FACTORY, "full")),
    _row("full_like", _made("torch.full_like(a, 1.7 if a.is_floating_point() else 1)", _filled),
         _VALUE, native(_FACTORY, "full_like")),
    _row("new_full", _made("a.new_full((2, 3), 1)", _constant(1)), _VALUE,
         native(_FACTORY, "new_full")),
    _row("fill", _made("a.fill_(1.7 if a.is_floating_point() else 1)", _filled), _VALUE, _FILL),
    _row("ones", _made("torch.ones((2, 3), {0})", _constant(1)), _VALUE, native(_FACTORY, "ones")),
    _row("ones_like", _made("torch.ones_like(a)", _constant(1)), _VALUE,
         native(_FACTORY, "ones_like")),
    _row("new_ones", _made("a.new_ones((2, 3))", _constant(1)), _VALUE,
         native(_FACTORY, "new_ones")),
    _row("zeros", _made("torch.zeros((2, 3), {0})", _constant(0)), _VALUE, cite_page("zeros")),
    _row("zeros_like", _made("torch.zeros_like(a)", _constant(0)), _VALUE,
         cite_page("zeros_like")),
    _row("new_zeros", _made("a.new_zeros((2, 3))", _constant(0)), _VALUE,
         cite_page("Tensor.new_zeros")),
    _row("zero_", _made("a.zero_()", _constant(0)), _VALUE, cite_page("Tensor.zero_")),
    _row("eye", _made("torch.eye(2, 3, {0})", lambda dtype, a: np.eye(2, 3)), _VALUE,
         native(_FACTORY, "eye")),
    _row("empty", _made("torch.empty((2, 3), {0})", _constant(0), True), _EMPTY,
         native(_FACTORY, "empty_out")),
    _row("empty_like", _made("torch.empty_like(a)", _constant(0), True), _EMPTY,
         native(_FACTORY, "empty_like")),
    _row("new_empty", _made("a.new_empty((2, 3))", _constant(0), True), _EMPTY,
         native(_FACTORY, "new_empty_symint")),
    _conversion("half", "float16"),
    _conversion("bfloat16", "bfloat16"),
    _conversion("float", "float32"),
    _conversion("double", "float64"),
    _conversion("long", "int64"),
    _conversion("int", "int32"),
    _conversion("bool", "bool"),
    _conversion("to", "int16", "a.to(torch.int16)"),
)  # fmt: skip
