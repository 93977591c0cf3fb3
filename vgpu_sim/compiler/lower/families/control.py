"""Lowers branches, calls, and instructions that end threads."""

from typing import Final

from vgpu_sim.compiler.lower import hints, values
from vgpu_sim.compiler.lower.calls.calls import lower_call
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.stack.dispatch import dispatch, trap_unless_below
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op
from vgpu_sim.isa.families.control import MAX_REST_NS


def branch(context: Context, form: Form, match: Match) -> None:
    """Lower bra; its guard becomes the guard of the branch."""
    (target,) = context.operands
    if not isinstance(target, tree.Name):
        raise Invalid("expected a label")
    context.builder.emit_branch(context.label(target), uniform="uni" in match)


def end(context: Context, form: Form, match: Match) -> None:
    """Lower exit, trap and brkpt; brkpt becomes a trap, since only a debugger could continue."""
    context.builder.emit(form.op)


def rest(context: Context, form: Form, match: Match) -> None:
    """Lower nanosleep, whose operand is at most a millisecond."""
    (duration,) = context.operands
    if isinstance(duration, tree.Integer) and not 0 <= duration.value <= MAX_REST_NS:
        raise Invalid(f"nanosleep takes 0 to {MAX_REST_NS} ns, not {duration.value}")
    context.builder.emit(form.op, srcs=(values.source(context, duration, DataType.U32),))


def leave(context: Context, form: Form, match: Match) -> None:
    """Lower ret. In a kernel, it becomes exit; in a called function, a branch to the function's
    end.
    """
    if context.leave is None:
        context.builder.emit(form.op)
    else:
        context.builder.emit_branch(context.leave, uniform="uni" in match)


def indexed_branch(context: Context, form: Form, match: Match) -> None:
    """Lower brx.idx to comparisons; an index beyond the targets is a fault, which ends the
    context.
    """
    index, table = context.operands
    if not isinstance(table, tree.Name):
        raise Invalid("expected the label of a .branchtargets")
    targets = context.scope.find_table(table.text)
    if not isinstance(targets, tree.BranchTargets) or targets.directive != ".branchtargets":
        raise Invalid(f"{table.text!r} is not the label of a .branchtargets", table)
    labels = [
        context.label(tree.Name(name, targets.line, targets.column)) for name in targets.names
    ]
    builder = context.builder
    with context.branch_around():
        number = builder.new_register(32)
        source = values.source(context, index, DataType.U32)
        builder.emit(Op.MOV, type=DataType.B32, dsts=(number,), srcs=(source,))
        trap_unless_below(builder, number, len(labels))
        dispatch(builder, number, labels)


def nothing(context: Context, form: Form, match: Match) -> None:
    """Emit nothing for griddepcontrol, by which a grid waits for parts of a previous one.

    Grids of a stream run in sequence here, so no grid waits for parts of another, and none
    begins before the previous one has ended (PTX ISA, "griddepcontrol").
    """


def call(context: Context, form: Form, match: Match) -> None:
    """Lower a call of a function: see ``lower.calls``."""
    operands = context.operands
    with context.branch_around():
        lower_call(context, operands)


def tune_registers(context: Context, form: Form, match: Match) -> None:
    """Emit nothing for setmaxnreg: a warp has as many registers as it needs.

    ``ptx.grammar`` checks the constant.
    """


_CALL_NOTE = "in line, or BRA to the body and back"
_REGISTERS_NOTE = "nothing: registers are not limited by a warp's share"
_GRIDS_NOTE = "nothing: a grid begins when those before it have ended"


FORMS: Final = (
    Form("bra{.uni}", "label", Op.BRA, branch),
    Form("brx.idx{.uni}", "a, targets", Op.BRA, indexed_branch, isa="SETP and BRA; TRAP"),
    Form("call{.uni}", "f", Op.BRA, call, isa=_CALL_NOTE),
    Form("call{.uni}", "(d), f", Op.BRA, call, isa=_CALL_NOTE),
    Form("call{.uni}", "(d), f, (a)", Op.BRA, call, isa=_CALL_NOTE),
    Form("call{.uni}", "(d), f, (a), prototype", Op.BRA, call, isa=_CALL_NOTE),
    Form("ret{.uni}", "", Op.RET, leave),
    Form("exit", "", Op.RET, end),
    Form("trap", "", Op.TRAP, end),
    *hints.HINTS,
    Form("nanosleep.u32", "a", Op.NANOSLEEP, rest),
    Form("brkpt", "", Op.TRAP, end),
    Form("griddepcontrol.wait", "", Op.NOP, nothing, isa=_GRIDS_NOTE),
    Form("griddepcontrol.launch_dependents", "", Op.NOP, nothing, isa=_GRIDS_NOTE),
    Form("setmaxnreg.inc.sync.aligned.u32", "n", Op.NOP, tune_registers, isa=_REGISTERS_NOTE),
    Form("setmaxnreg.dec.sync.aligned.u32", "n", Op.NOP, tune_registers, isa=_REGISTERS_NOTE),
)
