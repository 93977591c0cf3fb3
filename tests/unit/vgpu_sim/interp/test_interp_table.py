"""Every opcode has semantics and a row."""

from vgpu_sim.exec import interp
from vgpu_sim.exec.interp.families import control, matrix, sync, warp
from vgpu_sim.isa import Op
from vgpu_sim.isa.table import TABLE


def test_every_opcode_has_semantics_and_a_row() -> None:
    gathers = {*warp.GATHERS, *matrix.GATHERS}
    assert {*interp.SEMANTICS, *control.ON_STACK, *sync.WAITS, *gathers} == set(Op)
    assert set(TABLE) == set(Op)
    assert list(TABLE) == sorted(TABLE)
    assert all(row.semantics.endswith(".") for row in TABLE.values())
