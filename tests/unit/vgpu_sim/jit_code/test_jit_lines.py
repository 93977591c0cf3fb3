"""From code offsets to instructions: the packed table, row by row."""

import pytest

from vgpu_sim.exec.jit.objects.instruction_table import InstructionTable

# Offsets 0 and 4 have no row of their own; line n is instruction n - 1, line 0 is none.
_TABLE = InstructionTable(
    InstructionTable.pack([(8, 3), (12, 3), (20, 0), (28, 5)], {2: (0, 1), 4: (3,)})
)


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (0, ()),
        (7, ()),
        (8, (2, 0, 1)),
        (12, (2, 0, 1)),
        (19, (2, 0, 1)),
        (20, ()),
        (27, ()),
        (28, (4, 3)),
        (1 << 20, (4, 3)),
    ],
)
def test_instructions_at_an_offset(offset: int, words: tuple[int, ...]) -> None:
    assert _TABLE.instructions_at(offset) == words


def test_an_instruction_without_loads_is_alone() -> None:
    table = InstructionTable(InstructionTable.pack([(0, 1), (4, 2)], {0: (5, 6)}))
    assert table.instructions_at(0) == (0, 5, 6)
    assert table.instructions_at(4) == (1,)


def test_an_empty_table_finds_nothing() -> None:
    assert InstructionTable(InstructionTable.pack([], {})).instructions_at(0) == ()
