"""Lowers a kernel's syntax tree to ISA instructions."""

import math
from collections.abc import Container

from vgpu_sim.compiler.lower.addresses import split
from vgpu_sim.compiler.lower.builder import NO_OWNER, Builder
from vgpu_sim.compiler.lower.calls.calls import lower_bodies, request_body
from vgpu_sim.compiler.lower.context import Context, Symbols
from vgpu_sim.compiler.lower.instructions import lower_instruction
from vgpu_sim.compiler.lower.stack.linking import link
from vgpu_sim.compiler.lower.stack.program import Program
from vgpu_sim.compiler.lower.symbols import names, shared_memory
from vgpu_sim.compiler.lower.symbols.constants import Constants
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import LocalVariable, size_and_alignment
from vgpu_sim.compiler.lower.symbols.parameters import lay_out, max_parameter_bytes
from vgpu_sim.compiler.lower.symbols.scopes import (
    Declared,
    Refused,
    RegisterClass,
    Scope,
)
from vgpu_sim.compiler.lower.symbols.shared_memory import SharedMemory, SharedVariable
from vgpu_sim.compiler.lower.symbols.types import REGISTER_BITS
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.limits import MAX_CLUSTER_BLOCKS, MAX_THREADS_PER_BLOCK
from vgpu_sim.isa import DataType, Function, Literal, Op, Parameter

# Directives that tune a physical compiler or scheduler and change no result.
TUNING = frozenset({".maxnreg", ".minnctapersm", ".maxnctapersm", ".pragma", ".language"})
_CARRIES = frozenset({"addc", "subc", "madc"})
_SHORT = frozenset({".b32", ".u32", ".s32"})
_COUNTS_CLUSTERS = ".blocksareclusters"
_OF_PAIRS = ".cta_group::2"
_HARMLESS = frozenset({".noreturn"})


def lower_function(
    function: tree.Function,
    body: tree.Block,
    symbols: Symbols,
    findings: Findings,
) -> Function:
    """Lower one ``.entry``; failures are recorded in ``findings``."""
    limit = max_parameter_bytes(symbols.version, symbols.capability)
    parameters, parameter_bytes = lay_out(function, findings, limit)
    required, maximum, cluster, maximum_cluster = _launch_limits(function, findings)
    counts_clusters = any(d.name == _COUNTS_CLUSTERS for d in function.directives)
    called = [
        callee.body for callee in symbols.graph.reachable_functions(body) if callee.body is not None
    ]
    memory = shared_memory.lay_out(symbols.shared, [body, *called], findings)
    context = _context(symbols, memory, parameters, findings)
    context.constants = Constants(function)
    context.parameter_image = f"{function.name}.parameters"  # names in PTX have no dots
    context.has_short_addresses = any(
        _moves_short_address(instruction, context.parameters)
        for instruction in names.instructions(body)
    )
    used = [instruction for part in (body, *called) for instruction in names.instructions(part)]
    context.program.has_pairs = any(_OF_PAIRS in instruction.modifiers for instruction in used)
    context.program.multiplies_asynchronously = any(
        instruction.opcode == "wgmma" and ".fence" not in instruction.modifiers
        for instruction in used
    )
    builder = context.builder
    for attribute in function.attributes:
        findings.add(Unsupported(f"attribute {attribute.name}"), function)
    local_bytes = 0
    try:
        builder.emit(Op.NOP)  # where the stack is initialised, if there is one
        _lower_block(context, body)
        builder.end()
        lower_bodies(context)
        local_bytes = link(builder, context.program)
        builder.finish()
    except Refusal as refusal:
        findings.add(refusal, function)
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
        required_cluster=cluster,
        maximum_cluster=maximum_cluster,
        counts_clusters=counts_clusters,
        shared_bytes=context.memory.size,
        parameter_image=context.parameter_image if context.uses_parameter_image else "",
        local_bytes=local_bytes,
        tensor_memory=context.program.tensor_memory,
    )


def _moves_short_address(instruction: tree.Instruction, parameters: Container[str]) -> bool:
    """Return whether an instruction moves a parameter's address to a register of 32 bits."""
    if (
        instruction.opcode != "mov"
        or not _SHORT & set(instruction.modifiers)
        or len(instruction.operands) != 2
    ):
        return False
    base, _ = split(instruction.operands[1])
    return isinstance(base, tree.Name) and base.text in parameters


