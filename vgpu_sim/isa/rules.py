"""Rules for the operands and modifiers that an instruction's opcode allows."""

import functools
from collections.abc import Callable, Collection, Iterator
from operator import attrgetter
from typing import Final

from vgpu_sim.isa.instruction import (
    Destination,
    Instruction,
    Literal,
    Operand,
    Predicate,
    Register,
    Symbol,
)
from vgpu_sim.isa.layout import DEFAULTS
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import BoolOp, DataType, MulMode, Space, Update

_ADDRESS_32: Final = (Space.SHARED, Space.LOCAL)
MATRICES: Final = (Role.LEFT, Role.RIGHT, Role.TOTALS)
_PREDICATES: Final = (Role.PREDICATE, Role.INVERSE, Role.CARRY, Role.COMBINED)


def instruction_errors(
    instruction: Instruction, function: Function, variables: Collection[str]
) -> Iterator[str]:
    """Yield the reasons why the instruction set does not allow ``instruction`` in the function."""
    spec = TABLE[instruction.op]
    yield from _modifier_errors(instruction, spec)
    yield from spec.check(instruction, function)
    guard = instruction.guard
    if guard is not None and not 0 <= guard.predicate.index < function.predicate_count:
        yield f"guard p{guard.predicate.index} does not exist"
    yield from _operand_errors(instruction, spec, function, variables)


def source_roles(instruction: Instruction, spec: OpSpec) -> tuple[Role, ...]:
    """Return one role per source operand of this instruction."""
    return _spread(spec.srcs, instruction)


def destination_roles(instruction: Instruction, spec: OpSpec) -> tuple[Role, ...]:
    """Return one role per destination of this instruction."""
    return _spread(spec.dsts, instruction)


