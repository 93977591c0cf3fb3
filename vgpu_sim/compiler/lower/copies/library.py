"""Code of the compiler's own that is written in PTX, and lowered in place of an instruction.

Every access of such code is an ordinary load, store or update, so that both backends bound it as
they bound the accesses of a program.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

from vgpu_sim.compiler.lower.calls import arguments, calls
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.stack.program import Value
from vgpu_sim.compiler.lower.symbols.frames import Frame
from vgpu_sim.compiler.lower.symbols.types import UNSIGNED, UNTYPED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.fragments import HEADER, parse_fragment
from vgpu_sim.isa import Compare, Guard, Literal, Op, Operand, Register, TrapCause


@functools.lru_cache(maxsize=256)
def function(
    name: str, parameters: str, registers: str, body: str, results: str = ""
) -> tree.Function:
    """Return a function of PTX. ``parameters`` and ``results`` are registers, such as ``b64 a, b32
    n``. No program can use the ``name`` if it contains a dot.
    """
    formal, returned = (
        ", ".join(f".reg .{parameter}" for parameter in listed.split(", ") if parameter)
        for listed in (parameters, results)
    )
    head = f".func ({returned}) code({formal})" if returned else f".func code({formal})"
    text = f"{HEADER}{head}\n{{\n{registers}\n{body}\nret;\n}}\n"
    return replace(parse_fragment(text).functions[0], name=name)


def emit(
    context: Context,
    code: tree.Function,
    actuals: Sequence[Operand],
    results: Sequence[Register | None] = (),
) -> None:
    """Emit the statements of ``code`` with these arguments, for the lanes in the guard; copy what
    it returns to the registers ``results``.
    """
    builder = context.builder
    with context.branch_around():
        inner = context.for_callee(code, Frame("", context.frame.pointer))
        context.frame.inner.append(inner.frame)
        for formal, actual in zip(code.parameters, actuals, strict=True):
            value = arguments.new_value(inner, formal)
            assert isinstance(value, Register)
            _move(context, value, actual)
            arguments.declare(inner, formal, value)
        returned = [arguments.new_value(inner, formal) for formal in code.returns]
        for formal, value in zip(code.returns, returned, strict=True):
            arguments.declare(inner, formal, value)
        line = builder.line
        context.lower_function(inner, code)
        builder.begin(line)
        builder.guard = None
        assert inner.leave is not None
        builder.place(inner.leave)
        _copy_results(context, returned, results)


def call(
    context: Context,
    code: tree.Function,
    actuals: Sequence[Operand],
    results: Sequence[Register | None] = (),
) -> None:
    """Emit ``code`` as ``emit`` does where a kernel first uses it, and else jump to one body that
    all other places share.
    """
    program = context.program
    if code.name not in program.emitted:
        program.emitted.add(code.name)
        emit(context, code, actuals, results)
        return
    with context.branch_around():
        body = calls.request_body(context, code)
        for place, actual in zip(body.inputs, actuals, strict=True):
            assert isinstance(place, Register)
            _move(context, place, actual)
        calls.jump_to(context, body)
        _copy_results(context, body.outputs, results)


def emit_checked(
    context: Context,
    code: tree.Function,
    actuals: Sequence[Operand],
    cause: TrapCause,
    *,
    shared: bool,
) -> None:
    """Emit ``code``, which returns 0 or that its operands are illegal, and a trap for the latter.

    ``shared`` makes all places of a kernel use one body.
    """
    builder = context.builder
    guard = builder.guard
    wrong = builder.new_register(32)
    with builder.use_guard(None):
        builder.emit(Op.MOV, type=UNTYPED[32], dsts=(wrong,), srcs=(Literal(0),))
    (call if shared else emit)(context, code, actuals, [wrong])
    failed = builder.scratch_predicate()
    with builder.use_guard(None):
        builder.emit(
            Op.SETP,
            type=UNSIGNED[32],
            dsts=(failed, None),
            srcs=(wrong, Literal(0)),
            compare=Compare.NE,
        )
    with builder.use_guard(Guard(failed, False)):
        builder.emit(Op.TRAP, cause=cause)
    builder.guard = guard


def _copy_results(
    context: Context, returned: Sequence[Value], results: Sequence[Register | None]
) -> None:
    for value, to in zip(returned, results, strict=False):
        assert isinstance(value, Register)
        if to is not None:
            _move(context, to, value)


def _move(context: Context, to: Register, source: Operand) -> None:
    """Copy an argument, truncated or extended with zeros to the width of its parameter."""
    bits = context.bits(to)
    source_bits = context.bits(source) if isinstance(source, Register) else bits
    if source_bits == bits:
        context.builder.emit(Op.MOV, type=UNTYPED[bits], dsts=(to,), srcs=(source,))
        return
    context.builder.emit(
        Op.CVT,
        type=UNSIGNED[bits],
        source_type=UNSIGNED[source_bits],
        dsts=(to,),
        srcs=(source,),
    )
