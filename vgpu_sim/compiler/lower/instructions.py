"""Lowers one instruction by the row of the binding that matches it."""

from typing import Final

from vgpu_sim.compiler.lower import wide
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.table import FORMS_BY_OPCODE
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Guard, Predicate


def lower_instruction(context: Context, instruction: tree.Instruction) -> None:
    """Emit the ISA instructions for ``instruction``.

    Raises:
        Unsupported: no row of the binding matches ``instruction``, or an operand is of an
            unsupported kind.
        Invalid: ``instruction`` violates a rule of PTX.
    """
    context.builder.begin(instruction.line)
    form, match = _recognise(context, instruction)
    context.builder.guard = _guard(context, instruction.guard)
    context.operands, extended = instruction.operands, []
    if context.program.parted:
        extended = wide.split_operands(context, instruction)
    form.lower(context, form, match)
    wide.write_high_halves(context, extended, match)


_REASONS: Final = {
    "multimem": " (it needs a multicast object, and simulated GPUs have none: cuMulticastCreate"
    " returns CUDA_ERROR_NOT_SUPPORTED)",
}
"""Why instructions cannot be supported, where the reason is in the simulated hardware."""


def _recognise(context: Context, instruction: tree.Instruction) -> tuple[Form, Match]:
    forms = FORMS_BY_OPCODE.get(instruction.opcode, ())
    if not forms:
        reason = _REASONS.get(instruction.opcode, "")
        raise Unsupported(f"instruction {instruction.opcode!r}{reason}")
    farthest, counts = 0, set()
    for form in forms:
        outcome = form.match(instruction.modifiers)
        if isinstance(outcome, Match):
            if form.operand_count == len(instruction.operands):
                return form, outcome
            counts.add(form.operand_count)
        else:
            farthest = max(farthest, outcome.index)
    for form in forms:
        rearranged = form.match_rearranged(instruction.modifiers)
        if rearranged and form.operand_count == len(instruction.operands):
            return form, rearranged
    if counts:
        count_list = " or ".join(map(str, sorted(counts)))
        raise Invalid(f"{instruction.opcode} takes {count_list} operands here")
    if farthest < len(instruction.modifiers):
        known = instruction.opcode + "".join(instruction.modifiers[:farthest])
        raise Unsupported(f"{instruction.modifiers[farthest]} of {known}")
    spelling = instruction.opcode + "".join(instruction.modifiers)
    raise Unsupported(f"{spelling} without a further modifier")


def _guard(context: Context, guard: tree.Guard | None) -> Guard | None:
    if guard is None:
        return None
    register = context.register(guard.predicate)
    if not isinstance(register, Predicate):
        raise Invalid(f"{guard.predicate.text!r} is not a predicate", guard.predicate)
    return Guard(register, guard.negated)
