"""Lowers mbarrier (PTX ISA 9.7.15.16).

An object is 64 bits, laid out as ``isa.families.atomic`` describes, and arrivals and transactions
are updates of ATOM and RED.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import space_of, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    Compare,
    DataType,
    Literal,
    MulMode,
    Op,
    Operand,
    Order,
    Register,
    Scope,
    Space,
    Update,
)
from vgpu_sim.isa.families.atomic import MBARRIER_COUNT, MBARRIER_EXPECTED, MBARRIER_PENDING


def _space(context: Context, match: Match, where: tree.Operand) -> Space:
    shared = "within" in match or "own" in match
    return Space.SHARED if shared else space_of(context, where, Space.GENERIC)


def _count(context: Context, operand: tree.Operand) -> Operand:
    """Return a count as 64 bits."""
    if isinstance(operand, tree.Integer):
        if not 1 <= operand.value <= MBARRIER_COUNT:
            raise Invalid(
                f"the count of an mbarrier must be 1 to {MBARRIER_COUNT}, not {operand.value}"
            )
        return Literal(operand.value)
    return _wide(context, values.source(context, operand, DataType.U32))


def _wide(context: Context, value: Operand) -> Register:
    wide = context.builder.scratch_register(64)
    context.builder.emit(
        Op.CVT, type=DataType.U64, source_type=DataType.U32, dsts=(wide,), srcs=(value,)
    )
    return wide


def init(context: Context, form: Form, match: Match) -> None:
    """Lower init. It begins the object's first phase, and sets the number of arrivals to expect."""
    where, operand = context.operands
    space = _space(context, match, where)
    place = whole_address(context, where, space)
    count = _count(context, operand)
    if isinstance(count, Literal):
        state: Operand = Literal(count.bits << MBARRIER_EXPECTED | count.bits << MBARRIER_PENDING)
    else:
        factor = Literal(1 << MBARRIER_EXPECTED | 1 << MBARRIER_PENDING)
        state = context.builder.scratch_register(64)
        context.builder.emit(Op.AND, type=DataType.B64, dsts=(state,),
                             srcs=(count, Literal(MBARRIER_COUNT)))  # fmt: skip
        context.builder.emit(
            Op.MUL, type=DataType.U64, dsts=(state,), srcs=(state, factor), mode=MulMode.LO
        )
    _store(context, place, state, space)


def inval(context: Context, form: Form, match: Match) -> None:
    """Lower inval, after which the memory is no longer an mbarrier object."""
    (where,) = context.operands
    space = _space(context, match, where)
    _store(context, whole_address(context, where, space), Literal(0), space)


def _store(context: Context, place: Operand, state: Operand, space: Space) -> None:
    context.builder.emit(Op.ST, type=DataType.B64, srcs=(place, state), space=space, volatile=True)


def arrive(context: Context, form: Form, match: Match) -> None:
    """Lower arrive and arrive_drop; the state that they return is the object's previous value."""
    first, where, *counts = context.operands
    space = _space(context, match, where)
    place = whole_address(context, where, space)
    if match.get("within") == "shared::cluster" and not isinstance(first, tree.Sink):
        raise Invalid("an arrival in .shared::cluster cannot return a state")
    if "expect_tx" in match:
        add_transactions(context, place, counts.pop(), space)
    count = _count(context, counts[0]) if counts else Literal(1)
    update = Update.DROP if "arrive_drop" in match else Update.ARRIVE
    if isinstance(first, tree.Sink):
        op, dsts = Op.RED, tuple[Register, ...]()
    else:
        op, dsts = Op.ATOM, (values.destination(context, first, DataType.B64),)
    context.builder.emit(
        op, type=DataType.B64, dsts=dsts, srcs=(place, count), space=space, update=update
    )


def transact(context: Context, form: Form, match: Match) -> None:
    """Lower expect_tx and complete_tx, which add to and subtract from an object's transactions."""
    where, number = context.operands
    space = _space(context, match, where)
    place = whole_address(context, where, space)
    add_transactions(context, place, number, space, complete="complete_tx" in match)


def add_transactions(
    context: Context, place: Operand, number: tree.Operand, space: Space, *, complete: bool = False
) -> None:
    """Emit an update by which the object at ``place`` expects ``number`` bytes more, or fewer if
    they are ``complete``.
    """
    if isinstance(number, tree.Integer):
        if not 0 <= number.value <= MBARRIER_COUNT:
            raise Invalid(
                f"the number of bytes of an mbarrier's transactions must be 0 to {MBARRIER_COUNT},"
                f" not {number.value}"
            )
        signed = -number.value if complete else number.value
        count: Operand = Literal(signed & (1 << 64) - 1)
    else:
        count = _wide(context, values.source(context, number, DataType.U32))
        if complete:
            srcs = (Literal(0), count)
            context.builder.emit(Op.SUB, type=DataType.U64, dsts=(count,), srcs=srcs)
    context.builder.emit(
        Op.RED, type=DataType.B64, srcs=(place, count), space=space, update=Update.TX
    )


