"""Rules for one instruction: which operands and modifiers its opcode defines."""

from collections.abc import Collection, Iterator
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
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import (
    MAXIMUM_VECTOR_BYTES,
    OpSpec,
    Role,
    compares_of,
    is_wide,
    roundings_of,
)
from vgpu_sim.isa.table import TABLE
from vgpu_sim.isa.types import BoolOp, DataType, MulMode, Space

_ADDRESS_32: Final = (Space.SHARED, Space.LOCAL)
_READ_ONLY: Final = (Space.GENERIC, Space.GLOBAL)
_NEVER_VOLATILE: Final = (Space.CONST, Space.PARAM)


def instruction_errors(
    instruction: Instruction, function: Function, variables: Collection[str]
) -> Iterator[str]:
    """Yield reasons why the instruction set does not define ``instruction`` there."""
    spec = TABLE[instruction.op]
    yield from _modifier_errors(instruction, spec)
    yield from _access_errors(instruction, spec, function)
    yield from _control_errors(instruction, function)
    yield from _operand_errors(instruction, spec, function, variables)


def source_roles(instruction: Instruction, spec: OpSpec) -> tuple[Role, ...]:
    """Return one role per source operand of this instruction."""
    if instruction.op is Op.SETP:
        return spec.srcs if instruction.combine is not BoolOp.NONE else spec.srcs[:2]
    if instruction.op is Op.LD and instruction.space is Space.PARAM:
        return ()
    if instruction.op is Op.ST:
        return (Role.ADDRESS,) + (Role.DATA,) * instruction.vector
    return spec.srcs


def destination_roles(instruction: Instruction, spec: OpSpec) -> tuple[Role, ...]:
    """Return one role per destination of this instruction."""
    return spec.dsts * instruction.vector if instruction.op is Op.LD else spec.dsts


def operand_bits(role: Role, instruction: Instruction) -> int:
    """Return how many bits an operand in that role has; 1 means that it is a predicate."""
    if role is Role.PREDICATE:
        return 1
    if role is Role.COUNT:
        return 32
    if role is Role.ADDRESS:
        return 32 if instruction.space in _ADDRESS_32 else 64
    if role is Role.SOURCE and instruction.source_type is not None:
        return instruction.source_type.bits
    if role is Role.RESULT and is_wide(instruction):
        return 2 * instruction.type.bits
    return instruction.type.bits


def _modifier_errors(instruction: Instruction, spec: OpSpec) -> Iterator[str]:
    name, type_ = spec.op.name, instruction.type
    if type_ not in (spec.types or (DataType.B32,)):
        yield f"{name} does not take type {type_.name}"
    source_type = instruction.source_type
    if (source_type is None) != (not spec.source_types):
        yield f"{name} {'needs a' if spec.source_types else 'has no'} source type"
    elif source_type is not None and source_type not in spec.source_types:
        yield f"{name} does not take source type {source_type.name}"
    mode = instruction.mode
    if mode not in (spec.modes or (MulMode.NONE,)):
        yield f"{name} does not take mode {mode.name}"
    elif mode is MulMode.WIDE and type_.bits == 64:
        yield f"{name}.WIDE takes 16 and 32 bits, not {type_.name}"
    if instruction.rounding not in roundings_of(spec, instruction):
        yield f"{name}.{type_.name} does not take rounding {instruction.rounding.name}"
    if instruction.ftz and not _may_flush(instruction, spec):
        yield f"{name}.{type_.name} does not take FTZ"
    if instruction.saturate and type_ not in spec.saturate:
        yield f"{name}.{type_.name} does not take SAT"
    yield from _compare_errors(instruction, spec)
    if (instruction.sreg is not None) != (spec.op is Op.S2R):
        yield f"{name} {'needs' if spec.op is Op.S2R else 'has no'} special register"


def _may_flush(instruction: Instruction, spec: OpSpec) -> bool:
    if spec.op is Op.CVT:
        return DataType.F32 in (instruction.type, instruction.source_type)
    return instruction.type in spec.ftz


def _compare_errors(instruction: Instruction, spec: OpSpec) -> Iterator[str]:
    compare = instruction.compare
    if (compare is not None) != (spec.op is Op.SETP):
        yield f"{spec.op.name} {'needs a' if spec.op is Op.SETP else 'has no'} comparison"
    elif compare is not None and compare not in compares_of(instruction.type):
        yield f"SETP.{instruction.type.name} does not take comparison {compare.name}"
    if instruction.combine is not BoolOp.NONE and spec.op is not Op.SETP:
        yield f"{spec.op.name} does not combine predicates"


def _access_errors(instruction: Instruction, spec: OpSpec, function: Function) -> Iterator[str]:
    name, space, vector = spec.op.name, instruction.space, instruction.vector
    if space not in (spec.spaces or (Space.GENERIC,)):
        yield f"{name} does not take space {space.name}"
    if vector not in ((1, 2, 4) if spec.spaces else (1,)):
        yield f"{name} does not take vectors of {vector}"
    if not spec.spaces:
        if instruction.displacement or instruction.volatile or instruction.read_only:
            yield f"{name} has no address"
        return
    if vector * instruction.type.bits > MAXIMUM_VECTOR_BYTES * 8:
        yield f"{vector} times {instruction.type.name} is more than {MAXIMUM_VECTOR_BYTES} bytes"
    if not -(1 << 31) <= instruction.displacement < 1 << 31:
        yield f"displacement {instruction.displacement} does not fit 32 bits"
    if instruction.volatile and space in _NEVER_VOLATILE:
        yield f"{name}.{space.name} cannot be VOLATILE"
    if instruction.read_only and (space not in _READ_ONLY or spec.op is not Op.LD):
        yield f"{name}.{space.name} cannot be READONLY"
    if space is Space.PARAM:
        end = instruction.displacement + vector * instruction.type.bytes
        if instruction.displacement < 0 or end > function.parameter_bytes:
            yield f"parameter bytes {instruction.displacement} to {end} do not exist"


def _control_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    name, target = instruction.op.name, instruction.target
    if instruction.op is Op.BRA:
        if target is None or not 0 <= target < len(function.code):
            yield f"target {target} is outside of {len(function.code)} words"
    elif target is not None or instruction.uniform:
        yield f"{name} is not a branch"
    guard = instruction.guard
    if guard is not None and not 0 <= guard.predicate.index < function.predicate_count:
        yield f"guard p{guard.predicate.index} does not exist"


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
        elif not (spec.op is Op.LD and instruction.vector > 1) and not (
            spec.op is Op.SETP and place == 1
        ):
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
            yield f"r{place.index} stands where a predicate is needed"
        elif not 0 <= place.index < function.predicate_count:
            yield f"p{place.index} does not exist"
    elif not isinstance(place, Register):
        yield f"p{place.index} stands where a register is needed"
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
