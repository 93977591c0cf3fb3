"""Emits a branch to one of many labels, selected by a number, as a tree of comparisons."""

from collections.abc import Sequence

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.symbols.scopes import LabelTarget
from vgpu_sim.isa import Compare, DataType, Guard, Literal, Op, Predicate, Register, TrapCause


def dispatch(builder: Builder, number: Register, targets: Sequence[LabelTarget]) -> None:
    """Emit a branch to ``targets[number]``.

    If ``number`` is not an index of ``targets``, the behaviour is undefined.
    """
    decision = builder.new_predicate()
    pending: list[tuple[LabelTarget | None, int, int]] = [(None, 0, len(targets))]
    while pending:
        label, first, end = pending.pop()
        if label is not None:
            builder.place(label)
        while any(target is not targets[first] for target in targets[first + 1 : end]):
            middle = (first + end) // 2
            below = LabelTarget("below")
            emit_comparison(builder, decision, Compare.LT, number, Literal(middle))
            with builder.use_guard(Guard(decision)):
                builder.emit_branch(below, uniform=False)
            pending.append((below, first, middle))
            first = middle
        builder.emit_branch(targets[first], uniform=False)


def trap_unless_below(builder: Builder, number: Register, end: int) -> None:
    """Emit code that ends the context unless ``number`` is below ``end``."""
    beyond = builder.new_predicate()
    emit_comparison(builder, beyond, Compare.GE, number, Literal(end))
    with builder.use_guard(Guard(beyond)):
        builder.emit(Op.TRAP, cause=TrapCause.TARGET)


def emit_comparison(
    builder: Builder,
    to: Predicate,
    how: Compare,
    a: Register,
    b: Register | Literal,
    type_: DataType = DataType.U32,
) -> None:
    """Emit a comparison of ``a`` and ``b``; its result is written to the predicate ``to``."""
    builder.emit(Op.SETP, type=type_, dsts=(to, None), srcs=(a, b), compare=how)
