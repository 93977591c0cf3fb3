"""Calls of device functions (PTX ISA, "call", ".func", "Function Definitions")."""

from collections.abc import Sequence

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.builder import Mark
from vgpu_sim.compiler.lower.calls import arguments
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.stack.dispatch import dispatch, emit_comparison
from vgpu_sim.compiler.lower.stack.program import Body, Interface, Value
from vgpu_sim.compiler.lower.symbols import frames
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import Frame
from vgpu_sim.compiler.lower.symbols.scopes import LabelTarget
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Literal,
    Op,
    Register,
    TrapCause,
)
from vgpu_sim.records import dataclass

# Names of the device runtime; compiler/device_runtime.ptx lacks some functions (programming guide,
# "CUDA Dynamic Parallelism").
_WAIT = "cudaDeviceSynchronize"
_DEVICE_RUNTIME = "__cudaCDP2"  # prefix
_ASSERTION = "tessera.assertion"  # of compiler/system_calls.ptx


@dataclass(frozen=True, slots=True)
class _Call:
    """The function and the operands of one call instruction."""

    returns: tuple[tree.Operand, ...]
    target: tree.Name
    arguments: tuple[tree.Operand, ...]
    prototype: tree.Name | None


def lower_call(context: Context, operands: Sequence[tree.Operand]) -> None:
    """Lower a call, which must not have a guard.

    Raises:
        Invalid: the call matches no function.
        Unsupported: the function is in another module, or cannot be called yet.
    """
    call = _parts(operands)
    graph = context.program.graph
    if context.scope.find(call.target.text) is not None:
        _indirect(context, call)
        return
    function = graph.functions.get(call.target.text)
    if function is not None:
        _direct(context, call, function)
    elif call.target.text in context.symbols.functions:
        raise Unsupported(_missing(call.target.text), call.target)
    else:
        raise Invalid(f"{call.target.text!r} is not declared", call.target)


def _missing(name: str) -> str:
    """Describe a function that is declared, but defined neither by the module nor by the driver."""
    if name == _WAIT or name.startswith(_DEVICE_RUNTIME):
        return f"dynamic parallelism (function {name!r})"
    return f"function {name!r}, which the module does not define,"


def _parts(operands: Sequence[tree.Operand]) -> _Call:
    remaining_operands = list(operands)
    returns = _list(remaining_operands)
    target = remaining_operands.pop(0) if remaining_operands else None
    if not isinstance(target, tree.Name):
        raise Invalid("expected the name of a function, or a register")
    arguments = _list(remaining_operands)
    prototype = remaining_operands.pop(0) if remaining_operands else None
    if remaining_operands or not (prototype is None or isinstance(prototype, tree.Name)):
        raise Invalid("expected (results), function, (arguments), prototype")
    return _Call(returns, target, arguments, prototype)


def _list(remaining_operands: list[tree.Operand]) -> tuple[tree.Operand, ...]:
    """Split a list of arguments or results off the front, if there is one."""
    if not remaining_operands or not isinstance(remaining_operands[0], tree.Arguments):
        return ()
    first = remaining_operands.pop(0)
    return first.elements if isinstance(first, tree.Arguments) else ()


def _direct(context: Context, call: _Call, function: tree.Function) -> None:
    _check_counts(call, function.name, function.returns, function.parameters)
    if function.name == _ASSERTION:
        context.builder.emit(Op.TRAP, cause=TrapCause.ASSERTION)
        return
    if context.program.try_inline(function):
        _in_line(context, call, function)
    else:
        _jump(context, call, function)


def _check_counts(
    call: _Call,
    name: str,
    returns: Sequence[tree.Variable],
    parameters: Sequence[tree.Variable],
) -> None:
    for actuals, formals, kind in (
        (call.returns, returns, "results"),
        (call.arguments, parameters, "arguments"),
    ):
        if len(actuals) != len(formals):
            raise Invalid(
                f"{name!r} has {len(formals)} {kind}, but the call has {len(actuals)}", call.target
            )


# Inlined: arguments and results are the caller's own variables.