def _context(
    symbols: Symbols,
    memory: SharedMemory,
    parameters: tuple[Parameter, ...],
    findings: Findings,
) -> Context:
    """Return a kernel's context, before its first instruction."""
    builder = Builder()
    program = Program(builder, symbols.graph)
    frame = program.new_frame()
    own = {  # shared by all activations of a function
        v.name: LocalVariable(builder.new_name("variable"), *size_and_alignment(v), NO_OWNER)
        for v in symbols.local
    }
    frame.variables += own.values()
    return Context(
        builder=builder,
        symbols=symbols,
        parameters={parameter.name: parameter for parameter in parameters},
        scope=Scope(),
        frame=frame,
        program=program,
        lower_function=_lower_called,
        memory=memory,
        findings=findings,
        shared_bytes=memory.size,
        locals=own,
    )


Block = tuple[int, int, int]


def _launch_limits(
    function: tree.Function, findings: Findings
) -> tuple[Block | None, Block | None, Block | None, int]:
    """Read .reqntid, .maxntid, the required cluster and .maxclusterrank (0: none); refuse
    directives that would change the effect of a launch.
    """
    required: Block | None = None
    maximum: Block | None = None
    cluster: Block | None = None
    maximum_cluster = 0
    for directive in function.directives:
        if directive.name in TUNING:
            continue
        try:
            if directive.name == ".reqntid":
                required = _block(directive)
            elif directive.name == ".maxntid":
                maximum = _block(directive)
            elif directive.name == ".reqnctapercluster":
                cluster = _cluster(directive)
            elif directive.name == ".explicitcluster":
                cluster = cluster or (0, 0, 0)
            elif directive.name == ".maxclusterrank":
                maximum_cluster = _maximum_cluster(directive, function)
            elif directive.name == _COUNTS_CLUSTERS:
                _check_counts_clusters(directive, function)
            else:
                raise Unsupported(f"directive {directive.name}", directive)
        except Refusal as refusal:
            findings.add(refusal, directive)
    return required, maximum, cluster, maximum_cluster


def _cluster(directive: tree.Directive) -> Block:
    """Return the size of a cluster, or zeros if a launch must state the size."""
    x, y, z = (*directive.arguments, 1, 1)[:3]
    if directive.arguments[0] == 0 and not any(directive.arguments):
        return 0, 0, 0
    if min(x, y, z) < 1 or math.prod((x, y, z)) > MAX_CLUSTER_BLOCKS:
        raise Invalid(
            f"the number of blocks in {directive.name} must be 1 to {MAX_CLUSTER_BLOCKS}",
            directive,
        )
    return x, y, z


def _check_counts_clusters(directive: tree.Directive, function: tree.Function) -> None:
    """Raise Invalid if a kernel whose grids are numbers of clusters states no sizes."""
    stated = {companion.name for companion in function.directives if any(companion.arguments)}
    missing = {".reqntid", ".reqnctapercluster"} - stated
    if missing:
        raise Invalid(f"{directive.name} needs {' and '.join(sorted(missing))}", directive)


def _maximum_cluster(directive: tree.Directive, function: tree.Function) -> int:
    if any(companion.name == ".reqnctapercluster" for companion in function.directives):
        raise Invalid(f"{directive.name} and .reqnctapercluster exclude each other", directive)
    if directive.arguments[0] == 0:
        raise Invalid(f"{directive.name} must be at least 1", directive)
    return directive.arguments[0]


def _block(directive: tree.Directive) -> Block:
    x, y, z = (*directive.arguments, 1, 1)[:3]
    if min(x, y, z) < 1 or math.prod((x, y, z)) > MAX_THREADS_PER_BLOCK:
        raise Invalid(
            f"the number of threads in {directive.name} must be 1 to {MAX_THREADS_PER_BLOCK}",
            directive,
        )
    return x, y, z


def check_function(function: tree.Function, symbols: Symbols) -> None:
    """Lower a ``.func`` to find its errors, unless that was done before."""
    assert function.body is not None
    if function.name in symbols.lowered:
        return
    findings = symbols.findings(function.name)
    memory = shared_memory.lay_out(symbols.shared, [function.body], findings)
    context = _context(symbols, memory, (), findings)
    context.check_only = True
    try:
        request_body(context, function)
        lower_bodies(context)
    except Refusal as refusal:
        findings.add(refusal, function)


