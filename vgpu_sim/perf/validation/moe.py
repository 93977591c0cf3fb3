"""Mixtures of experts: measurements of a library's fused kernels."""

import numpy as np

from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.dtypes import dtype_named
from vgpu_sim.perf.moe import Calls, Model
from vgpu_sim.perf.moe.parameters import PARAMETERS
from vgpu_sim.perf.moe.predict import operands_of
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.baselines import Work
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table

_SHAPE = (
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
)
_THEIRS = {"bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block"}
# Goals for mean errors, in percent: mechanism alone, and with the residual.
_GOALS = {"h100-80gb/bf16/vllm": (8.0, 4.8), "h200/bf16/vllm": (8.0, 4.8)}
_WITHOUT = (
    "a100-80gb/bf16/vllm",
    "b200/bf16/vllm",
    *(f"{board}/fp8/vllm" for board in ("h100-80gb", "h200", "b200")),
    *(f"{board}/fp8_block/vllm" for board in ("h100-80gb", "h200", "b200")),
)
# Experts without a gate: those of models with 22 experts per token, or of width 1856.
_PLAIN_TOPK, _PLAIN_WIDTH = 22, 1856


def _table(key: str) -> Table:
    board, dtype, library = key.split("/")
    every = measurements.read(board, "moe", "moe_perf", library, moe_dtype=_THEIRS[dtype])
    names, counts = np.unique(every.columns["kernel_source"].astype(str), return_counts=True)
    chosen_rows = every.without(every.columns["kernel_source"] != names[counts.argmax()])
    return chosen_rows.without(measurements.find_repeated_rows(chosen_rows, *_SHAPE))


def _calls(table: Table) -> Calls:
    c = table.columns
    return Calls(
        c["num_tokens"],
        c["hidden_size"],
        np.maximum(1, c["inter_size"] // c["moe_tp_size"]),
        c["topk"],
        c["num_experts"],
        c["moe_ep_size"],
        c["distribution"].astype(str),
        ~((c["topk"] == _PLAIN_TOPK) | (c["inter_size"] == _PLAIN_WIDTH)),
    )


def _rows(key: str, table: Table) -> Rows:
    board, dtype, _ = key.split("/")
    return Model(board_named(board), dtype_named(operands_of(dtype)), _calls(table))


def _work(key: str, table: Table) -> Work:
    """Return the work of calls: three (or two) products per pair of token and expert, and reading
    the weights of the experts in use.
    """
    board, name, _ = key.split("/")
    dtype, calls = dtype_named(operands_of(name)), _calls(table)
    tokens, hidden, inner, topk, experts, ranks = (
        np.asarray(getattr(calls, field), float)
        for field in ("tokens", "hidden", "inner", "topk", "experts", "ranks")
    )
    products = np.where(calls.gated, 3.0, 2.0)
    pairs = tokens * topk / ranks
    weights = products * hidden * inner * np.minimum(experts / ranks, pairs)
    moved = dtype.bytes * (weights + tokens * hidden) + 2 * tokens * hidden
    return Work.of(board_named(board), dtype.name, 2 * products * pairs * hidden * inner, moved)


FAMILY = Family(
    "moe",
    (*_GOALS, *_WITHOUT),
    _SHAPE,
    PARAMETERS,
    _table,
    _rows,
    {key: goal for key, (goal, _) in _GOALS.items()},
    _work,
    corrected_goals={key: goal for key, (_, goal) in _GOALS.items()},
    excluded="rows of another kernel than most of the table's, and second measurements of a shape",
)
