"""Branches and the ends of threads."""

from typing import Final

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Op


def branch(context: Context, form: Form, match: Match) -> None:
    """Lower bra; its guard is the instruction's."""
    (target,) = context.operands
    if not isinstance(target, tree.Name):
        raise Invalid("expected a label")
    context.builder.emit_branch(context.label(target), uniform="uni" in match)


def end(context: Context, form: Form, match: Match) -> None:
    """Lower ret and exit (alike in a kernel), and trap."""
    context.builder.emit(form.op)


FORMS: Final = (
    Form("bra{.uni}", "label", Op.BRA, branch),
    Form("ret{.uni}", "", Op.RET, end),
    Form("exit", "", Op.RET, end),
    Form("trap", "", Op.TRAP, end),
)
