"""Collectives: measurements of NCCL among the GPUs of one node."""

import numpy as np

from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.collective import Calls, Model
from vgpu_sim.perf.collective.parameters import PARAMETERS, WITHOUT_NVLINK
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.baselines import Work
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table

_SHAPE = ("op_name", "nccl_dtype", "num_gpus", "message_size")
_GOALS = {"a100-80gb": None, "h100-80gb": 5.0, "h200": 5.0, "b200": 7.0, "l40s": None}
_KEYS = tuple(f"{board}/{which}/nccl" for which in ("all_reduce", "all") for board in _GOALS)
_FIT_ONE_OF = 5  # a table has 504 rows: a fiftieth would be ten


def _table(key: str) -> Table:
    board, kind, library = key.split("/")
    table = measurements.read(board, "comm", "nccl_perf", library)
    if kind != "all":
        table = table.rows(table.columns["op_name"] == kind)
    return table.without(measurements.find_repeated_rows(table, *_SHAPE))


def _rows(key: str, table: Table) -> Rows:
    c = table.columns
    element = np.where(c["nccl_dtype"] == "half", 2, 1)
    calls = Calls(c["op_name"], c["num_gpus"], c["message_size"] * element, element)
    return Model(board_named(key.split("/")[0]), calls)


def _work(key: str, table: Table) -> Work:
    """Return the work of collectives: the time that each GPU's sent bytes take on its links. There
    is no arithmetic.
    """
    c = table.columns
    gpus, element = c["num_gpus"].astype(float), np.where(c["nccl_dtype"] == "half", 2, 1)
    twice = np.where(c["op_name"] == "all_reduce", 2, 1)
    sent = twice * (gpus - 1) / gpus * c["message_size"] * element
    rate = board_named(key.split("/")[0]).link_gb_per_s.value * 1e3
    return Work(np.zeros(len(table)), sent / rate)


FAMILY = Family(
    "collective",
    _KEYS,
    _SHAPE,
    PARAMETERS,
    _table,
    _rows,
    {f"{board}/all_reduce/nccl": goal for board, goal in _GOALS.items() if goal},
    _work,
    "second measurements of shapes that a table contains twice",
    _FIT_ONE_OF,
    starts=6,
    others={key: WITHOUT_NVLINK for key in _KEYS if not board_named(key.split("/")[0]).has_nvlink},
)
