"""A kernel's own container: it depends on every part of the code, and on nothing else."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from vgpu_sim.isa import (
    DataType,
    Function,
    Instruction,
    Literal,
    Module,
    Op,
    Parameter,
    Register,
    Space,
    Variable,
    container,
    extract,
)
from vgpu_sim.isa.module import PhysicalAllocation

MOVE = Instruction(Op.MOV, DataType.B32, dsts=(Register(0),), srcs=(Literal(7),))
KERNEL = Function(
    name="f",
    parameters=(Parameter("p", 0, 4, 4),),
    parameter_bytes=16,
    register_bits=(32, 64),
    predicate_count=2,
    code=(MOVE, Instruction(Op.RET)),
    lines=(3, 4),
    required_block=(32, 1, 1),
    maximum_block=(64, 1, 1),
    shared_bytes=128,
    local_bytes=16,
)
TABLE = Variable("table", Space.GLOBAL, 8, 16, 0, b"data")


def of(kernel: Function, *variables: Variable, named: bool = False) -> bytes:
    """Return a kernel's container, extracted from a module with another kernel before it."""
    other = replace(KERNEL, name="other", register_bits=(64,) * 3, code=KERNEL.code[1:], lines=(9,))
    module = Module((other, kernel), variables or (TABLE,))
    return extract.Kernels(container.encode(module)).container(kernel.name, named=named)


@pytest.mark.parametrize("named", [False, True])
def test_it_is_a_module_of_that_kernel_alone(named: bool) -> None:
    found = container.decode(of(KERNEL, named=named))
    expected = replace(KERNEL, parameters=())
    if not named:
        expected = replace(expected, name=extract.NAME, lines=(0, 0))
    assert found.functions == (expected,)
    assert found.variables == (replace(TABLE, initial=b""),)


@pytest.mark.parametrize(
    "changed",
    [
        {"parameter_bytes": 20},
        {"register_bits": (32, 32)},
        {"predicate_count": 3},
        {"code": (replace(MOVE, srcs=(Literal(8),)), KERNEL.code[1])},
        {"required_block": None},
        {"maximum_block": (64, 2, 1)},
        {"maximum_cluster": 4},
        {"shared_bytes": 129},
        {"local_bytes": 32},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_code_has_other_bytes(changed: Mapping[str, object]) -> None:
    assert of(replace(KERNEL, **changed)) != of(KERNEL)


@pytest.mark.parametrize("changed", [{"offset": 8}, {"size": 24}, {"space": Space.CONST}])
def test_a_variable_elsewhere_is_other_code(changed: Mapping[str, object]) -> None:
    assert of(KERNEL, replace(TABLE, **changed)) != of(KERNEL)


def test_names_lines_and_contents_are_no_part_of_the_code() -> None:
    same = replace(
        KERNEL,
        name="g",
        lines=(5, 6),
        parameters=(Parameter("q", 4, 8, 8),),
        physical=PhysicalAllocation((0, 1), 3, 4),
    )
    assert of(same, replace(TABLE, initial=b"other")) == of(KERNEL)
    with pytest.raises(KeyError):
        extract.Kernels(container.encode(Module((KERNEL,)))).container("g")
