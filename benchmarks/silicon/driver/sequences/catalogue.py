"""All sequences, and how one runs: in the primary context, which is checked afterwards."""

import importlib
from typing import Any, Final

from benchmarks.silicon.driver.context import Rig, rig
from benchmarks.silicon.driver.sequences.registry import Table
from benchmarks.silicon.driver.shards import ContextLost

SUBJECTS: Final = (
    "streams", "events", "captures", "graphs", "pointers", "contexts", "faults",
    "modules", "launches", "memory",
)  # fmt: skip


def tables() -> list[Table]:
    """Return the table of each subject."""
    package = "benchmarks.silicon.driver.sequences"
    return [importlib.import_module(f"{package}.{name}").TABLE for name in SUBJECTS]


def questions() -> list[str]:
    """Return the names of the sequences; those that lose the context are last."""
    return [name for table in tables() for name in table.found]


def restore(gpu_rig: Rig) -> bool:
    """Make the primary context the only one on the stack; return whether it works."""
    api = gpu_rig.api
    for _ in range(8):
        if api.call("cuCtxPopCurrent_v2", 0)[0]:
            break
    if api.call("cuCtxSetCurrent", gpu_rig.context)[0]:
        return False
    for stream in list(api.streams):
        api.call("cuStreamDestroy_v2", stream)
    return api.call("cuCtxSynchronize")[0] == 0


def ask(question: str) -> list[list[Any]]:
    """Return the rows of a sequence."""
    gpu_rig = rig()
    gpu_rig.api.take()
    table = next(candidate for candidate in tables() if question in candidate.found)
    try:
        table.run(question, gpu_rig)
    except Exception as err:  # noqa: BLE001 - the tool's own mistake must not end the recording
        gpu_rig.api.note("exception", type(err).__name__, str(err))
    rows = gpu_rig.api.take()
    if not restore(gpu_rig):
        raise ContextLost(rows)
    return rows