def copies_arrive(context: Context, form: Form, match: Match) -> None:
    """Lower cp.async.mbarrier.arrive to an arrival, since all previous copies are complete.

    Without .noinc, the count is first incremented by the number of threads that then arrive.
    """
    (where,) = context.operands
    space = _space(context, match, where)
    place = whole_address(context, where, space)
    update, operand = Update.OR, Literal(0)
    if "noinc" in match:
        update, operand = Update.ARRIVE, Literal(1)
    context.builder.emit(
        Op.RED, type=DataType.B64, srcs=(place, operand), space=space, update=update
    )


def wait(context: Context, form: Form, match: Match) -> None:
    """Lower test_wait and try_wait.

    Their operand specifies a phase, by a state or by a parity. They return true if the object is
    now in another phase.
    """
    first, where, phase, *hints = context.operands
    space, builder = _space(context, match, where), context.builder
    place = whole_address(context, where, space)
    if "parity" in match:
        phase_state: Operand = _wide(context, values.source(context, phase, DataType.U32))
    else:
        phase_state = values.source(context, phase, DataType.B64)
    for hint in hints:
        values.source(context, hint, DataType.U32)
    to = values.predicate_destination(context, first) or builder.unused_predicate()
    object_state = builder.scratch_register(64)
    builder.emit(
        Op.LD, type=DataType.B64, dsts=(object_state,), srcs=(place,), space=space, volatile=True
    )
    builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=Scope.CTA)
    builder.emit(Op.XOR, type=DataType.B64, dsts=(object_state,), srcs=(object_state, phase_state))
    builder.emit(Op.AND, type=DataType.B64, dsts=(object_state,), srcs=(object_state, Literal(1)))
    builder.emit(
        Op.SETP,
        type=DataType.B64,
        dsts=(to, None),
        srcs=(object_state, Literal(0)),
        compare=Compare.NE,
    )


def pending_count(context: Context, form: Form, match: Match) -> None:
    """Lower pending_count, which extracts the number of pending arrivals from a state."""
    first, state = context.operands
    part, builder = context.builder.scratch_register(64), context.builder
    source = values.source(context, state, DataType.B64)
    to = values.destination(context, first, DataType.B32)
    shift, counts = Literal(MBARRIER_PENDING), Literal(MBARRIER_COUNT)
    builder.emit(Op.SHR, type=DataType.U64, dsts=(part,), srcs=(source, shift))
    builder.emit(Op.AND, type=DataType.B64, dsts=(part,), srcs=(part, counts))
    builder.emit(Op.CVT, type=DataType.U32, source_type=DataType.U64, dsts=(to,), srcs=(part,))


_STATE = "ATOM.ARRIVE or .DROP, RED where the state is `_`"
_EXPECTED = f"RED.TX, then {_STATE}"
_WAIT = "LD.VOLATILE, FENCE, XOR, AND, SETP: it never waits"


def _arrivals() -> tuple[Form, ...]:
    words = "{.storing}{.scope}{.within}.b64"
    forms = []
    for opcode in ("mbarrier.arrive", "mbarrier.arrive_drop"):
        forms += [
            Form(f"{opcode}{words}", "s, [a]", Op.ATOM, arrive, isa=_STATE),
            Form(f"{opcode}{words}", "s, [a], n", Op.ATOM, arrive, isa=_STATE),
            Form(f"{opcode}.noComplete{words}", "s, [a], n", Op.ATOM, arrive, isa=_STATE),
            Form(f"{opcode}.expect_tx{words}", "s, [a], n", Op.ATOM, arrive, isa=_EXPECTED),
        ]
    return tuple(forms)


def _waits() -> tuple[Form, ...]:
    words = "{.parity}{.loading}{.scope}{.own}.b64"
    return (
        Form(f"mbarrier.test_wait{words}", "p, [a], s", Op.ATOM, wait, isa=_WAIT),
        Form(f"mbarrier.try_wait{words}", "p, [a], s", Op.ATOM, wait, isa=_WAIT),
        Form(f"mbarrier.try_wait{words}", "p, [a], s, hint", Op.ATOM, wait, isa=_WAIT),
    )


FORMS: Final = (
    Form("mbarrier.init{.own}.b64", "[a], n", Op.ATOM, init, isa="ST.VOLATILE"),
    Form("mbarrier.inval{.own}.b64", "[a]", Op.ATOM, inval, isa="ST.VOLATILE of 0"),
    *_arrivals(),
    *_waits(),
    Form(
        "mbarrier.expect_tx{.relaxed}{.scope}{.within}.b64",
        "[a], n",
        Op.RED,
        transact,
        isa="RED.TX",
    ),
    Form(
        "mbarrier.complete_tx{.relaxed}{.scope}{.within}.b64",
        "[a], n",
        Op.RED,
        transact,
        isa="RED.TX of the negated number",
    ),
    Form("mbarrier.pending_count.b64", "d, s", Op.ATOM, pending_count, isa="SHR, AND, CVT"),
    Form(
        "cp.async.mbarrier.arrive{.noinc}{.own}.b64",
        "[a]",
        Op.RED,
        copies_arrive,
        isa="RED.ARRIVE; without `.noinc` nothing changes",
    ),
)
