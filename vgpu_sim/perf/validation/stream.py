"""Streams: measurements of a kernel that reads bf16, scales and writes fp8, one CTA per row."""

import numpy as np

from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.stream import Calls, Model
from vgpu_sim.perf.stream.parameters import PARAMETERS
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.baselines import Work
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table

_BOARDS = ("h100-80gb", "h200", "b200", "l40s")
_FIT_ONE_OF = 20  # a table has 1628 rows: a fiftieth would be 33


def _table(key: str) -> Table:
    board, _, library = key.split("/")
    return measurements.read(board, "quantize", "scale_matrix_perf", library, quant_dtype="fp8")


def _rows(key: str, table: Table) -> Rows:
    c, unit_column = table.columns, np.ones(len(table))
    return Model(
        board_named(key.split("/")[0]), Calls(c["m"], c["k"], 2 * unit_column, unit_column)
    )


def _work(key: str, table: Table) -> Work:
    elements = table.columns["m"].astype(float) * table.columns["k"]
    return Work.of(board_named(key.split("/")[0]), "bf16", 0 * elements, 3 * elements)


FAMILY = Family(
    "stream",
    tuple(f"{board}/elementwise/vllm" for board in _BOARDS),
    ("m", "k"),
    PARAMETERS,
    _table,
    _rows,
    {},
    _work,
    fit_one_of=_FIT_ONE_OF,
    starts=4,
)
