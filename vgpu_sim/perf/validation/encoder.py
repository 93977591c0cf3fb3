"""Attention of encoders: measurements of a vision tower's kernels, which are not causal."""

import numpy as np

from vgpu_sim.perf.attention import Calls, Model
from vgpu_sim.perf.attention.parameters import PARAMETERS
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.attention import work_of
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table

_SHAPE = ("batch_size", "isl", "num_heads", "head_dim")
_BOARDS = ("h100-80gb", "h200", "b200")


def _table(key: str) -> Table:
    board, _, library = key.split("/")
    column_values = {"attn_dtype": "bfloat16"}
    table = measurements.read(
        board, "encoder_attention", "encoder_attention_perf", library, **column_values
    )
    return table.without(measurements.find_repeated_rows(table, *_SHAPE))


def _calls(table: Table) -> Calls:
    c = table.columns
    unit_column = np.ones(len(table), int)
    return Calls(
        c["batch_size"],
        c["isl"],
        c["isl"],
        heads=c["num_heads"],
        kv_heads=c["num_heads"],
        head_dim=c["head_dim"],
        window=0 * unit_column,
        kv_bytes=2 * unit_column,
        causal=False,
    )


def _rows(key: str, table: Table) -> Rows:
    return Model(board_named(key.split("/")[0]), _calls(table), generation=False)


FAMILY = Family(
    "attention-encoder",
    tuple(f"{board}/bf16/vllm" for board in _BOARDS),
    _SHAPE,
    PARAMETERS,
    _table,
    _rows,
    {},
    lambda key, table: work_of(key.split("/")[0], _calls(table)),
    "second measurements of shapes that a table contains twice",
)
