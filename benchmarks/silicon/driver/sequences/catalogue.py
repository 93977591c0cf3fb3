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


def restore(here: Rig) -> bool:
    """Make the primary context the only one on the stack; return whether it works."""
    api = here.api
    for _ in range(8):
        if api.call("cuCtxPopCurrent_v2", 0)[0]:
            break
    if api.call("cuCtxSetCurrent", here.context)[0]:
        return False
    for stream in list(api.streams):
        api.call("cuStreamDestroy_v2", stream)
    return api.call("cuCtxSynchronize")[0] == 0


def ask(question: str) -> list[list[Any]]:
    """Return the rows of a sequence."""
    here = rig()
    here.api.take()
    table = next(one for one in tables() if question in one.found)
    try:
        table.run(question, here)
    except Exception as err:  # noqa: BLE001 - the tool's own mistake must not end the recording
        here.api.note("exception", type(err).__name__, str(err))
    rows = here.api.take()
    if not restore(here):
        raise ContextLost(rows)
    return rows
