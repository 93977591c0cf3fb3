"""Every opcode has semantics and a row, each family in its own file."""

import importlib

import pytest

from vgpu_sim.exec import interp
from vgpu_sim.isa import Family, Op
from vgpu_sim.isa.table import TABLE


def test_every_opcode_has_semantics_and_a_row() -> None:
    assert set(interp.SEMANTICS) == set(Op)
    assert set(TABLE) == set(Op)
    assert list(TABLE) == sorted(TABLE)
    assert all(row.semantics.endswith(".") for row in TABLE.values())


@pytest.mark.parametrize("family", Family)
def test_a_family_is_a_file(family: Family) -> None:
    module = importlib.import_module(f"vgpu_sim.exec.interp.{family.name.lower()}")
    assert set(module.SEMANTICS) == {op for op in Op if op.family is family}
