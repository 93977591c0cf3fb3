"""From code offsets to instructions: the packed table, row by row, and the loads of each one."""

import pytest

from support.kernels import waiting_kernels
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.objects import instruction_table
from vgpu_sim.exec.jit.objects.instruction_table import InstructionTable
from vgpu_sim.isa import Op

_STORE = "st.global.u32 [%d2], %r9;"
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


def _form(body: str) -> ssa.SsaFunction:
    return ssa.build(waiting_kernels.kernel(body, 2).functions[0])


def _places(form: ssa.SsaFunction, op: Op) -> list[int]:
    nodes = [node for block in form.blocks.values() for node in block.nodes]
    found = [n for n in nodes if isinstance(n, ssa.Operation) and n.instruction.op is op]
    return [node.word for node in found]


def test_the_loads_of_an_instruction_are_found_behind_branches_and_predicates() -> None:
    form = _form(
        "ld.global.u32 %r8, [%d1]; setp.eq.u32 %p1, %r0, 0; @%p1 bra N; ld.global.u32 %r8, [%d1+4];"
        " N: setp.eq.u32 %p2, %r0, 1; @%p2 ld.global.u32 %r8, [%d1+8]; xor.b32 %r9, %r8, 7;"
        " st.global.u32 [%d2], %r9;"
    )
    (use,) = _places(form, Op.XOR)
    loads = [word for word in _places(form, Op.LD) if word > 2]
    assert instruction_table.loads_read(form)[use] == tuple(loads[-3:])


def test_a_value_of_many_branches_is_followed_once_however_often_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, unrolled attention with phis of hundreds of arguments took seconds."""
    ways, uses, read = 12, 15, []

    def reads_memory(instruction: object) -> bool:
        read.append(instruction)
        return original(instruction)  # type: ignore[arg-type]

    original = instruction_table.reads_memory
    monkeypatch.setattr(instruction_table, "reads_memory", reads_memory)
    branches = " ".join(
        f"ld.global.u32 %r8, [%d1+{4 * i}]; setp.eq.u32 %p1, %r0, {i}; @%p1 bra N;"
        for i in range(ways)
    )
    form = _form(f"{branches} N: " + f"xor.b32 %r9, %r8, %r9; {_STORE} " * uses)
    table = instruction_table.loads_read(form)
    assert all(len(table[use]) >= ways for use in _places(form, Op.XOR))
    assert ways <= len(read) <= 3 * (ways + uses) + len(_places(form, Op.LD))
