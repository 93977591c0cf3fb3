"""Further operators that programs use most: sums of exponentials, closeness, random types, pooling."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import FLOATS, INTS, REALS, Array, cast, special_values
from benchmarks.torch.rules.elementwise import Functor, binary, unary
from benchmarks.torch.rules.exact import make_small, results, small, special_array
from benchmarks.torch.rules.row import Case, Expected, Kind, Operand, Row
from benchmarks.torch.rules.sources import cite_page, cuda, native, page

Make = Callable[[Row, str], Iterator[Case]]


def _log_add(first: Array, second: Array) -> Array:
    difference = -np.abs((first - second).astype("longdouble"))
    added = np.maximum(first, second) + np.log1p(np.exp(difference))
    return np.where(np.isinf(first) & (first == second), first, added)


def _log_add2(first: Array, second: Array) -> Array:
    difference = -np.abs((first - second).astype("longdouble"))
    added = np.maximum(first, second) + np.log1p(np.exp2(difference)) / np.log(np.longdouble(2))
    return np.where(np.isinf(first) & (first == second), first, added)


def _sign(values: Array) -> Array:
    signs = (values > 0).astype("int8") - (values < 0).astype("int8")
    return np.asarray(signs.astype(values.dtype))


def _alike(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    operands = (Operand(values, dtype), Operand(values.copy(), dtype))
    equal_mask = values == values
    everywhere = np.ones(values.shape, dtype=bool)
    if row.name == "allclose":
        yield Case(
            "torch.allclose(a, b, equal_nan=True)", operands, results(np.asarray(True), "bool")
        )
        yield Case("torch.allclose(a, b)", operands, results(np.asarray(equal_mask.all()), "bool"))
        return
    yield Case("torch.isclose(a, b)", operands, results(equal_mask, "bool"), label=dtype)
    call = "torch.isclose(a, b, equal_nan=True)"
    yield Case(call, operands, results(everywhere, "bool"), label=f"{dtype} NaN")


def _is_in(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    members = values[1::3].copy()
    is_member = (values[:, None] == members[None]).any(1)
    operands = (Operand(values, dtype), Operand(members, dtype))
    yield Case("torch.isin(a, b)", operands, results(is_member, "bool"), label=dtype)
    if dtype in FLOATS:
        expected = results(values == cast(np.asarray(1.7), dtype), "bool")
        yield Case("torch.isin(a, 1.7)", operands[:1], expected, label=f"{dtype} 1.7")
        kinds: tuple[Kind, ...] = ("tensor", "cpu")
        for kind in kinds:
            member = Operand(np.asarray(1.7), "float64", kind)
            label = f"{dtype} 0-dim float64 {kind}"
            yield Case("torch.isin(a, b)", (operands[0], member), expected, label=label)


def _log_sum(values: Array) -> Array:
    largest = values.max(-1, keepdims=True)
    return np.asarray((largest + np.log(np.exp(values - largest).sum(-1, keepdims=True)))[..., 0])


def _along(call: str, function: Callable[[Array], Array], ulps: float) -> Make:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = small(dtype, (3, 7))
        exact = function(values.astype("longdouble"))
        yield Case(call, (Operand(values, dtype),), (close(exact, dtype, ulps),), label=dtype)

    return make


def _fixed(call: str, function: Callable[[Array], Array]) -> Make:
    """Make a case of special values whose random choice has one outcome."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_array(dtype, (4, 8))
        yield Case(call, (Operand(values, dtype),), results(function(values), dtype), label=dtype)

    return make


