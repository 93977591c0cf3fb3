"""Types of ``out=``: what a result may be written into, and what is refused.

Element-wise operators write into any type to which the result's can be cast (canCast). Other
operators refuse every type but the result's own. A sum takes its type from ``out=``.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.torch.rules.dtypes import storage
from benchmarks.torch.rules.exact import small
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cuda, header, page

_CAST = header("c10/core/ScalarType.h", "canCast")
_EXACT = "torchgen/dest/register_dispatch_key.py: gen_resize_out_helper"
_UNARY = "aten/src/ATen/TensorIterator.cpp: TensorIteratorBase::build_unary_op"
_FROM_FLOAT = {"float64": True, "float16": True, "complex64": True, "int32": False, "bool": False}
_FROM_BOOL = {"uint8": True, "int32": True, "float32": True, "complex64": True}
_SHAPE = (4, 5)


def _target(dtype: str) -> str:
    return f"torch.empty(0, dtype=torch.{dtype}, device=DEVICE)"


def _case(call: str, accepted: tuple[tuple[str, tuple[int, ...]], ...]) -> Case:
    values = small("float32", _SHAPE)
    operands = tuple(
        Operand(values, "float32")
        for letter in "ab"
        if f"({letter}" in call or f", {letter}" in call
    )
    results = tuple(
        Expected(dtype, (np.zeros(shape, dtype=storage(dtype)),)) for dtype, shape in accepted
    )
    return Case(call, operands, results, refused=not accepted, label=call, only_type=True)


def _elementwise(name: str, arguments: str, types: dict[str, bool]) -> Row:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        for target, is_accepted in types.items():
            call = f"torch.{name}({arguments}, out={_target(target)})"
            yield _case(call, ((target, _SHAPE),) if is_accepted else ())

    rule = "any type to which the result's type can be cast; others are refused"
    return Row(f"{name}.out", "outs", rule, _CAST, ("float32",), make)


def _exact(
    name: str,
    arguments: str,
    result: str,
    shape: tuple[int, ...],
    source: str = _EXACT,
    also: str = "",
) -> Row:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        for target in dict.fromkeys((result, also or result, "float64", "int32", "float16")):
            call = f"torch.{name}({arguments}, out={_target(target)})"
            yield _case(call, ((target, shape),) if target in (result, also) else ())

    rule = f"the result's own type, {result}{also and ', or ' + also}; others are refused"
    return Row(f"{name}.out", "outs", rule, source, ("float32",), make)


def _pair(name: str, arguments: str, shape: tuple[int, ...]) -> Row:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        right = ("float32", "int64")
        for pair in (right, ("float64", "int64"), ("float32", "int32")):
            call = f"torch.{name}({arguments}, out=({_target(pair[0])}, {_target(pair[1])}))"
            yield _case(call, tuple((name, shape) for name in pair) if pair == right else ())

    rule = "values of the input's type and indices of int64; others are refused"
    return Row(f"{name}.out", "outs", rule, _EXACT, ("float32",), make)


def _converting(name: str, arguments: str, shape: tuple[int, ...], source: str) -> Row:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        for target in ("float32", "float64", "bfloat16"):
            call = f"torch.{name}({arguments}, out={_target(target)})"
            yield _case(call, ((target, shape),))

    rule = "any type to which the operands' common type can be cast"
    return Row(f"{name}.out", "outs", rule, source, ("float32",), make)


def _summed_as_integers(row: Row, dtype: str) -> Iterator[Case]:
    values = np.arange(12, dtype="float32").reshape(3, 4) + np.float32(0.6)
    expected = Expected("int32", (values.astype("int32").sum(1, dtype="int32"),))
    call = f"torch.sum(a, 1, out={_target('int32')})"
    yield Case(call, (Operand(values, "float32"),), (expected,), label=call)


def _both_extremes(row: Row, dtype: str) -> Iterator[Case]:
    for target in ("float32", "float64"):
        call = f"torch.aminmax(a, dim=1, out=({_target(target)}, {_target(target)}))"
        yield _case(call, ((target, (4,)),) * 2 if target == "float32" else ())


def _reduced(name: str, arguments: str, shape: tuple[int, ...]) -> Row:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        for target in ("float64", "float16", "int32", "int16"):
            call = f"torch.{name}({arguments}, out={_target(target)})"
            yield _case(call, ((target, shape),))

    source = (
        page(f"generated/torch.{name}.html")
        + " (dtype), and ReduceOpsUtils.h: get_dtype_from_result"
    )
    rule = "the type of out= is that of the result"
    return Row(f"{name}.out", "outs", rule, source, ("float32",), make)


ROWS = (
    *(_elementwise(name, "a, b", _FROM_FLOAT) for name in ["add", "sub", "mul", "div", "maximum", "fmod", "pow", "atan2"]),
    *(_elementwise(name, "a", _FROM_FLOAT) for name in ["exp", "sqrt", "sigmoid"]),
    *(_exact(name, "a", "float32", _SHAPE, _UNARY) for name in ["abs", "neg", "floor"]),
    *(_elementwise(name, "a, b", _FROM_BOOL) for name in ["eq", "lt", "ge"]),
    _exact("argmax", "a, 1", "int64", (4,)),
    _exact("amax", "a, 1", "float32", (4,)),
    _exact("mm", "a, a.T", "float32", (4, 4)),
    _exact("gather", "a, 1, torch.zeros(4, 5, dtype=torch.int64, device=DEVICE)", "float32", _SHAPE),
    _exact("index_select", "a, 0, torch.tensor([1, 2], device=DEVICE)", "float32", (2, 5)),
    _exact("searchsorted", "a[0].sort().values, a[1]", "int64", (5,)),
    _exact("nonzero", "torch.ones_like(a)", "int64", (20, 2)),
    _exact("bucketize", "a, a[0].sort().values", "int64", _SHAPE),
    _exact("masked_select", "a, a == a", "float32", (20,)),
    _exact("tril", "a", "float32", _SHAPE),
    _exact("linalg.inv", "torch.eye(3, device=DEVICE)", "float32", (3, 3)),
    _exact("any", "a, 1", "bool", (4,), also="uint8"),
    _exact("all", "a, 1", "bool", (4,), also="uint8"),
    _converting("cat", "(a, a)", (8, 5), cuda("Shape.cu", "cat_out_cuda")),
    Row("aminmax.out", "outs", "the input's type; others are refused", _EXACT, ("float32",),
        _both_extremes),
    Row("sum.out.int32", "outs", "elements are converted to out='s type before they are added",
        cuda("ReduceSumProdKernel.cu", "sum_kernel_cuda"), ("float32",), _summed_as_integers),
    _pair("max", "a, 1", (4,)),
    _pair("min", "a, 1", (4,)),
    _pair("sort", "a", _SHAPE),
    _pair("topk", "a, 2", (4, 2)),
    _pair("median", "a, 1", (4,)),
    _pair("kthvalue", "a, 2", (4,)),
    _pair("mode", "a, 1", (4,)),
    _pair("cummax", "a, 1", _SHAPE),
    _reduced("sum", "a, 1", (4,)),
    _reduced("cumsum", "a, 1", _SHAPE),
    _reduced("prod", "a, 1", (4,)),
)  # fmt: skip
