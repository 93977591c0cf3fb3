"""Attention: measurements of prompts (context) and of single tokens (generation)."""

import numpy as np

from vgpu_sim.perf.attention import Calls, Model
from vgpu_sim.perf.attention.parameters import PARAMETERS
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.baselines import Work
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table

_SHAPE = (
    "batch_size",
    "isl",
    "step",
    "num_heads",
    "num_key_value_heads",
    "head_dim",
    "window_size",
)
_BOARDS = ("a100-80gb", "h100-80gb", "h200", "b200", "l40s")
_RULE = (
    "rows of another kernel than the one of most rows in the table; prompts of one token, "
    "which use the other phase's kernel"
)


def _table(phase: str, key: str) -> Table:
    board, kv, library = key.split("/")
    theirs = {"bf16": "bfloat16", "fp8": "fp8"}[kv]
    every = measurements.read(
        board,
        "attention",
        f"{phase}_attention_perf",
        library,
        attn_dtype="bfloat16",
        kv_cache_dtype=theirs,
    )
    if "window_size" not in every.columns:  # tables of older collectors have no window
        columns = every.columns | {"window_size": np.zeros(len(every), np.int64)}
        every = Table(columns, every.version, every.excluded)
    if phase == "context":
        every = every.without(every.columns["isl"] == 1)
    names, counts = np.unique(every.columns["kernel_source"].astype(str), return_counts=True)
    return every.without(every.columns["kernel_source"] != names[counts.argmax()])


def calls_of(table: Table, generation: bool) -> Calls:
    """Return the calls of attention that a table's rows measure. If ``generation`` is set, each
    call processes one new token per sequence, and its context is the column ``step`` plus 1.
    """
    c = table.columns
    element = np.where(c["kv_cache_dtype"] == "fp8", 1, 2)
    context = c["step"] + 1 if generation else c["isl"]
    return Calls(
        c["batch_size"],
        c["isl"],
        context,
        heads=c["num_heads"],
        kv_heads=c["num_key_value_heads"],
        head_dim=c["head_dim"],
        window=c["window_size"],
        kv_bytes=element,
    )


def _rows(generation: bool, key: str, table: Table) -> Rows:
    board = board_named(key.split("/")[0])
    return Model(board, calls_of(table, generation), generation=generation)


def work_of(board: str, calls: Calls) -> Work:
    """Return the work of calls as input for the roofline baseline. The work consists of two
    products for each pair of query and key, and one pass over the cache.
    """
    batch, query, context, heads, kv_heads, dim, window, element = (
        np.asarray(getattr(calls, name), float)
        for name in (
            "batch",
            "query",
            "context",
            "heads",
            "kv_heads",
            "head_dim",
            "window",
            "kv_bytes",
        )
    )
    visible_keys = np.where(window > 0, np.minimum(window, context), context)
    pairs = query * visible_keys * np.where(calls.causal & (query > 1), 0.5, 1.0)
    cache = batch * visible_keys * kv_heads * calls.cached[:, 0] * element
    moved = cache + 4 * batch * query * heads * dim
    return Work.of(board_named(board), "bf16", 4 * batch * heads * dim * pairs, moved)


def _family(phase: str, goals: dict[str, float], corrected: dict[str, float]) -> Family:
    generation = phase == "generation"
    return Family(
        f"attention-{phase}",
        tuple(f"{board}/bf16/vllm" for board in _BOARDS),
        _SHAPE,
        PARAMETERS,
        lambda key: _table(phase, key),
        lambda key, table: _rows(generation, key, table),
        {f"{board}/bf16/vllm": goal for board, goal in goals.items()},
        lambda key, table: work_of(key.split("/")[0], calls_of(table, generation)),
        _RULE,
        corrected_goals={f"{board}/bf16/vllm": goal for board, goal in corrected.items()},
    )


CONTEXT = _family(
    "context",
    {"h100-80gb": 7.0, "h200": 7.0, "b200": 9.0},
    {"h100-80gb": 4.5, "h200": 4.5, "b200": 6.0},
)
GENERATION = _family(
    "generation",
    {"h100-80gb": 6.5, "h200": 6.5, "b200": 6.5},
    {"h100-80gb": 2.8, "h200": 2.8, "b200": 4.0},
)
