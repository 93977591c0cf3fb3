"""Lowers atom, red, fence and membar (PTX ISA 9.7.15)."""

from typing import Final

from vgpu_sim.compiler.lower import halves, mbarrier, values
from vgpu_sim.compiler.lower.addresses import space_of, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    DataType,
    Op,
    Operand,
    Order,
    Register,
    Scope,
    Space,
    Update,
)
from vgpu_sim.isa.families.atomic import PAIR

_BITS = ("b32", "b64")
_WIDE = "b128"
_HALVES = ("f16", "bf16")
_PACKED = ("f16x2", "bf16x2")
_EXTREMA = ("u32", "s32", "u64", "s64")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    "exch": (*_BITS, _WIDE),
    "cas": ("b16", *_BITS, _WIDE),
    "add": ("u32", "s32", "u64", "f32", "f64", *_HALVES, *_PACKED),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), _EXTREMA),
}
"""For each operation of atom and red, the types that it may have."""
_VECTORS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_HALVES, ("v2", "v4", "v8")),
    **dict.fromkeys(_PACKED, ("v2", "v4")),
    "f32": ("v2", "v4"),
}
"""For each type, the vectors that atom and red accept; vectors of .f32 may only be added."""


def _operation(match: Match) -> str:
    return match.get("update") or match["reduction"]


def _check(match: Match) -> None:
    """Raise Invalid if an instruction has modifiers that exclude each other."""
    operation, type_, vector = _operation(match), match["type"], match.get("elements")
    small = type_ in (*_HALVES, *_PACKED)
    if vector is None:
        if type_ not in _TYPES[operation]:
            raise Invalid(f".{operation} does not take .{type_}")
    else:
        operations = ("add",) if type_ == "f32" else ("add", "min", "max")
        if vector not in _VECTORS.get(type_, ()) or operation not in operations:
            raise Invalid(f".{operation}.{vector} does not take .{type_}")
        if (match.get("on") or "global") != "global":
            raise Invalid("vectors can be used only with .global memory")
    if small != ("noftz" in match):
        raise Invalid(f".{type_} {'needs' if small else 'does not take'} .noftz")


def _space(match: Match) -> Space:
    word = match.get("on")
    return Space[word.partition("::")[0].upper()] if word else Space.GENERIC


def _elements(operand: tree.Operand, match: Match) -> tuple[tree.Operand, ...]:
    wide = match["type"] == _WIDE  # the halves of one register
    count = PAIR if wide else int((match.get("elements") or "v1")[1:])
    if isinstance(operand, tree.Sink):
        return (operand,) * count
    if not wide and "elements" not in match:
        return (operand,)
    if not isinstance(operand, tree.Vector) or len(operand.elements) != count:
        expectation = "a register of 128 bits" if wide else f"a vector of {count} elements"
        raise Invalid(f"expected {expectation}")
    return operand.elements


def update(context: Context, form: Form, match: Match) -> None:
    """Lower atom and red; a cache policy changes no result."""
    _check(match)
    operation, word = _operation(match), match["type"]
    count = 2 if operation == "cas" else 1
    operand_count = count + 1 + (form.op is Op.ATOM)
    hint = "L2::cache_hint" in match
    if len(context.operands) != operand_count + hint:
        raise Invalid(f"{form.opcode}.{operation} takes {operand_count + hint} operands here")
    operands = context.operands[:operand_count]
    first = () if form.op is Op.RED else _elements(operands[0], match)
    where, sources = operands[-1 - count], operands[-count:]
    space = space_of(context, where, _space(match))
    place = whole_address(context, where, space)
    data = [e for source in sources for e in _elements(source, match)]
    fields: dict[str, Space | Update] = {"space": space, "update": Update[operation.upper()]}
    _order(context, match, ("release", "acq_rel"))
    if word in _PACKED:
        _update_halves(context, form.op, word, first, place, data, fields)
    else:
        type_ = DataType.B64 if word == _WIDE else DATA_TYPES[word]
        context.builder.emit(
            form.op,
            type=type_,
            dsts=_destinations(context, first, type_),
            srcs=(place, *(values.source(context, element, type_) for element in data)),
            vector=len(data) // count if count == 1 or word == _WIDE else 1,
            **fields,
        )
    _order(context, match, ("acquire", "acq_rel"))


def _order(context: Context, match: Match, words: tuple[str, ...]) -> None:
    """Emit a fence before or after an update, where it must order other accesses."""
    if match.get("sem") in words:
        word = match.get("scope") or "gpu"
        context.builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=Scope[word.upper()])