def matrix_registers(instruction: Instruction) -> tuple[int, int, int]:
    """Return three numbers for a matrix product: how many registers of a lane hold A, how many hold
    B, and how many hold C (or D).
    """
    shape, factor = instruction.matrix, instruction.source_type
    if instruction.op is Op.MMA_SCALE:
        return 4 * instruction.vector, 2, 4  # sums of each block, and the words with scales
    if shape is None or factor is None:
        return 1, 1, 1
    bits = 4 if factor is DataType.E2M1 else factor.bits
    columns = max(1, shape.depth * bits // 128)  # four lanes have 32 bits each
    return shape.rows // 8 * columns, columns, shape.rows // 4


def operands_in(role: Role, instruction: Instruction) -> int:
    """Return how many operands one occurrence of ``role`` in the opcode's definition adds to this
    instruction.
    """
    if role is Role.DATA:
        return instruction.vector
    if role in MATRICES:
        return matrix_registers(instruction)[MATRICES.index(role)]
    if role is Role.WAY:
        return 2
    if role is Role.ADDRESS:
        return int(instruction.space is not Space.PARAM)
    if role is Role.SWAPPED:
        return instruction.vector * (instruction.update is Update.CAS)
    if role is Role.COMBINED:
        return int(instruction.combine is not BoolOp.NONE)
    return 1


def operand_bits(role: Role, instruction: Instruction) -> int:
    """Return the width in bits of an operand with this role; 1 means a predicate."""
    if role in _PREDICATES:
        return 1
    if role in (Role.COUNT, Role.WAY, *MATRICES):
        return 32
    if role is Role.ADDRESS:
        return 32 if instruction.space in _ADDRESS_32 else 64
    if role is Role.SOURCE and instruction.source_type is not None:
        return instruction.source_type.bits
    if role is Role.RESULT and instruction.mode is MulMode.WIDE:
        return 2 * instruction.type.bits
    return instruction.type.bits


def _spread(roles: tuple[Role, ...], instruction: Instruction) -> tuple[Role, ...]:
    if _always_one(roles):
        return roles
    return tuple(role for role in roles for _ in range(operands_in(role, instruction)))


@functools.cache
def _always_one(roles: tuple[Role, ...]) -> bool:
    """True if every role has exactly one operand, whatever the instruction."""
    several = {Role.DATA, Role.WAY, Role.ADDRESS, Role.SWAPPED, Role.COMBINED, *MATRICES}
    return not several & set(roles)


@functools.cache
def _not_had(op: Op) -> tuple[Callable[[Instruction], tuple[object, ...]], tuple[object, ...]]:
    """Return a getter for the fields that an opcode lacks, and the default values of these fields.

    An instruction with this opcode must have the default values.
    """
    fields = [field for field in DEFAULTS if not TABLE[op].has(field)]
    # Repeated, because with one name the getter would return a value and not a tuple.
    return attrgetter(*fields, *fields), tuple(DEFAULTS[field] for field in fields) * 2


def _modifier_errors(instruction: Instruction, spec: OpSpec) -> Iterator[str]:
    name, type_ = spec.op.name, instruction.type
    if type_ not in (spec.types or (DataType.B32,)):
        yield f"{name} does not take type {type_.name}"
    for modifier in spec.modifiers:
        error = modifier.error(instruction)
        if error is not None:
            yield error
    get, defaults = _not_had(spec.op)
    if get(instruction) == defaults:
        return
    for field, default in DEFAULTS.items():
        if getattr(instruction, field) != default and not spec.has(field):
            yield f"{name} has no {field.replace('_', ' ')}"


def _may_be_absent(role: Role, instruction: Instruction) -> bool:
    return role in (Role.INVERSE, Role.CARRY) or (role is Role.DATA and instruction.vector > 1)


def _operand_errors(
    instruction: Instruction, spec: OpSpec, function: Function, variables: Collection[str]
) -> Iterator[str]:
    roles = destination_roles(instruction, spec)
    yield from _destination_set_errors(instruction.dsts)
    if len(instruction.dsts) != len(roles):
        yield f"{spec.op.name}: number of destinations is {len(instruction.dsts)}, not {len(roles)}"
    for place, (role, destination) in enumerate(zip(roles, instruction.dsts, strict=False)):
        if destination is not None:
            yield from _place_errors(destination, operand_bits(role, instruction), function)
        elif not _may_be_absent(role, instruction):
            yield f"{spec.op.name} needs its destination {place + 1}"
    sources = source_roles(instruction, spec)
    if len(instruction.srcs) != len(sources):
        yield f"{spec.op.name}: number of sources is {len(instruction.srcs)}, not {len(sources)}"
    for role, source in zip(sources, instruction.srcs, strict=False):
        bits = operand_bits(role, instruction)
        if isinstance(source, Register | Predicate):
            yield from _place_errors(source, bits, function)
        else:
            yield from _constant_errors(source, bits, variables)


def _destination_set_errors(destinations: tuple[Destination, ...]) -> Iterator[str]:
    written = [destination for destination in destinations if destination is not None]
    if destinations and not written:
        yield "all destinations are absent"
    if len(set(written)) != len(written):
        yield "two destinations are the same register"


def _place_errors(place: Register | Predicate, bits: int, function: Function) -> Iterator[str]:
    if bits == 1:
        if not isinstance(place, Predicate):
            yield f"r{place.index} is used where a predicate is needed"
        elif not 0 <= place.index < function.predicate_count:
            yield f"p{place.index} does not exist"
    elif not isinstance(place, Register):
        yield f"p{place.index} is used where a register is needed"
    elif not 0 <= place.index < len(function.register_bits):
        yield f"r{place.index} does not exist"
    elif function.register_bits[place.index] < bits:
        has = function.register_bits[place.index]
        yield f"r{place.index} has {has} bits where {bits} are needed"


def _constant_errors(source: Operand, bits: int, variables: Collection[str]) -> Iterator[str]:
    if isinstance(source, Symbol):
        if bits != 64:
            yield f"the address of {source.name} needs 64 bits, not {bits}"
        if source.name not in variables:
            yield f"{source.name} is not a variable of the module"
        if not -(1 << 63) <= source.addend < 1 << 63:
            yield f"addend {source.addend} does not fit 64 bits"
    elif isinstance(source, Literal) and not 0 <= source.bits < (2 if bits == 1 else 1 << 64):
        yield f"literal {source.bits} is not {'0 or 1' if bits == 1 else 'a 64-bit pattern'}"