def _in_line(context: Context, call: _Call, function: tree.Function) -> None:
    inner = context.for_callee(function, Frame("", context.frame.pointer))
    context.frame.inner.append(inner.frame)
    builder = context.builder
    result_names = {operand.text for operand in call.returns if isinstance(operand, tree.Name)}
    for formal, actual in zip(function.parameters, call.arguments, strict=True):
        variable = arguments.find_param_variable(context, actual)
        shared = isinstance(actual, tree.Name) and actual.text in result_names
        if variable is not None and formal.space is tree.Space.PARAM and not shared:
            arguments.check_size(formal, variable, actual)
            inner.scope.declare(formal.name, variable, formal)
        else:
            arguments.declare(inner, formal, arguments.evaluate_argument(context, formal, actual))
    results: list[tuple[tree.Variable, tree.Operand, Value]] = []
    for formal, actual in zip(function.returns, call.returns, strict=True):
        variable = arguments.find_param_variable(context, actual)
        if variable is not None and formal.space is tree.Space.PARAM:
            arguments.check_size(formal, variable, actual)
            inner.scope.declare(formal.name, variable, formal)
            continue
        value = arguments.new_value(inner, formal)
        arguments.declare(inner, formal, value)
        results.append((formal, actual, value))
    saved: Register | None = None
    assert function.body is not None
    if context.program.graph.moves_stack(function.body):
        saved = builder.new_register(32)
        pointer = context.program.stack.pointer
        builder.emit(Op.MOV, type=DataType.B32, dsts=(saved,), srcs=(pointer,))
    line = builder.line
    context.lower_function(inner, function)
    builder.begin(line)
    builder.guard = None
    assert inner.leave is not None
    builder.place(inner.leave)
    if saved is not None:
        context.program.stack.set_pointer(saved)
    for formal, actual, value in results:
        arguments.copy_result(context, formal, actual, value)


# Jumped to: arguments and results use variables that the function shares with its callers.


def _jump(context: Context, call: _Call, function: tree.Function) -> None:
    builder, program = context.builder, context.program
    actuals = [
        arguments.evaluate_argument(context, formal, actual)
        for formal, actual in zip(function.parameters, call.arguments, strict=True)
    ]
    body = request_body(context, function)
    keeps = context.recursive
    number = program.next_call() if keeps else 0
    if keeps:
        builder.mark(Mark(builder.owner, number, saves=True))
    for value, place in zip(actuals, body.inputs, strict=True):
        arguments.copy(context, place, value)
    jump_to(context, body)
    if keeps:
        builder.mark(Mark(builder.owner, number, saves=False))
    for formal, actual, place in zip(function.returns, call.returns, body.outputs, strict=True):
        arguments.copy_result(context, formal, actual, place)


def jump_to(context: Context, body: Body) -> None:
    """Jump to a body, whose inputs have been set, and continue here when it is done."""
    builder = context.builder
    number = Literal(len(body.sites))
    builder.emit(Op.MOV, type=DataType.B32, dsts=(body.site,), srcs=(number,))
    site = LabelTarget("site")
    body.sites.append(site)
    builder.emit_branch(body.entry, uniform=False)
    builder.place(site)


def request_body(context: Context, function: tree.Function) -> Body:
    """Return the body of a function, to which the calls of that function jump. The body is lowered
    later.
    """
    return context.program.body_of(function, lambda frame: _interface(context, function, frame))


def _interface(context: Context, function: tree.Function, frame: Frame) -> Interface:
    place = context.for_callee(function, frame)
    return (
        tuple(arguments.new_value(place, formal) for formal in function.parameters),
        tuple(arguments.new_value(place, formal) for formal in function.returns),
    )


def lower_bodies(context: Context) -> None:
    """Emit the bodies of the called functions that are not inlined, after the kernel's code."""
    program, builder = context.program, context.builder
    while program.pending:
        body = program.pending.popleft()
        with builder.use_owner(body.owner):
            _lower_body(context, body)
    for body in program.bodies.values():  # now all of their call sites are known
        if body.own_site is not None and body.sites:
            builder.place(body.exit)
            dispatch(builder, body.own_site, body.sites)


