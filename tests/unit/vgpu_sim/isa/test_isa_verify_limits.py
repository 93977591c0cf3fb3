"""Limits of functions, variables and modules: the last valid value, and the next one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD
from vgpu_sim.isa import Function, Instruction, Module, Op, Parameter, Space, Variable, verify
from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.module import Diagnostic, PhysicalAllocation, Refused, Relocation

U32 = 1 << 32
PLAIN = Function(
    name="f",
    parameters=(),
    parameter_bytes=16,
    register_bits=(32, 64),
    predicate_count=2,
    code=(Instruction(Op.RET),),
    lines=(0,),
)
Build = Callable[[int], Module]


def function(**fields: Callable[[int], object]) -> Build:
    """Return a builder of a module with one function, whose ``fields`` are computed from a
    number.
    """
    return lambda n: Module((replace(PLAIN, **{name: of(n) for name, of in fields.items()}),))


def parameter(offset: Callable[[int], int], size: Callable[[int], int], align: int = 1) -> Build:
    return function(parameters=lambda n: (Parameter("p", offset(n), size(n), align),))


def physical(**fields: Callable[[int], object]) -> Build:
    return function(
        physical=lambda n: PhysicalAllocation(**{name: of(n) for name, of in fields.items()})
    )


def variable(**fields: Callable[[int], object]) -> Build:
    plain = Variable("v", Space.GLOBAL, 8, 16, 0)
    return lambda n: Module(
        (PLAIN,), (replace(plain, **{name: of(n) for name, of in fields.items()}),)
    )


def relocation(**fields: Callable[[int], object]) -> Build:
    plain = Relocation(0, 8, "v")
    return variable(
        relocations=lambda n: (replace(plain, **{name: of(n) for name, of in fields.items()}),)
    )


def words(count: int) -> Module:
    one = replace(PLAIN, code=PLAIN.code * count, lines=(0,) * count)
    return Module((one,))


def image(room: int) -> Module:
    one = replace(PLAIN, parameter_image="v")
    return Module((one,), (Variable("v", Space.GLOBAL, 8, room, 0),))


def module_refusing(**fields: Callable[[int], object]) -> Build:
    def build(n: int) -> Module:
        reason = replace(Diagnostic(1, 1, "no"), **{name: of(n) for name, of in fields.items()})
        return Module((), refused=(Refused("r", (reason,)),))

    return build


def same(n: int) -> int:
    return n


def always(n: int) -> Callable[[int], int]:
    return lambda _: n


LIMITS: dict[str, tuple[Build, tuple[int, ...], tuple[int, ...]]] = {
    "lines": (function(lines=lambda n: (0,) * n), (1,), (0, 2)),
    "line": (function(lines=lambda n: (n,)), (0, U32 - 1), (-1, U32)),
    "parameter bytes": (function(parameter_bytes=same), (0, 32764), (-1, 32765)),
    "parameter's offset": (parameter(same, always(4)), (0, 12), (-1, 13)),
    "parameter's size": (parameter(always(0), same), (1, 16), (0, 17)),
    "alignment": (
        function(parameters=lambda n: (Parameter("p", 0, 4, n),)),
        (1, 2, 1 << 31),
        (0, 3, -1, U32),
    ),
    "maximum cluster": (function(maximum_cluster=same), (0, U32 - 1), (U32,)),
    "required block": (function(required_block=lambda n: (1, 1, n)), (1, U32 - 1), (0, U32)),
    "maximum block": (function(maximum_block=lambda n: (n, 1, 1)), (1, U32 - 1), (0, U32)),
    "shared bytes": (function(shared_bytes=same), (0, U32 - 1), (-1, U32)),
    "local bytes": (
        function(local_bytes=same),
        (0, MAX_LOCAL_BYTES_PER_THREAD),
        (-1, MAX_LOCAL_BYTES_PER_THREAD + 1),
    ),
    "registers": (function(register_bits=lambda n: (32,) * n), (0, 0x8000), (0x8001,)),
    "width": (function(register_bits=lambda n: (n,)), (16, 32, 64), (0, 8, 17, 63, 128)),
    "predicates": (function(predicate_count=same), (0, 0x7FFF), (-1, 0x8000)),
    "slots": (physical(slots=lambda n: (0,) * n), (0, 2), (1, 3)),
    "slot": (physical(slots=lambda n: (0, n)), (-1, (1 << 31) - 1), (-2, 1 << 31)),
    "peak registers": (physical(peak_registers=same), (0, U32 - 1), (-1, U32)),
    "spill bytes": (physical(spill_bytes=same), (0, U32 - 1), (-1, U32)),
    "space": (variable(space=Space), (Space.GLOBAL, Space.CONST), (0, 2, 3, 5)),
    "variable's alignment": (variable(align=same), (1, 1 << 31), (0, 3, U32)),
    "variable's size": (variable(size=same), (0, 1 << 40), (-1, (1 << 40) + 1)),
    "variable's offset": (variable(offset=same), (0, (1 << 40) - 16), (-1, (1 << 40) - 15)),
    "initial bytes": (variable(initial=bytes), (0, 16), (17,)),
    "address's offset": (relocation(offset=same), (0, 8), (-1, 9)),
    "address's size": (relocation(size=same, bits=always(8)), (1, 2, 4, 8), (0, 3, 16)),
    "shift": (relocation(shift=same), (0, 63), (-1, 64)),
    "bits": (relocation(size=always(4), bits=same), (1, 32), (0, 33)),
    "addend": (relocation(addend=same), (-(1 << 63), (1 << 63) - 1), (-(1 << 63) - 1, 1 << 63)),
    "address of": (relocation(name=lambda n: "vw"[n]), (0,), (1,)),
    "parameters' variable": (image, (16, 17), (15,)),
    "words": (words, (1, 2), (0,)),
    "capability": (lambda n: Module((), required_capability=(n, 0)), (0, 65535), (-1, 65536)),
    "version": (lambda n: Module((), ptx_version=(0, n)), (0, 65535), (-1, 65536)),
    "reasons": (
        lambda n: Module((), refused=(Refused("r", (Diagnostic(1, 1, "no"),) * n),)),
        (1, 256),
        (0, 257),
    ),
    "reason's line": (module_refusing(line=same), (0, U32 - 1), (-1, U32)),
    "reason's column": (module_refusing(column=same), (0, U32 - 1), (-1, U32)),
    "name": (
        lambda n: Module((replace(PLAIN, name="f" * n), replace(PLAIN, name="ff"))),
        (1, 3),
        (0, 2),
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_the_last_value_that_is_valid(limit: str) -> None:
    build, valid, invalid = LIMITS[limit]
    for value in valid:
        verify.check_module(build(value))
    for value in invalid:
        with pytest.raises(InvalidFunction):
            verify.check_module(build(value))


@pytest.mark.parametrize(
    ("limit", "build"),
    [
        ("MAXIMUM_WORDS", words),
        ("MAXIMUM_MODULE_WORDS", lambda n: Module(tuple(functions_called(n)))),
        ("MAXIMUM_FUNCTIONS", lambda n: Module(tuple(functions_called(n)))),
    ],
)
def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch, limit: str, build: Build) -> None:
    """Limits are lowered for the test: building a module at the real limits takes seconds."""
    monkeypatch.setattr(verify, limit, 3)
    verify.check_module(build(3))
    with pytest.raises(InvalidFunction, match=r"4 (words|functions)"):
        verify.check_module(build(4))


def functions_called(count: int) -> list[Function]:
    return [replace(PLAIN, name=f"f{i}") for i in range(count)]