def _destinations(
    context: Context, elements: tuple[tree.Operand, ...], type_: DataType
) -> tuple[Register, ...]:
    destinations = tuple(values.destination(context, element, type_) for element in elements)
    if len(set(destinations)) != len(destinations):
        raise Unsupported("using one register for two elements of a vector")
    return destinations


def _update_halves(
    context: Context,
    op: Op,
    word: str,
    first: tuple[tree.Operand, ...],
    place: Operand,
    data: list[tree.Operand],
    fields: dict[str, Space | Update],
) -> None:
    """Lower an update of pairs: each half is a separate update, as PTX specifies."""
    pairs = [halves.split(context, values.source(context, e, DataType.B32)) for e in data]
    whole = _destinations(context, first, DataType.B32)
    scratch = context.builder.scratch_register
    half_registers = [(scratch(16), scratch(16)) for _ in whole]
    context.builder.emit(
        op,
        type=DATA_TYPES[word.removesuffix("x2")],
        dsts=tuple(half for pair in half_registers for half in pair),
        srcs=(place, *(half for pair in pairs for half in pair)),
        vector=2 * len(pairs),
        **fields,
    )
    for to, (low, high) in zip(whole, half_registers, strict=True):
        halves.join(context, low, high, to)


_SCOPES = {"gl": Scope.GPU}


def fence(context: Context, form: Form, match: Match) -> None:
    """Lower fence and membar; there is only one proxy, so a proxy fence is an ordinary fence."""
    plain = "cluster" if "cluster" in match else "sys"
    word = match.get("scope") or match.get("level") or plain
    strong = form.opcode == "membar" and "level" in match
    order = Order.SC if strong or match.get("fencing") == "sc" else Order.ACQ_REL
    context.builder.emit(Op.FENCE, order=order, scope=_SCOPES.get(word) or Scope[word.upper()])


_NOTE = (
    "`and or xor exch cas` take .b32 .b64, `exch cas` .b128 too, `cas` .b16; `inc dec` .u32;"
    " `min max` .u32 .s32 .u64 .s64; `add` .u32 .s32 .u64 .f32 .f64 and, with `.noftz`, halves;"
    " vectors (.global alone) `add min max` of halves, `add` of .f32. A displacement is added"
    " first; pairs are taken apart"
)
_ATOM = "atom{.sem}{.scope}{.on}.update{.noftz}"
_RED = "red{.sem}{.scope}{.on}.reduction{.noftz}"
_ANY = ("b16", *_BITS, _WIDE, *_EXTREMA, "f32", "f64", *_HALVES, *_PACKED)


def _updates(op: Op, words: str, operands: str, types: tuple[str, ...] = _ANY) -> tuple[Form, ...]:
    """Return the rows of an update without and with a cache policy, which is a hint."""
    plain, hinted = (f"{words}{hint}{{.elements}}.type" for hint in ("", ".L2::cache_hint"))
    return (
        Form(plain, operands, op, update, types, _NOTE, any_order=True),
        Form(hinted, f"{operands}, policy", op, update, types, _NOTE, any_order=True),
    )


FORMS: Final = (
    *mbarrier.FORMS,
    *_updates(Op.ATOM, _ATOM, "d, [a], b"),
    *_updates(Op.ATOM, _ATOM, "d, [a], b, c"),
    *_updates(Op.RED, _RED, "[a], b", tuple(t for t in _ANY[1:] if t != _WIDE)),
    Form("membar.level", "", Op.FENCE, fence),
    Form("membar.proxy.alias", "", Op.FENCE, fence),
    Form("membar.proxy.async{.on}", "", Op.FENCE, fence),
    Form("fence{.fencing}.scope", "", Op.FENCE, fence),
    Form("fence.acquire.sync_restrict::shared::cluster.cluster", "", Op.FENCE, fence),
    Form("fence.release.sync_restrict::shared::cta.cluster", "", Op.FENCE, fence),
    Form("fence.mbarrier_init.release.cluster", "", Op.FENCE, fence),
    Form("fence.proxy.alias", "", Op.FENCE, fence),
    Form("fence.proxy.alias.ordering.sys", "", Op.FENCE, fence),
    Form("fence.proxy.async{.on}", "", Op.FENCE, fence),
    Form("fence.proxy.async::generic.ordering.restriction.scope", "", Op.FENCE, fence),
    Form("fence.proxy.tensormap::generic.release.scope", "", Op.FENCE, fence),
    Form("fence.proxy.tensormap::generic.acquire.scope", "[a], size", Op.FENCE, fence),
)
