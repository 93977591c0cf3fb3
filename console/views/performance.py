"""Predictions for the performance pages: which operations, their fields with bounds, the answers.

Every size has a bound, and answers are kept, so that a viewer cannot make the console compute for
long: one answer takes at most a few tenths of a second. The performance model is imported with the
first answer, because it needs memory that other pages do not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from drawing.documents import Figure
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import PerfError

MOST_BOARDS: Final = 4
_KEPT: Final = 64  # answers
_MOST_TOKENS: Final = 1 << 20
_MOST_WIDTH: Final = 1 << 18
_MOST_BYTES: Final = 1 << 40
_MOST_DIGITS: Final = 15
_DTYPES: Final = ("bf16", "fp16", "tf32", "fp8", "int8", "nvfp4")
_MODELS: Final = (
    "llama-2-7b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-3-8b",
    "llama-3-70b",
    "llama-3-405b",
    "mixtral-8x7b",
    "mixtral-8x22b",
    "deepseek-v3",
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form: a whole number from ``least`` to ``most``, or one of ``choices``."""

    name: str
    label: str
    default: str
    most: int = 0
    choices: tuple[str, ...] = ()
    least: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The drawings for a question, or the problem with it."""

    title: str
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


Values = Mapping[str, Any]
_Ask = Callable[[tuple[str, ...], Values], Answer]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that can be predicted."""

    name: str
    title: str
    fields: tuple[Field, ...]
    ask: _Ask


class FormError(Exception):
    """A field of the form is invalid; the message names it."""


