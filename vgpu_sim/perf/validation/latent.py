"""Latent attention: measurements of prompts and of single tokens."""

from vgpu_sim.perf.attention import Calls, Model, latent
from vgpu_sim.perf.attention.parameters import PARAMETERS
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.validation import measurements
from vgpu_sim.perf.validation.attention import work_of
from vgpu_sim.perf.validation.family import Family, Rows
from vgpu_sim.perf.validation.measurements import Table

_SHAPE = ("batch_size", "isl", "step", "num_heads")
_BOARDS = ("h100-80gb", "h200", "b200")
_FIT_ONE_OF = 10  # tables have 880 and 1448 rows: a fiftieth would be fewer than parameters


def _table(phase: str, key: str) -> Table:
    board, _, library = key.split("/")
    column_values = {"mla_dtype": "bfloat16", "kv_cache_dtype": "bfloat16"}
    table = measurements.read(board, "mla", f"{phase}_mla_perf", library, **column_values)
    table = table.without(measurements.find_repeated_rows(table, *_SHAPE))
    if phase == "context":  # one token is not a prompt: the library uses the other phase's kernel
        table = table.without(table.columns["isl"] == 1)
    return table


def _calls(generation: bool, table: Table) -> Calls:
    c = table.columns
    context = c["step"] + 1 if generation else c["isl"]
    return latent.calls(c["batch_size"], c["isl"], context, c["num_heads"], generation=generation)


def _rows(generation: bool, key: str, table: Table) -> Rows:
    board = board_named(key.split("/")[0])
    return Model(board, _calls(generation, table), generation=generation)


def _family(phase: str) -> Family:
    generation = phase == "generation"
    return Family(
        f"mla-{phase}",
        tuple(f"{board}/bf16/{latent.LIBRARY}" for board in _BOARDS),
        _SHAPE,
        PARAMETERS,
        lambda key: _table(phase, key),
        lambda key, table: _rows(generation, key, table),
        {},
        lambda key, table: work_of(key.split("/")[0], _calls(generation, table)),
        "second measurements of shapes that a table contains twice; prompts of one token",
        _FIT_ONE_OF,
        starts=3,
    )


CONTEXT, GENERATION = _family("context"), _family("generation")
