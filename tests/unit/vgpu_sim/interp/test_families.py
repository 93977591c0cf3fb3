"""A family has one module of the same name in four packages, and each opcode is in one module."""

import importlib
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.exec import interp
from vgpu_sim.exec.interp.families import control, matrix, sync, warp
from vgpu_sim.exec.jit.families import LOWERING
from vgpu_sim.isa import Family, Op
from vgpu_sim.isa.table import TABLE

_WITHOUT_FORM = {
    Op.S2R,  # mov and cvt of a special register become S2R
    Op.LOCAL_WINDOW,  # from cvta and isspacep
    Op.MMA_SCALE,  # follows MMA in products with block scales
    Op.PABS,  # abs of packed integers, which PTX lacks
}


def _jit_ops(module: ModuleType) -> Iterable[Op]:
    others = (getattr(module, name, ()) for name in ("GRAPH", "REFUSED"))
    return [*module.LOWERING, *chain.from_iterable(others)]


def _interpreted_ops(module: ModuleType) -> Iterable[Op]:
    """Yield the opcodes of a module: those that change lanes or a warp's stack, or at which lanes
    wait.
    """
    tables = (getattr(module, name, ()) for name in ("SEMANTICS", "ON_STACK", "WAITS", "GATHERS"))
    return chain.from_iterable(tables)


_FOLDERS: dict[str, Callable[[ModuleType], Iterable[Op]]] = {
    "vgpu_sim.isa.families": lambda module: [row.op for row in module.ROWS],
    "vgpu_sim.compiler.lower.families": lambda module: [form.op for form in module.FORMS],
    "vgpu_sim.exec.interp.families": _interpreted_ops,
    "vgpu_sim.exec.jit.families": _jit_ops,
}


@pytest.mark.parametrize("folder", [name for name in _FOLDERS if name.endswith(".families")])
def test_a_package_has_the_families_and_nothing_else(folder: str) -> None:
    places = importlib.import_module(folder).__path__
    modules = {path.stem for place in places for path in Path(place).glob("*.py")}
    assert modules - {"__init__"} == {family.name.lower() for family in Family}


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("folder", _FOLDERS)
def test_a_family_serves_its_own_opcodes(folder: str, family: Family) -> None:
    module = importlib.import_module(f"{folder}.{family.name.lower()}")
    served = list(_FOLDERS[folder](module))
    missing = {op for op in Op if op.family is family} - set(served)
    if "lower" in folder:  # an opcode has as many rows there as PTX has forms
        assert family in {op.family for op in served}  # and a form may be lowered to other opcodes
        assert missing <= _WITHOUT_FORM
    else:
        assert {op.family for op in served} == {family}
        assert not missing
        assert len(set(served)) == len(served)


def test_the_unions_cover_all_opcodes() -> None:
    modules = [
        importlib.import_module(f"vgpu_sim.exec.jit.families.{family.name.lower()}")
        for family in Family
    ]
    met = {*sync.WAITS, *warp.GATHERS, *matrix.GATHERS}
    assert set(TABLE) == {*interp.SEMANTICS, *control.ON_STACK, *met} == set(Op)
    assert {form.op for form in FORMS} == set(Op) - _WITHOUT_FORM
    assert set(LOWERING) == {op for module in modules for op in module.LOWERING}