def _refuse_directives(context: Context, function: tree.Function) -> None:
    """Record the directives of a function that are not supported."""
    for attribute in function.attributes:
        context.findings.add(Unsupported(f"attribute {attribute.name}"), function)
    for directive in function.directives:
        if directive.name not in TUNING | _HARMLESS:
            refusal: Refusal = Unsupported(f"directive {directive.name}", directive)
            context.findings.add(refusal, directive)


def _lower_called(context: Context, function: tree.Function) -> None:
    """Lower the statements of a ``.func``."""
    if context.check_only and function.name in context.symbols.lowered:
        return  # its code is not needed, and all its errors were found before
    context.symbols.lowered.add(function.name)
    _refuse_directives(context, function)
    if function.body is None:
        return
    if any(instruction.opcode in _CARRIES for instruction in names.instructions(function.body)):
        carry = context.carry_predicate()  # carry flags are not passed to calls or kept across them
        context.builder.emit(Op.MOV, type=DataType.PRED, dsts=(carry,), srcs=(Literal(0),))
    _lower_block(context, function.body)


def _lower_block(context: Context, block: tree.Block) -> None:
    """Lower the statements of one scope; labels may be used before their position."""
    scope, findings = context.scope, context.findings
    label: tree.Label | None = None
    for statement in block.statements:
        if isinstance(statement, tree.Label):
            try:
                scope.declare_label(statement)
            except Refusal as refusal:
                findings.add(refusal, statement)
        elif isinstance(statement, tree.BranchTargets | tree.CallPrototype) and label is not None:
            scope.tables[label.name] = statement
        label = statement if isinstance(statement, tree.Label) else None
    for statement in block.statements:
        if isinstance(statement, tree.Block):
            context.scope = Scope(parent=scope)
            context.program.nesting += 1
            _lower_block(context, statement)
            context.program.nesting -= 1
            context.scope = scope
            continue
        try:
            _lower_statement(context, statement)
        except Refusal as refusal:
            findings.add(refusal, statement)


def _lower_statement(context: Context, statement: tree.Statement) -> None:
    match statement:
        case tree.Instruction():
            lower_instruction(context, statement)
        case tree.Label(name=name):
            label = context.scope.labels[name]
            if label.word is None:
                context.builder.place(label)
        case tree.Registers():
            _declare_registers(context, statement)
        case tree.Variable() if shared_memory.is_shared(statement):
            _declare_shared(context, statement)
        case tree.Variable(space=tree.Space.LOCAL | tree.Space.PARAM):
            _declare_local(context, statement)
        case tree.Variable():
            description = f"{statement.space.value} variable {statement.name!r}"
            context.scope.declare(statement.name, Refused(description), statement, statement.count)
            raise Unsupported(f"{description}", statement)
        case _:
            # Pragmas are hints, .loc is for debuggers, and call prototypes and target lists are
            # used by the calls and branches that name them.
            pass


def _declare_shared(context: Context, statement: tree.Variable) -> None:
    # not named by any instruction
    meaning: Declared = context.memory.find_variable(statement) or SharedVariable(0)
    try:
        shared_memory.size_and_alignment(statement)
    except Refusal:
        meaning = Refused(f".shared variable {statement.name!r}")
        raise
    finally:
        context.scope.declare(statement.name, meaning, statement, statement.count)


def _declare_local(context: Context, statement: tree.Variable) -> None:
    meaning: Declared = Refused(f"{statement.space.value} variable {statement.name!r}")
    try:
        meaning = context.create_local(statement)
    finally:
        context.scope.declare(statement.name, meaning, statement, statement.count)


def _declare_registers(context: Context, statement: tree.Registers) -> None:
    meaning: Declared
    is_wide = statement.type == ".b128"
    bits = 64 if is_wide else REGISTER_BITS.get(statement.type)
    if statement.type == ".pred":
        bits = 1
    if bits is None or statement.vector:  # other vectors were expanded before
        meaning = Refused(f"a register of type {statement.vector}{statement.type}")
    else:
        meaning = RegisterClass(bits, statement.type.endswith("8") and not is_wide, is_wide)
        context.program.parted |= is_wide
    for name in statement.names:
        context.scope.declare(name.name, meaning, name, name.count)
    if isinstance(meaning, Refused):
        raise Unsupported(f"{meaning.what}", statement)