def read_values(operation: Operation, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of an operation's fields; absent ones have their defaults.

    Raises:
        FormError: a value is not a number within its bounds, or not one of the choices.
    """
    return {
        field.name: _read(field, form.get(field.name, field.default)) for field in operation.fields
    }


def read_boards(board_names: list[str]) -> tuple[str, ...]:
    """Return the chosen boards without repetition. Raises FormError."""
    names = tuple(dict.fromkeys(board_names)) or ("h100-80gb",)
    if len(names) > MOST_BOARDS:
        raise FormError(f"boards: at most {MOST_BOARDS} can be compared")
    for name in names:
        if name not in BOARDS:
            raise FormError(f"boards: {name[:40]} is unknown")
    return names


def answer(operation: str, boards: tuple[str, ...], values: Values) -> Answer:
    """Return the prediction of an operation on some boards; it may take some tenths of a second."""
    return _answer(operation, boards, tuple(sorted(values.items())))


@lru_cache(maxsize=_KEPT)
def _answer(operation: str, boards: tuple[str, ...], values: tuple[tuple[str, Any], ...]) -> Answer:
    chosen_operation = OPERATIONS[operation]
    try:
        return chosen_operation.ask(boards, dict(values))
    except PerfError as err:
        return Answer(chosen_operation.title, problem=str(err))


def _read(field: Field, text: str) -> Any:
    if field.choices:
        if text not in field.choices:
            raise FormError(f"{field.label}: {text[:40]!r} is not one of the choices")
        return text
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise FormError(f"{field.label}: {text[:40]!r} is not a whole number")
    number = int(text)
    if not field.least <= number <= field.most:
        raise FormError(f"{field.label}: {number} is not from {field.least} to {field.most}")
    return number


def _draw(title: str, predictions: list[Any]) -> Answer:
    from vgpu_sim.perf.pictures import figures_of

    notes = dict.fromkeys(
        f"{prediction.board.name}: {prediction.fitted.note}"
        for prediction in predictions
        if prediction.fitted.note
    )
    return Answer(title, tuple(figures_of(predictions, title)), tuple(notes))


def _gemm(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.gemm.predict import predict

    m, n, k = values["m"], values["n"], values["k"]
    title = f"C[{m}, {n}] = A[{m}, {k}] B[{k}, {n}], {values['dtype']}"
    return _draw(title, [predict(name, values["dtype"], m, n, k) for name in boards])


def _attention(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.attention.predict import predict

    query = values["query"] or values["context"]
    sizes: dict[str, Any] = {"batch": values["batch"], "query": query, "context": values["context"]}
    sizes |= {"heads": values["heads"], "kv_heads": values["kv_heads"] or values["heads"]}
    title = f"attention of {values['batch']} x {query} tokens on {values['context']}"
    predictions = [predict(name, **sizes, head_dim=128, window=0) for name in boards]
    return _draw(title, predictions)


def _moe(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.moe.predict import predict

    fields: dict[str, Any] = {
        name: values[name] for name in ("tokens", "hidden", "inner", "topk", "experts")
    }
    title = f"{values['topk']} of {values['experts']} experts for {values['tokens']} tokens"
    fields |= {"ranks": 1, "distribution": "power_law_1.01", "dtype": "bf16"}
    return _draw(title, [predict(name, **fields) for name in boards])


def _collective(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.collective.predict import predict

    op, gpus, size = values["op"], values["gpus"], values["bytes"]
    title = f"{op} of {size} bytes among {gpus} GPUs"
    return _draw(title, [predict(name, op, "bf16", gpus, size, None) for name in boards])


def _copy(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.stream.predict import copy

    size, direction = values["bytes"], values["direction"]
    title = f"copy of {size} bytes, {direction}"
    return _draw(title, [copy(name, direction, size) for name in boards])


def _elementwise(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.stream.predict import predict

    rows, columns = values["rows"], values["columns"]
    title = f"{rows} x {columns} elements, 2 bytes read and 2 written each"
    return _draw(title, [predict("elementwise", name, rows, columns, 2, 2) for name in boards])


def _model(boards: tuple[str, ...], values: Values) -> Answer:
    from vgpu_sim.perf.model_pictures import figures_of_models
    from vgpu_sim.perf.models import Serving, predict_serving

    sizes = (values["tp"], values["batch"], values["in"], values["out"])
    reports = [
        predict_serving(Serving(values["model"], name, *sizes), mechanistic=False)
        for name in boards
    ]
    title = f"{values['model']}, tp {sizes[0]}, {sizes[1]} sequences, {sizes[2]} in, {sizes[3]} out"
    notes = [
        f"{report.question.board}: TTFT {report.ttft_ms:.4g} ms, TPOT {report.tpot_ms:.4g} ms,"
        f" {report.tokens_per_s:.0f} tokens/s, {report.memory.total:.1f} GB a rank"
        for report in reports
    ]
    return Answer(title, tuple(figures_of_models(reports, [])), tuple(notes))


_DTYPE: Final = Field("dtype", "Type", "bf16", choices=_DTYPES)
_BATCH: Final = Field("batch", "Sequences", "16", 1 << 14)
_BYTES: Final = Field("bytes", "Bytes", "67108864", _MOST_BYTES)
_OPS: Final = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for operation in (
        Operation(
            "gemm",
            "Matrix product",
            (
                Field("m", "m (tokens)", "4096", _MOST_TOKENS),
                Field("n", "n (features)", "4096", _MOST_WIDTH),
                Field("k", "k", "4096", _MOST_WIDTH),
                _DTYPE,
            ),
            _gemm,
        ),
        Operation(
            "attention",
            "Attention",
            (
                _BATCH,
                Field("query", "New tokens (0: all)", "1", _MOST_TOKENS, least=0),
                Field("context", "Context", "4096", _MOST_TOKENS),
                Field("heads", "Heads", "32", 1024),
                Field("kv_heads", "Heads of keys (0: all)", "8", 1024, least=0),
            ),
            _attention,
        ),
        Operation(
            "moe",
            "Mixture of experts",
            (
                Field("tokens", "Tokens", "128", _MOST_TOKENS),
                Field("hidden", "Width", "4096", 1 << 15),
                Field("inner", "Expert's width", "1536", 1 << 15),
                Field("experts", "Experts", "128", 1024),
                Field("topk", "Experts a token", "8", 64),
            ),
            _moe,
        ),
        Operation(
            "collective",
            "Collective",
            (
                Field("op", "Operation", "all_reduce", choices=_OPS),
                Field("gpus", "GPUs", "8", 8, least=2),
                _BYTES,
            ),
            _collective,
        ),
        Operation(
            "copy",
            "Copy",
            (Field("direction", "Direction", "d2d", choices=("d2d", "h2d", "d2h")), _BYTES),
            _copy,
        ),
        Operation(
            "elementwise",
            "Element-wise kernel",
            (
                Field("rows", "Rows", "4096", _MOST_TOKENS),
                Field("columns", "Columns", "4096", _MOST_WIDTH),
            ),
            _elementwise,
        ),
        Operation(
            "model",
            "Whole model",
            (
                Field("model", "Model", "llama-2-70b", choices=_MODELS),
                Field("tp", "Tensor-parallel ranks", "4", 64),
                _BATCH,
                Field("in", "Prompt tokens", "1024", 1 << 17),
                Field("out", "Generated tokens", "256", 1 << 17),
            ),
            _model,
        ),
    )
}
