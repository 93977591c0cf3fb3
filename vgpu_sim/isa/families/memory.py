"""Loads and stores."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import DST, A, Modifier, choice, flag, number
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import BYTES, FLOATS, INTEGERS, OpSpec, Role
from vgpu_sim.isa.types import Cache, Space

MAXIMUM_VECTOR_BYTES: Final = 16
MAXIMUM_GLOBAL_VECTOR_BYTES: Final = 32
_TYPES = (*BYTES, *INTEGERS, *FLOATS)
_LOADS = (Space.GENERIC, Space.GLOBAL, Space.SHARED, Space.LOCAL, Space.CONST, Space.PARAM)
_STORES = (Space.GENERIC, Space.GLOBAL, Space.SHARED, Space.LOCAL)
_READ_ONLY = (Space.GENERIC, Space.GLOBAL)
_CACHED = (Space.GENERIC, Space.GLOBAL)
_NEVER_VOLATILE = (Space.CONST, Space.PARAM)


def _space(spaces: tuple[Space, ...]) -> Modifier:
    return choice("space", Space, 24, 4, dict.fromkeys(spaces, _TYPES))


_VOLATILE = flag("volatile", "VOLATILE", 30)
_CACHE = choice("cache", Cache, 32, 3)
_VECTOR = Modifier("vector", 28, 2, {1: 0, 2: 1, 4: 2, 8: 3}, {2: "V2", 4: "V4", 8: "V8"})
_DISPLACEMENT = number("displacement", 96, 32, signed=True)


def _errors(instruction: Instruction, function: Function) -> Iterator[str]:
    name, space, vector = instruction.op.name, instruction.space, instruction.vector
    wide = space in (Space.GLOBAL, Space.GENERIC)
    limit_bytes = MAXIMUM_GLOBAL_VECTOR_BYTES if wide else MAXIMUM_VECTOR_BYTES
    if vector * instruction.type.bits > limit_bytes * 8:
        yield f"{vector} times {instruction.type.name} is more than {limit_bytes} bytes"
    if instruction.volatile and space in _NEVER_VOLATILE:
        yield f"{name}.{space.name} cannot be VOLATILE"
    if instruction.read_only and space not in _READ_ONLY:
        yield f"{name}.{space.name} cannot be READONLY"
    if instruction.cache is not Cache.CA and space not in _CACHED:
        yield f"{name}.{space.name} has no {instruction.cache.name}"
    if space is Space.PARAM:
        end = instruction.displacement + vector * instruction.type.bytes
        if instruction.displacement < 0 or end > function.parameter_bytes:
            yield f"parameter bytes {instruction.displacement} to {end} do not exist"


ROWS: Final = (
    OpSpec(
        Op.LD,
        "load",
        "d1 .. dn = the n values at a + displacement (modulo 2^64, in SHARED and LOCAL space"
        " modulo 2^32) and following. All are read before any register is written. In parameter"
        " space there is no a: the displacement is the offset in the parameter block. A destination"
        " of a vector may be absent (`_`). CG, CS, LU and CV are hints for caches of GLOBAL and"
        " GENERIC memory: no result depends on them.",
        "ld, ldu",
        _TYPES,
        (Role.DATA,),
        (Role.ADDRESS,),
        (
            _space(_LOADS),
            _VOLATILE,
            flag("read_only", "READONLY", 31),
            _CACHE,
            _VECTOR,
            _DISPLACEMENT,
        ),
        effects=Effects(reads=True),
        check=_errors,
    ),
    OpSpec(
        Op.ST,
        "store",
        "The n values b1 .. bn are stored at a + displacement (modulo as LD) and following. If"
        " several"
        " lanes store to one address, which value remains is not defined.",
        "st",
        _TYPES,
        (),
        (Role.ADDRESS, Role.DATA),
        (_space(_STORES), _VOLATILE, _VECTOR, _DISPLACEMENT),
        src_places=(A, DST),
        effects=Effects(writes=True),
        check=_errors,
    ),
)
