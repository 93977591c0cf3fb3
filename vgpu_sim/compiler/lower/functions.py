"""A kernel's syntax tree to its code."""

import math

from vgpu_sim.compiler.lower import shared
from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.context import Context, Symbols
from vgpu_sim.compiler.lower.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.instructions import lower_instruction
from vgpu_sim.compiler.lower.parameters import lay_out
from vgpu_sim.compiler.lower.scopes import Declared, Refused, RegisterClass, Scope
from vgpu_sim.compiler.lower.shared import SharedMemory, SharedVariable
from vgpu_sim.compiler.lower.types import REGISTER_BITS
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.limits import MAX_THREADS_PER_BLOCK
from vgpu_sim.isa import Function

# They tune how a real compiler or scheduler works and change no result.
TUNING = frozenset({".maxnreg", ".minnctapersm", ".maxnctapersm", ".pragma", ".language"})


def lower_function(
    function: tree.Function,
    body: tree.Block,
    symbols: Symbols,
    findings: Findings,
) -> Function:
    """Lower one ``.entry``; what cannot be is recorded in ``findings``."""
    parameters, parameter_bytes = lay_out(function, findings)
    required, maximum = _block_limits(function, findings)
    memory = shared.lay_out(symbols.shared, body, findings)
    context = Context(
        builder=Builder(),
        symbols=symbols,
        parameters={parameter.name: parameter for parameter in parameters},
        refused_parameters=frozenset(p.name for p in function.parameters),
        scope=Scope(),
        shared={v.name: place for v in symbols.shared if (place := memory.of(v)) is not None},
    )
    for attribute in function.attributes:
        findings.add(Unsupported(f"attribute {attribute.name}"), function)
    _lower_block(context, body, memory, findings)
    try:
        context.builder.finish()
    except Refusal as refusal:
        findings.add(refusal, function)
    builder = context.builder
    return Function(
        name=function.name,
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        register_bits=tuple(builder.register_bits),
        predicate_count=builder.predicate_count,
        code=tuple(builder.code),
        lines=tuple(builder.lines),
        required_block=required,
        maximum_block=maximum,
        shared_bytes=memory.size,
    )


Block = tuple[int, int, int]


def _block_limits(function: tree.Function, findings: Findings) -> tuple[Block | None, Block | None]:
    """Read .reqntid and .maxntid; refuse directives that would change what a launch does."""
    required: Block | None = None
    maximum: Block | None = None
    for directive in function.directives:
        if directive.name in TUNING:
            continue
        try:
            if directive.name == ".reqntid":
                required = _block(directive)
            elif directive.name == ".maxntid":
                maximum = _block(directive)
            else:
                raise Unsupported(f"directive {directive.name}", directive)
        except Refusal as refusal:
            findings.add(refusal, directive)
    return required, maximum


def _block(directive: tree.Directive) -> Block:
    x, y, z = (*directive.arguments, 1, 1)[:3]
    if min(x, y, z) < 1 or math.prod((x, y, z)) > MAX_THREADS_PER_BLOCK:
        raise Invalid(f"{directive.name} allows 1 to {MAX_THREADS_PER_BLOCK} threads", directive)
    return x, y, z


def _lower_block(
    context: Context, block: tree.Block, memory: SharedMemory, findings: Findings
) -> None:
    """Lower the statements of one scope; labels may be used before they stand."""
    scope = context.scope
    for statement in block.statements:
        if isinstance(statement, tree.Label):
            try:
                scope.declare_label(statement)
            except Refusal as refusal:
                findings.add(refusal, statement)
    for statement in block.statements:
        if isinstance(statement, tree.Block):
            context.scope = Scope(parent=scope)
            _lower_block(context, statement, memory, findings)
            context.scope = scope
            continue
        try:
            _lower_statement(context, statement, memory)
        except Refusal as refusal:
            findings.add(refusal, statement)


def _lower_statement(context: Context, statement: tree.Statement, memory: SharedMemory) -> None:
    match statement:
        case tree.Instruction():
            lower_instruction(context, statement)
        case tree.Label(name=name):
            label = context.scope.labels[name]
            if label.word is None:
                context.builder.place(label)
        case tree.Registers():
            _declare_registers(context, statement)
        case tree.Variable() if shared.is_shared(statement):
            _declare_shared(context, statement, memory)
        case tree.Variable():
            what = f"{statement.space.value} variable {statement.name!r}"
            context.scope.declare(statement.name, Refused(what), statement, statement.count)
            raise Unsupported(what, statement)
        case _:
            # Pragmas are hints, .loc is for debuggers, and call prototypes and target lists
            # say nothing by themselves: the calls and branches that use them are refused.
            pass


def _declare_shared(context: Context, statement: tree.Variable, memory: SharedMemory) -> None:
    what: Declared = memory.of(statement) or SharedVariable(0)  # that nothing names
    try:
        shared.extent(statement)
    except Refusal:
        what = Refused(f".shared variable {statement.name!r}")
        raise
    finally:
        context.scope.declare(statement.name, what, statement, statement.count)


def _declare_registers(context: Context, statement: tree.Registers) -> None:
    what: Declared
    bits = 1 if statement.type == ".pred" else REGISTER_BITS.get(statement.type)
    if bits is None or statement.vector:
        what = Refused(f"a register of type {statement.vector}{statement.type}")
    else:
        what = RegisterClass(bits)
    for name in statement.names:
        context.scope.declare(name.name, what, name, name.count)
    if isinstance(what, Refused):
        raise Unsupported(what.what, statement)