def _typed(call: str, shape: Sequence[int] = (3, 4)) -> Make:
    """Make a case of random numbers, of which type and shape are compared."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        text = call.format(f"dtype=torch.{dtype}, device=DEVICE")
        operands = (Operand(small(dtype, shape), dtype),) if "(a" in text or text[0] == "a" else ()
        expected = (Expected(dtype, (cast(np.zeros(tuple(shape)), dtype),)),)
        yield Case(text, operands, expected, label=dtype, only_type=True)

    return make


def _float_power(row: Row, dtype: str) -> Iterator[Case]:
    values = small(dtype, (3, 4))
    expected = results(values.astype("float64") ** 2, "float64")
    yield Case("torch.float_power(a, 2)", (Operand(values, dtype),), expected, label=dtype)


def _windows(values: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(values, (2, 2), axis=(2, 3))[:, :, ::2, ::2]


def _convolved(images: Array, weights: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(images, weights.shape[2:], axis=(2, 3))
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, weights))


def _convolved_line(lines: Array, weights: Array) -> Array:
    return _convolved(lines[:, :, None], weights[:, :, None])[:, :, 0]


def _divergence(row: Row, dtype: str) -> Iterator[Case]:
    target = np.array([0.0, 0.5, 1.0, 0.25], dtype="float64")
    values = np.array([-1.0, -2.0, 0.0, 0.5], dtype="float64")
    with np.errstate(all="ignore"):
        exact = np.where(
            target > 0, target * (cast(np.log(target), dtype).astype("float64") - values), 0
        )
    operands = (Operand(cast(values, dtype), dtype), Operand(cast(target, dtype), dtype))
    wide = close(exact, dtype, 16 if dtype in ("float32", "float64") else 2**16)
    yield Case("F.kl_div(a, b, reduction='none')", operands, (wide,), label=dtype)


def _row(name: str, make: Make, rule: str, source: str, accepts: tuple[str, ...] = FLOATS) -> Row:
    return Row(name, "further", rule, source, accepts, make)


_LOG_ADD = cuda("LogAddExpKernel.cu", "logaddexp_kernel_cuda, logaddexp2_kernel_cuda")
_RANDOM = "type and shape only: numbers depend on the generator"
_EXACT = "sums of whole numbers are exact in float32 and rounded once"
_POOL = "each window's mean, or its largest element"
_PURE = ("float32", "float64")

ROWS = (
    _row("logaddexp", binary(Functor(_log_add, ulps=4, scale=lambda a, b: np.maximum(np.maximum(np.abs(a), np.abs(b)), 1)),
         "torch.logaddexp(a, b)", numbers=False, zero_dim=False),
         "max + log1p(exp(-|a - b|)) in opmath; equal infinities stay", _LOG_ADD),
    _row("logaddexp2", binary(Functor(_log_add2, ulps=4, scale=lambda a, b: np.maximum(np.maximum(np.abs(a), np.abs(b)), 1)),
         "torch.logaddexp2(a, b)", numbers=False, zero_dim=False),
         "max + log1p(exp2(-|a - b|)) / ln 2 in opmath; equal infinities stay", _LOG_ADD),
    _row("sgn", unary(Functor(_sign), "torch.sgn(a)"), "of real numbers as sign",
         cuda("UnarySignKernels.cu", "sign_kernel_cuda"), REALS),
    _row("isclose", _alike, "equal numbers and infinities are close, NaN with equal_nan alone",
         native("TensorCompare.cpp", "isclose"), (*FLOATS, *INTS)),
    _row("allclose", _alike, "isclose everywhere", native("TensorCompare.cpp", "allclose"),
         (*FLOATS, *INTS)),
    _row("isin", _is_in, "by ==, to which a number is rounded: NaN is in no list",
         cite_page("isin"), ("float16", "bfloat16", "float32", *INTS)),
    _row("logsumexp", _along("torch.logsumexp(a, -1)", _log_sum, 8), "in float32, rounded once",
         cite_page("logsumexp")),
    _row("float_power", _float_power, "in float64", cite_page("float_power"), REALS),
    _row("resize_", _fixed("a.clone().resize_(2, 3)", lambda a: a.ravel()[:6].reshape(2, 3)),
         "elements keep their places in memory", cite_page("Tensor.resize_"), REALS),
    _row("nn.functional.dropout", _fixed("F.dropout(a, 0.0)", lambda a: a),
         "with p = 0 elements are unchanged", page("generated/torch.nn.functional.dropout.html")),
    _row("bernoulli", _fixed("torch.bernoulli(torch.ones_like(a))", lambda a: np.ones_like(a)),
         "a probability of 1 gives 1", cite_page("bernoulli")),
    _row("rand_like", _typed("torch.rand_like(a)"), _RANDOM, cite_page("rand_like")),
    _row("randn", _typed("torch.randn((3, 4), {0})"), _RANDOM, cite_page("randn")),
    _row("randn_like", _typed("torch.randn_like(a)"), _RANDOM, cite_page("randn_like")),
    _row("randint", _typed("torch.randint(0, 5, (3, 4), {0})"), _RANDOM, cite_page("randint"),
         (*INTS, *FLOATS)),
    _row("uniform", _typed("a.uniform_()"), _RANDOM, cite_page("Tensor.uniform_")),
    _row("normal", _typed("a.normal_()"), _RANDOM, cite_page("Tensor.normal_")),
    _row("nn.functional.conv2d", make_small("F.conv2d(a, b)", _convolved, ((1, 2, 5, 6), (3, 2, 2, 3)), specials=True),
         _EXACT, page("generated/torch.nn.functional.conv2d.html")),
    _row("nn.functional.conv1d", make_small("F.conv1d(a, b)", _convolved_line, ((2, 2, 7), (3, 2, 3)), specials=True),
         _EXACT, page("generated/torch.nn.functional.conv1d.html")),
    _row("nn.functional.avg_pool2d", make_small("F.avg_pool2d(a, 2)",
         lambda a: _windows(a).mean((-1, -2)), ((1, 2, 4, 6),), specials=True), _POOL,
         page("generated/torch.nn.functional.avg_pool2d.html")),
    _row("nn.functional.max_pool2d", make_small("F.max_pool2d(a, 2)",
         lambda a: _windows(a).max((-1, -2)), ((1, 2, 4, 6),), specials=True), _POOL,
         page("generated/torch.nn.functional.max_pool2d.html")),
    _row("nn.functional.max_pool1d", make_small("F.max_pool1d(a, 2)",
         lambda a: a.reshape(2, 3, 2).max(-1)[None], ((1, 2, 6),), specials=True), _POOL,
         page("generated/torch.nn.functional.max_pool1d.html")),
    _row("nn.functional.adaptive_avg_pool2d", make_small("F.adaptive_avg_pool2d(a, (2, 3))",
         lambda a: _windows(a).mean((-1, -2)), ((1, 2, 4, 6),), specials=True), _POOL,
         page("generated/torch.nn.functional.adaptive_avg_pool2d.html")),
    _row("linalg.norm", make_small("torch.linalg.norm(a, 1, 1)", lambda a: np.abs(a).sum(1), ((4, 5),)),
         _EXACT, cuda("ReduceNormKernel.cu", "norm_launch_kernel")),
    _row("dist", make_small("torch.dist(a, b, 1)", lambda a, b: np.asarray(np.abs(a - b).sum()),
         ((4, 5), (4, 5))), _EXACT, cite_page("dist")),
    _row("nn.functional.kl_div", _divergence, "target * (log(target) - input), 0 where target is 0",
         native("Loss.cpp", "_kl_div_non_log_target"), _PURE),
)  # fmt: skip