def _lower_body(context: Context, body: Body) -> None:
    program, builder, function = context.program, context.builder, body.function
    builder.begin(function.line)
    builder.guard = None
    builder.place(body.entry)
    recursive = program.graph.is_recursive(function)
    pointer = builder.new_register(32) if recursive else None
    frame = program.new_frame(pointer)
    inner = context.for_callee(function, frame)
    inner.recursive = recursive
    saved_pointer: Register | None = pointer
    assert function.body is not None
    if saved_pointer is None and program.graph.moves_stack(function.body):
        saved_pointer = builder.new_register(32)
    if saved_pointer is not None:
        stack = program.stack.pointer
        builder.emit(Op.MOV, type=DataType.B32, dsts=(saved_pointer,), srcs=(stack,))
    if recursive:
        builder.append(program.stack.grow(frame.size_symbol()))
    body.own_site = builder.new_register(32)
    builder.emit(Op.MOV, type=DataType.B32, dsts=(body.own_site,), srcs=(body.site,))
    for formal, place in zip(function.parameters, body.inputs, strict=True):
        value = arguments.new_value(inner, formal)
        arguments.copy(inner, value, place)
        arguments.declare(inner, formal, value)
    results = [arguments.new_value(inner, formal) for formal in function.returns]
    for formal, value in zip(function.returns, results, strict=True):
        arguments.declare(inner, formal, value)
    context.lower_function(inner, function)
    builder.guard = None
    assert inner.leave is not None
    builder.place(inner.leave)
    for value, place in zip(results, body.outputs, strict=True):
        arguments.copy(inner, place, value)
    if saved_pointer is not None:
        program.stack.set_pointer(saved_pointer)
    builder.emit_branch(body.exit, uniform=False)


# Through a register: the address is compared with those of all functions that it may denote.


def _indirect(context: Context, call: _Call) -> None:
    builder, graph = context.builder, context.program.graph
    target = values.source(context, call.target, DataType.B64)
    address = builder.new_register(64)
    builder.emit(Op.MOV, type=DataType.B64, dsts=(address,), srcs=(target,))
    end = LabelTarget("done")
    for function in _candidates(context, call):
        is_other, onward = builder.new_predicate(), LabelTarget("onward")
        where = Literal(graph.address(function))
        emit_comparison(builder, is_other, Compare.NE, address, where, DataType.U64)
        with builder.use_guard(Guard(is_other)):
            builder.emit_branch(onward, uniform=False)
        _direct(context, call, function)
        builder.emit_branch(end, uniform=False)
        builder.place(onward)
    builder.emit(Op.TRAP, cause=TrapCause.FUNCTION)
    builder.place(end)


def _candidates(context: Context, call: _Call) -> list[tree.Function]:
    """Return the functions that the call may denote, with a matching signature."""
    graph = context.program.graph
    if call.prototype is None:
        raise Invalid(
            "a call through a register needs the label of a .callprototype or .calltargets",
            call.target,
        )
    declared = context.scope.find_table(call.prototype.text)
    match declared:
        case tree.CallPrototype():
            _check_counts(call, call.prototype.text, declared.returns, declared.parameters)
            signature = _signature(declared.returns, declared.parameters)
            functions = [graph.functions[name] for name in graph.addressed]
        case tree.BranchTargets(directive=".calltargets"):
            functions = [_target(context, name, declared) for name in declared.names]
            signature = _signature(functions[0].returns, functions[0].parameters)
        case _:
            message = (
                f"{call.prototype.text!r} is not the label of a .callprototype or .calltargets"
            )
            raise Invalid(message, call.prototype)
    return [f for f in functions if _signature(f.returns, f.parameters) == signature]


def _target(context: Context, name: str, declared: tree.BranchTargets) -> tree.Function:
    function = context.program.graph.functions.get(name)
    if function is None:
        if name in context.symbols.functions:
            raise Unsupported(_missing(name), declared)
        raise Invalid(f"{name!r} is not a function", declared)
    return function


def _signature(
    returns: Sequence[tree.Variable], parameters: Sequence[tree.Variable]
) -> tuple[tuple[tuple[bool, int], ...], ...]:
    return tuple(
        tuple((v.space is tree.Space.REG, frames.size_and_alignment(v)[0]) for v in group)
        for group in (returns, parameters)
    )
