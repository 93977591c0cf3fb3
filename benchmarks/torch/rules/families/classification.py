"""Losses of classes and probabilities: what is rounded between their steps, and ignored classes."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import FLOATS, HALVES, Array, cast, opmath, special_values
from benchmarks.torch.rules.elementwise import Functor, expect
from benchmarks.torch.rules.exact import results, small, special_array
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cuda, native, op_info, page

Make = Callable[[Row, str], Iterator[Case]]
Rounding = Callable[[Array], Array]
_WIDE = ("float32", "float64")
_IGNORED = -100


def _log_softmax(values: Array) -> Array:
    shifted = values - values.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def _cross_entropies(row: Row, dtype: str) -> Iterator[Case]:
    scores, classes = small(dtype, (4, 5)), np.array([0, 3, _IGNORED, 4])
    logarithms = _log_softmax(scores.astype("longdouble"))
    losses = np.where(classes == _IGNORED, 0, -logarithms[np.arange(4), np.maximum(classes, 0)])
    operands = Operand(scores, dtype), Operand(classes, "int64")
    call = "F.cross_entropy(a, b, reduction='none')"
    yield Case(call, operands, (close(losses, dtype, 8),), label=dtype)
    equal = Operand(np.zeros_like(scores), dtype), Operand(classes[1:], "int64")
    mean = close(np.asarray(np.log(np.longdouble(5))), dtype, 8)
    call = "F.cross_entropy(a[1:], b)"
    yield Case(call, equal, (mean,), label=f"{dtype} mean")
    nothing = Operand(np.full(4, _IGNORED), "int64")
    nan = results(np.asarray(np.nan), dtype)
    yield Case("F.cross_entropy(a, b)", (operands[0], nothing), nan, label=f"{dtype} ignored")


def _likelihoods(row: Row, dtype: str) -> Iterator[Case]:
    values = special_array(dtype, (len(special_values(dtype)), 1)).repeat(2, axis=1)
    classes = np.arange(len(values)) % 2
    classes[3] = _IGNORED
    losses = np.where(classes == _IGNORED, 0, -values[:, 0])
    operands = Operand(values, dtype), Operand(classes, "int64")
    call = "F.nll_loss(a, b, reduction='none')"
    yield Case(call, operands, results(losses, dtype), label=dtype)
    chosen, weights = small(dtype, (4, 3)), cast(np.array([1.0, 2, 4]), dtype)
    few = np.array([2, 0, 1, _IGNORED])
    exact = chosen.astype("float64")
    total = -(4 * exact[0, 2] + exact[1, 0] + 2 * exact[2, 1])
    weighted = Operand(chosen, dtype), Operand(few, "int64"), Operand(weights, dtype)
    for reduction, number in (("mean", total / 7), ("sum", total)):
        call = f"F.nll_loss(a, b, c, reduction='{reduction}')"
        expected = results(cast(np.asarray(number), dtype), dtype, zero_sign=False)
        yield Case(call, weighted, expected, label=f"{dtype} {reduction}")
    nothing = Operand(np.full(4, _IGNORED), "int64")
    nan = results(np.asarray(np.nan), dtype)
    yield Case("F.nll_loss(a, b)", (weighted[0], nothing), nan, label=f"{dtype} ignored")


def _limited_logarithm(values: Array) -> Array:
    return np.asarray(np.maximum(np.log(values.astype("longdouble")), -100))


def _entropy(probability: Array, target: Array) -> Array:
    certain = (target - 1).astype("longdouble") * _limited_logarithm(1 - probability)
    return np.asarray(certain - target * _limited_logarithm(probability))


def _entropies(row: Row, dtype: str) -> Iterator[Case]:
    """Yield probabilities for which a product's rounding changes nothing: 0, 1/2 and 1."""
    ends = np.array([0.0, 0.5, 1.0])
    probability, target = np.repeat(ends, 3), np.tile(ends, 3)
    operands = Operand(cast(probability, dtype), dtype), Operand(cast(target, dtype), dtype)
    with np.errstate(all="ignore"):
        expected = close(_entropy(probability, target), dtype, 4)
    yield Case("F.binary_cross_entropy(a, b, reduction='none')", operands, (expected,), label=dtype)


