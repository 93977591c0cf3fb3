"""Hypothesis strategies for valid instructions, functions and modules of every opcode.

They are derived from the tables of the instruction set, so that a new opcode is covered as soon
as it has its row. The programs are valid but not meaningful: they test encoders and printers.
"""

import dataclasses

from hypothesis import strategies as st

from support.kernels import instruction_forms
from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD, STACK_BYTES_PER_THREAD
from vgpu_sim.isa import (
    Diagnostic,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Parameter,
    PhysicalAllocation,
    Predicate,
    Refused,
    Register,
    Relocation,
    Space,
    Symbol,
    Variable,
)
from vgpu_sim.isa.rules import destination_roles, operand_bits, source_roles
from vgpu_sim.isa.table import TABLE

# r0-r5: 16 bits, r6-r11: 32, r12-r17: 64, so that any operand and any vector finds its registers.
REGISTER_BITS = (16,) * 6 + (32,) * 6 + (64,) * 6
PREDICATES = 4
PARAMETER_BYTES = 64
VARIABLES = ("table", "odd name.1", "p0")

_u32 = st.integers(0, 2**32 - 1)
_u64 = st.integers(0, 2**64 - 1)
_i32 = st.integers(-(2**31), 2**31 - 1)
_i64 = st.integers(-(2**63), 2**63 - 1)
_names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
_predicates = st.integers(0, PREDICATES - 1).map(Predicate)
_guards = st.none() | st.builds(Guard, _predicates, st.booleans())


def _registers(bits: int) -> st.SearchStrategy[Register]:
    first = next(i for i, has in enumerate(REGISTER_BITS) if has >= bits)
    return st.integers(first, len(REGISTER_BITS) - 1).map(Register)


def _source(bits: int) -> st.SearchStrategy:
    if bits == 1:
        return _predicates | st.integers(0, 1).map(Literal)
    plain = _registers(bits) | _u64.map(Literal) | st.integers(0, 40).map(Literal)
    if bits == 64:
        return plain | st.builds(Symbol, st.sampled_from(VARIABLES), st.just(0) | _i64)
    return plain


@st.composite
def instructions(draw: st.DrawFn, op: Op, words: int) -> Instruction:
    """Draw a valid instruction of an opcode, in a function of ``words`` instructions."""
    form = draw(st.sampled_from(instruction_forms.forms(op)))
    fields: dict[str, object] = {"guard": draw(_guards)}
    if TABLE[op].has("target"):
        fields["target"] = draw(st.integers(0, words - 1))
    if TABLE[op].has("displacement"):
        limit = PARAMETER_BYTES - form.vector * form.type.bytes
        inside = st.integers(0, limit)
        fields["displacement"] = draw(inside if form.space is Space.PARAM else _i32)
    return draw(_with_operands(dataclasses.replace(form, **fields)))


@st.composite
def _with_operands(draw: st.DrawFn, bare: Instruction) -> Instruction:
    spec = TABLE[bare.op]
    roles = destination_roles(bare, spec)
    dsts: list[Register | Predicate | None] = []
    for place, role in enumerate(roles):
        bits = operand_bits(role, bare)
        choices = _predicates if bits == 1 else _registers(bits)
        if place > 0:
            choices = choices.filter(lambda choice: choice not in dsts)
            if bare.op not in (Op.LD_ZFILL, Op.MMA, Op.MMA_SCALE):  # these have no sinks
                choices = st.none() | choices
        dsts.append(draw(choices))
    srcs = [draw(_source(operand_bits(role, bare))) for role in source_roles(bare, spec)]
    return dataclasses.replace(bare, dsts=tuple(dsts), srcs=tuple(srcs))


@st.composite
def functions(draw: st.DrawFn, name: str | None = None) -> Function:
    """Draw a function of up to a dozen random instructions and a RET."""
    ops = draw(st.lists(st.sampled_from(Op), max_size=12))
    words = len(ops) + 1
    code = [draw(instructions(op, words)) for op in ops]
    code.append(Instruction(Op.RET))
    block = st.none() | st.tuples(*[st.integers(1, 1024)] * 3)
    slots = st.lists(
        st.integers(-1, 2**31 - 1), min_size=len(REGISTER_BITS), max_size=len(REGISTER_BITS)
    )
    physical = st.builds(PhysicalAllocation, st.just(()) | slots.map(tuple), _u32, _u32)
    return Function(
        name=name if name is not None else draw(_names),
        parameters=tuple(draw(st.lists(_parameters, max_size=3))),
        parameter_bytes=PARAMETER_BYTES,
        register_bits=REGISTER_BITS,
        predicate_count=PREDICATES,
        code=tuple(code),
        lines=tuple(draw(st.lists(_u32, min_size=words, max_size=words))),
        required_block=draw(block),
        maximum_block=draw(block),
        maximum_cluster=draw(_u32),
        shared_bytes=draw(_u32),
        local_bytes=draw(st.integers(0, MAX_LOCAL_BYTES_PER_THREAD - STACK_BYTES_PER_THREAD)),
        physical=draw(physical),
    )


_parameters = st.builds(
    Parameter,
    name=_names,
    offset=st.integers(0, 32),
    size=st.integers(1, 32),
    align=st.integers(0, 31).map(lambda power: 1 << power),
    pointer_space=st.none() | st.sampled_from(Space),
)


def _relocations(size: int) -> st.SearchStrategy[tuple[Relocation, ...]]:
    """Return a strategy for up to two addresses in a variable of ``size`` bytes."""
    sizes = [width for width in (1, 2, 4, 8) if width <= size]
    if not sizes:
        return st.just(())
    one = st.sampled_from(sizes).flatmap(
        lambda width: st.builds(
            Relocation,
            st.integers(0, size - width),
            st.just(width),
            st.sampled_from(VARIABLES),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(0, 63),
            st.integers(1, 8 * width),
        )
    )
    return st.lists(one, max_size=2).map(tuple)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Draw a module with up to three functions, and three variables to which they refer."""
    taken = set(VARIABLES)
    names = draw(st.lists(_names.filter(lambda n: n not in taken), unique=True, max_size=3))
    variables = []
    for name in VARIABLES:
        size = draw(st.integers(0, 40))
        variables.append(
            Variable(
                name,
                draw(st.sampled_from((Space.GLOBAL, Space.CONST))),
                1 << draw(st.integers(0, 31)),
                size,
                draw(st.integers(0, 2**40 - 64)),
                draw(st.binary(max_size=size)),
                draw(_relocations(size)),
            )
        )
    version = st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1))
    text = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
    place = st.integers(0, 2**32 - 1)
    reason = st.builds(Diagnostic, place, place, text, text)
    kept = set(names) | taken
    refused = draw(st.lists(_names.filter(lambda n: n not in kept), unique=True, max_size=2))
    return Module(
        tuple(draw(functions(name)) for name in names),
        tuple(variables),
        draw(version),
        draw(version),
        draw(text),
        tuple(
            Refused(
                name,
                tuple(draw(st.lists(reason, min_size=1, max_size=3))),
                draw(st.booleans()),
            )
            for name in refused
        ),
    )
