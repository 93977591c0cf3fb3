"""Each table of gpud and netd has a row that states its bound."""

from pathlib import Path

import pytest

from support.rigs.gpud_tables import FOLDERS, TABLES, tables_in
from vgpu_sim.gpud.contexts import shares
from vgpu_sim.gpud.contexts.launching import MAX_CONTEXTS_PER_SLICE
from vgpu_sim.gpud.faults.records import MAX_XIDS
from vgpu_sim.gpud.slices.admission import MAX_UNLISTED
from vgpu_sim.gpud.slices.replies import MAX_UNREAD
from vgpu_sim.gpud.slices.server import MAX_PENDING
from vgpu_sim.system import pacing

ROOT = Path(__file__).parents[4]


def test_each_table_has_a_row_and_each_row_a_table() -> None:
    """A new table needs a bound, and a walk that does not grow with what one tenant has."""
    tables = set().union(*(tables_in(ROOT / folder) for folder in FOLDERS))
    rows = [row.name for row in TABLES]
    assert sorted(rows) == sorted(tables)


@pytest.mark.parametrize("text", ["dict[int, str] = {}", "list[int] | None = None"])
def test_a_table_without_a_row_is_detected(tmp_path: Path, text: str) -> None:
    code = f"class New:\n    def __init__(self) -> None:\n        self._rows: {text}\n"
    (tmp_path / "new.py").write_text(code)
    assert tables_in(tmp_path) == {"new.New._rows"}
    (tmp_path / "new.py").write_text("class New:\n    x = deque()\n    y: int = 1\n")
    assert tables_in(tmp_path) == {"new.New.x"}


def test_the_bounds_of_the_rows_are_those_of_the_code() -> None:
    assert MAX_CONTEXTS_PER_SLICE == MAX_PENDING == 2 * MAX_UNREAD == 2 * MAX_UNLISTED == 64
    assert (shares.MOST_ENTRIES, shares.LEAST_ENTRIES, shares.MOST_NAMES) == (16384, 64, 64)
    assert shares.MOST_KEYS == shares.MOST_HOLDS == 4096
    assert (pacing.STEPS_AT_ONCE, MAX_XIDS) == (32, 64)