def _entropy_of_score(rounded: Rounding, score: Array, target: Array) -> Array:
    wide = score.astype("longdouble")
    logarithm = np.minimum(wide, 0) - np.log1p(np.exp(-np.abs(wide)))
    logarithm = rounded(logarithm.astype(score.dtype)).astype("longdouble")
    return np.asarray(rounded(rounded(1 - target) * score) - logarithm)


def _entropies_of_scores(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    functor = Functor(
        _entropy_of_score,
        ulps=4,
        rounds=True,
        zero_sign=False,
        scale=lambda score, target: np.maximum(np.abs(score), 1),
    )
    for target in (0.0, 1.0, 0.5):
        targets = np.full(values.shape, target).astype(values.dtype)
        operands = Operand(values, dtype), Operand(targets, dtype)
        expected = (expect(functor, operands),)
        call = "F.binary_cross_entropy_with_logits(a, b, reduction='none')"
        yield Case(call, operands, expected, label=f"{dtype} target {target}")


def _alignments(row: Row, dtype: str) -> Iterator[Case]:
    """Yield two steps of two classes: three paths give one label, and none gives two of a kind."""
    logarithms = np.log(np.array([[[0.5, 0.5]], [[0.25, 0.75]]]))
    chosen = np.array([0.5 * 0.75 + 0.5 * 0.25 + 0.5 * 0.75])
    values = logarithms.astype("float32" if dtype in HALVES else dtype)
    if dtype in HALVES:
        values = cast(values, dtype)
    call = (
        "F.ctc_loss(a, b, torch.tensor([2], device=DEVICE), torch.tensor([{0}], device=DEVICE),"
        " reduction='none')"
    )
    one_label = Operand(values, dtype), Operand(np.array([[1]]), "int64")
    expected = close(-np.log(chosen.astype("longdouble")), dtype, 16)
    yield Case(call.format(1), one_label, (expected,), label=dtype)
    two_labels = Operand(values, dtype), Operand(np.array([[1, 1]]), "int64")
    infinite = results(np.array([np.inf]), opmath(dtype))
    yield Case(call.format(2), two_labels, infinite, label=f"{dtype} no path")


def _row(
    name: str,
    make: Make,
    rule: str,
    source: str,
    accepts: tuple[str, ...] = FLOATS,
    refuses: tuple[str, ...] = (),
) -> Row:
    name = f"nn.functional.{name}"
    return Row(name, "classification", rule, source, accepts, make, refuses=refuses)


ROWS = (
    _row("cross_entropy", _cross_entropies, "log_softmax, rounded, then nll_loss",
         page("generated/torch.nn.functional.cross_entropy.html")),
    _row("nll_loss", _likelihoods, "-weight * input; the mean is divided by the weights' sum in"
         " float32; an ignored class is 0, a mean of none NaN",
         cuda("Loss.cu", "nll_loss_forward_no_reduce_cuda_kernel, nll_loss_forward_reduce_cuda_kernel_2d")),
    _row("binary_cross_entropy", _entropies, "(y - 1) * log1p(-x) - y * log(x) in the tensor's type, logarithms"
         " at least -100", cuda("Loss.cu", "binary_cross_entropy_out_cuda")),
    _row("binary_cross_entropy_with_logits", _entropies_of_scores, "(1 - y) * x - logsigmoid(x), each"
         " step rounded to the tensor's type", native("Loss.cpp",
         "binary_cross_entropy_with_logits")),
    _row("ctc_loss", _alignments, "-log of the paths' sum, infinite without a path; 16-bit types are"
         " refused", op_info("nn.functional.ctc_loss",
         cuda("LossCTC.cu", "ctc_loss_log_alpha_gpu_kernel")), _WIDE, HALVES),
)  # fmt: skip
