"""The load of an asynchronous copy, which may read fewer bytes than the copy writes."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import Modifier, choice
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType, Space

_TYPES = (DataType.B32,)
_SPACES = dict.fromkeys((Space.GENERIC, Space.GLOBAL), _TYPES)
_VECTOR = Modifier("vector", 28, 2, {1: 0, 2: 1, 4: 2}, {2: "V2", 4: "V4"})


def _errors(instruction: Instruction, function: Function) -> Iterator[str]:
    if any(destination is None for destination in instruction.dsts):
        yield "LD_ZFILL has no absent destinations"


ROWS: Final = (
    OpSpec(
        Op.LD_ZFILL,
        "load some bytes, and zeros",
        "d1 .. dn = the n values at a, whose bytes from the b-th on are replaced by zeros; b is"
        " unsigned. A value that begins at or after the b-th byte is not read: with b = 0, a may"
        " be any number.",
        "cp.async with a source size",
        _TYPES,
        (Role.DATA,),
        (Role.ADDRESS, Role.COUNT),
        (choice("space", Space, 24, 4, _SPACES), _VECTOR),
        effects=Effects(reads=True),
        check=_errors,
    ),
)
"""PTX ISA 9.7.10.28, "cp.async"."""
