"""Lowers cp.async.bulk and cp.reduce.async.bulk (PTX ISA 9.7.10.28).

A copy is complete when its instruction has executed: the number of its bytes is then subtracted
from the transactions of its mbarrier, and there is no group to wait for.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import base_and_displacement, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Lower, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand, Space
from vgpu_sim.records import dataclass

COMPLETES: Final = "mbarrier::complete_tx::bytes"
MULTICAST: Final = "multicast::cluster"
COMPLETION: Final = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], %size;"
HALVES: Final = ("f16", "bf16")
_STEP_BYTES: Final = 16
_BITS: Final = {Space.GLOBAL: 64, Space.SHARED: 32}
_WHOLE: Final = ("u32", "s32", "u64", "s64")
REDUCTIONS: Final = {
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    "add": ("u32", "s32", "u64", *HALVES, "f32", "f64"),
    "min": (*_WHOLE, *HALVES),
    "max": (*_WHOLE, *HALVES),
    "inc": ("u32",),
    "dec": ("u32",),
}
"""For each operation of a bulk reduction, the types that it may have in global memory."""
_SHARED_REDUCTIONS: Final = {
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
}


def check_size(size: tree.Operand) -> None:
    """Raise Invalid if the size of a bulk copy is a constant that is not a multiple of 16, or that
    does not fit in 32 bits.
    """
    if not isinstance(size, tree.Integer):
        return
    if size.value >> 32:
        raise Invalid(f"the size of a bulk copy has 32 bits; {size.value} does not fit")
    if size.value % _STEP_BYTES:
        raise Invalid(
            f"the size of a bulk copy must be a multiple of {_STEP_BYTES} bytes, not {size.value}"
        )


@dataclass(frozen=True, slots=True)
class _Loop:
    """A bulk copy as a loop: ``step`` is PTX for the part of ``step_bytes`` at %to and %from."""

    kind: str
    to: Space
    source: Space
    step: str
    step_bytes: int

    def function(self, *, completes: bool, multicast: bool) -> tree.Function:
        """Return the code for a copy that completes transactions of an mbarrier, or of which only
        those blocks get the bytes whose bit in a mask is set.
        """
        to, source = _BITS[self.to], _BITS[self.source]
        parameters = f"b{to} %first_to, b{source} %first_from, b32 %size"
        parameters += ", b32 %bar" * completes + ", b16 %mask" * multicast
        name = f"tessera.bulk.{self.kind}{'.completes' * completes}{'.multicast' * multicast}"
        registers = f"""
          {MULTICAST_REGISTERS if multicast else ""}
          .reg .b{to} %to; .reg .b{source} %from; .reg .b32 %rest; .reg .b64 %v<2>; .reg .pred %p;
          .reg .b16 %w16, %x16; .reg .b32 %w32; .reg .b64 %w64;
        """
        body = f"""
          and.b32 %rest, %size, {_STEP_BYTES - 1};
          setp.ne.u32 %p, %rest, 0;
          @%p trap;
          mov.b{to} %to, %first_to;
          mov.b{source} %from, %first_from;
          mov.b32 %rest, %size;
          setp.eq.u32 %p, %rest, 0;
          @%p bra DONE;
        NEXT:
          {self.step}
          add.u{to} %to, %to, {self.step_bytes};
          add.u{source} %from, %from, {self.step_bytes};
          sub.u32 %rest, %rest, {self.step_bytes};
          setp.ne.u32 %p, %rest, 0;
          @%p bra NEXT;
        DONE:
          {COMPLETION if completes else ""}
        """
        if multicast:
            body = for_each_block(body, ("%first_to", "%bar"))
        return library.function(name, parameters, registers, body)

    def emit(self, context: Context, match: Match) -> None:
        target, source, size, *remaining_operands = context.operands
        check_size(size)
        actuals: list[Operand] = [
            whole_address(context, target, self.to),
            whole_address(context, source, self.source),
            values.source(context, size, DataType.U32),
        ]
        completes, multicast = COMPLETES in match, MULTICAST in match
        if completes:
            actuals.append(whole_address(context, remaining_operands.pop(0), Space.SHARED))
        if multicast:
            actuals.append(values.source(context, remaining_operands.pop(0), DataType.U16))
        code = self.function(completes=completes, multicast=multicast)
        library.emit(context, code, actuals)


def for_each_block(body: str, places: Sequence[str], *, paired: str = "") -> str:
    """Return PTX that executes ``body`` for each block of the cluster that %mask names.

    ``places`` are registers with addresses of shared memory, which are mapped to the block. The
    register ``paired``, one of these, is mapped to the block of the same pair whose rank is odd
    if the rank in its address, or else that of the executing block, is odd.
    """
    named = [(place, f"%mapped{n}") for n, place in enumerate(places)]
    saves = " ".join(f"mov.b32 {mapped}, {place};" for place, mapped in named)
    maps = " ".join(
        f"mapa.shared::cluster.u32 {place}, {mapped}, {'%twin' if place == paired else '%block'};"
        for place, mapped in named
    )
    if paired:
        saves += f"getctarank.shared::cluster.u32 %odd, {paired}; and.b32 %odd, %odd, 1;"
        maps = f"and.b32 %twin, %block, 0xfffffffe; or.b32 %twin, %twin, %odd; {maps}"
    return f"""
          {saves} mov.b32 %block, 0;
        BLOCK:
          cvt.u32.u16 %chosen, %mask; shr.b32 %chosen, %chosen, %block;
          and.b32 %chosen, %chosen, 1; setp.eq.u32 %other, %chosen, 0;
          @%other bra NEXT_BLOCK;
          {maps}
          {body}
        NEXT_BLOCK:
          add.u32 %block, %block, 1; mov.b32 %chosen, %cluster_nctarank;
          setp.lt.u32 %other, %block, %chosen; @%other bra BLOCK;
        """


MULTICAST_REGISTERS: Final = (
    ".reg .b32 %mapped<2>, %block, %chosen, %twin, %odd; .reg .pred %other;"
)


def _copy_loop(to: Space, source: Space) -> _Loop:
    words = "{%v0, %v1}"
    step = f"ld.volatile.{_word(source)}.v2.b64 {words}, [%from];"
    step += f" st.volatile.{_word(to)}.v2.b64 [%to], {words};"
    return _Loop(f"{_word(to)}.{_word(source)}", to, source, step, _STEP_BYTES)


def copy_from_shared() -> tree.Function:
    """Return the code of a copy to global memory: its parameters are the addresses of target and
    source, and the number of bytes.
    """
    loop = _copy_loop(Space.GLOBAL, Space.SHARED)
    return loop.function(completes=False, multicast=False)


def copy(context: Context, form: Form, match: Match) -> None:
    """Lower cp.async.bulk: a loop of loads and stores of 16 bytes."""
    to, source = Space.SHARED, Space.GLOBAL if "global" in match else Space.SHARED
    if "bulk_group" in match:
        to, source = source, to
    _copy_loop(to, source).emit(context, match)


def reduce(context: Context, form: Form, match: Match) -> None:
    """Lower cp.reduce.async.bulk: a loop of updates, each of one element or of two halves."""
    to = Space.GLOBAL if "global" in match else Space.SHARED
    operation, type_ = match["fold"], match["type"]
    legal = REDUCTIONS if to is Space.GLOBAL else _SHARED_REDUCTIONS
    if type_ not in legal[operation]:
        raise Invalid(f".{operation} of .{type_} does not exist in .{_word(to)} memory")
    rounded = operation == "add" and type_ in HALVES
    if rounded != ("noftz" in match):
        raise Invalid(f".{operation}.{type_} {'needs' if rounded else 'does not take'} .noftz")
    step, step_bytes = update_words(operation, type_, to)
    kind = f"reduce.{_word(to)}.{operation}.{type_}"
    _Loop(kind, to, Space.SHARED, step, step_bytes).emit(context, match)


def update_words(
    operation: str, type_: str, space: Space, to: str = "%to", source: str = "%from"
) -> tuple[str, int]:
    """Return PTX that updates the element at ``to`` by that at ``source``, and its bytes.

    There is no scalar minimum and maximum of halves in memory: these are two elements.
    """
    bits = int(type_.lstrip("bfsu"))
    red = f"red.{_word(space)}.{operation}"
    if operation in ("min", "max") and type_ in HALVES:
        load = f"ld.shared.v2.b16 {{%w16, %x16}}, [{source}];"
        return f"{load} {red}.noftz.v2.{type_} [{to}], {{%w16, %x16}};", 4
    rounding = ".noftz" if type_ in HALVES else ""
    update = f"{red}{rounding}.{type_} [{to}], %w{bits};"
    return f"ld.shared.b{bits} %w{bits}, [{source}]; {update}", bits // 8


def _word(space: Space) -> str:
    return space.name.lower()


def prefetch(context: Context, form: Form, match: Match) -> None:
    """Check the operands of a prefetch, and emit nothing: it is a hint."""
    where, size, *_ = context.operands
    base_and_displacement(context, where, Space.GLOBAL)
    check_size(size)
    values.source(context, size, DataType.U32)


def with_hint(
    pattern: str, operands: str, op: Op, lower: Lower, isa: str, types: tuple[str, ...] = ()
) -> tuple[Form, ...]:
    """Return the rows of a form without and with a cache policy, which is a hint."""
    plain, policy = (pattern.replace("{policy}", word) for word in ("", ".L2::cache_hint"))
    return (
        Form(plain, operands, op, lower, types, isa),
        Form(policy, f"{operands}, policy", op, lower, types, isa),
    )


_COPY = "a loop of LD and ST of 16 bytes"
_COPY_AND_COMPLETE = f"{_COPY}, then RED.TX"
_REDUCE = "a loop of LD and RED"
_TYPES = tuple(dict.fromkeys(type_ for types in REDUCTIONS.values() for type_ in types))
_IN = f"cp.async.bulk.near.global.{COMPLETES}"

FORMS: Final = (
    *with_hint(f"{_IN}{{policy}}", "[d], [a], size, [bar]", Op.LD, copy, _COPY_AND_COMPLETE),
    *with_hint(f"cp.async.bulk.shared::cluster.global.{COMPLETES}.{MULTICAST}{{policy}}",
            "[d], [a], size, [bar], mask", Op.LD, copy, _COPY_AND_COMPLETE),
    Form(f"cp.async.bulk.shared::cluster.shared::cta.{COMPLETES}", "[d], [a], size, [bar]",
         Op.LD, copy, isa=_COPY_AND_COMPLETE),
    *with_hint("cp.async.bulk.global.shared::cta.bulk_group{policy}", "[d], [a], size", Op.LD, copy,
            _COPY),
    *with_hint("cp.reduce.async.bulk.global.shared::cta.bulk_group{policy}.fold{.noftz}.type",
            "[d], [a], size", Op.RED, reduce, _REDUCE, _TYPES),
    Form(f"cp.reduce.async.bulk.shared::cluster.shared::cta.{COMPLETES}.fold.type",
         "[d], [a], size, [bar]", Op.RED, reduce, _TYPES, f"{_REDUCE}, then RED.TX"),
    *with_hint("cp.async.bulk.hint.L2.global{policy}", "[a], size", Op.NOP, prefetch,
            "nothing: a hint"),
)  # fmt: skip
