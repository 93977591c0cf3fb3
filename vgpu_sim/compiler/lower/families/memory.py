"""ld and st."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.addresses import address, split
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.forms import WORDS, Form, Lower, Match
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand, Space

MAX_VECTOR_BYTES = 16


def _elements(operand: tree.Operand, match: Match) -> tuple[tree.Operand, ...]:
    """Return the data operands: the elements of a vector, or the one operand."""
    count = int(match["vec"][1:]) if "vec" in match else 1
    if isinstance(operand, tree.Vector):
        if len(operand.elements) != count:
            raise Invalid(f"expected {count} elements, found {len(operand.elements)}")
        return operand.elements
    if count != 1:
        raise Invalid(f"expected a vector of {count} elements")
    return (operand,)


def _space(match: Match) -> Space:
    word = match.get("space") or match.get("written") or match.get("global")
    return Space[word.removesuffix("::cta").upper()] if word else Space.GENERIC


def load(context: Context, form: Form, match: Match) -> None:
    """Lower ld of global, constant, shared and generic memory; cache hints change no result."""
    type_, space = one_word.type_of(form, match), _space(match)
    data, where, *_ = context.operands
    base, displacement = address(context, where, space)
    _load(context, match, data, type_, space, (base,), displacement)


def load_parameter(context: Context, form: Form, match: Match) -> None:
    """Lower ld.param of a kernel parameter: it stays symbolic, as an offset into the block."""
    type_ = one_word.type_of(form, match)
    data, where = context.operands
    if not isinstance(where, tree.Memory) or len(where.parts) != 1:
        raise Invalid("expected an address in brackets")
    base, addend = split(where.parts[0])
    if not isinstance(base, tree.Name):
        raise Invalid("expected the name of a parameter")
    parameter = context.parameters.get(base.text)
    if parameter is None or context.scope.find(base.text) is not None:
        if context.register(base) is not None:
            raise Unsupported("ld.param through a register", base)
        raise Invalid(f"{base.text!r} is not a parameter", base)
    count = len(_elements(data, match))
    if addend < 0 or addend + count * type_.bytes > parameter.size:
        raise Invalid(f"outside of parameter {base.text!r} ({parameter.size} bytes)", base)
    _load(context, match, data, type_, Space.PARAM, (), parameter.offset + addend)


def _load(
    context: Context,
    match: Match,
    data: tree.Operand,
    type_: DataType,
    space: Space,
    srcs: tuple[Operand, ...],
    displacement: int,
) -> None:
    elements = _elements(data, match)
    _check_vector(elements, type_)
    alone = len(elements) == 1
    dsts = tuple(
        None
        if isinstance(element, tree.Sink) and not alone
        else values.destination(context, element, type_, wider=True)
        for element in elements
    )
    written = [register for register in dsts if register is not None]
    if len(set(written)) != len(written):
        raise Invalid("two elements of the vector are the same register")
    if not written:
        dsts = (values.destination(context, elements[0], type_), *dsts[1:])
    context.builder.emit(
        Op.LD,
        type=type_,
        dsts=dsts,
        srcs=srcs,
        space=space,
        vector=len(elements),
        displacement=displacement,
        volatile="volatile" in match,
        read_only="nc" in match,
    )


def _check_vector(elements: tuple[tree.Operand, ...], type_: DataType) -> None:
    if len(elements) * type_.bytes > MAX_VECTOR_BYTES:
        raise Unsupported(f"an access of more than {MAX_VECTOR_BYTES} bytes")


def store(context: Context, form: Form, match: Match) -> None:
    """Lower st to global, shared and generic memory; cache hints change no result."""
    type_, space = one_word.type_of(form, match), _space(match)
    where, data, *_ = context.operands
    elements = _elements(data, match)
    _check_vector(elements, type_)
    base, displacement = address(context, where, space)
    srcs = tuple(values.source(context, element, type_, wider=True) for element in elements)
    context.builder.emit(
        Op.ST,
        type=type_,
        srcs=(base, *srcs),
        space=space,
        vector=len(elements),
        displacement=displacement,
        volatile="volatile" in match,
    )


_MEMORY = ("b8", "u8", "s8", *WORDS)
_HINTS = "{.evict}{.l2evict}{.policy}"
_LOAD_NOTE = "cache hints are dropped"


def _hinted(pattern: str, operands: str, op: Op, lower: Lower) -> tuple[Form, ...]:
    """Return a form without and with a cache policy operand, which is a hint like the rest."""
    return (
        Form(pattern.replace("{.policy}", ""), operands, op, lower, _MEMORY, _LOAD_NOTE),
        Form(
            pattern.replace("{.policy}", ".L2::cache_hint"),
            f"{operands}, policy",
            op,
            lower,
            _MEMORY,
            _LOAD_NOTE,
        ),
    )


FORMS: Final = (
    Form("ld.param{.vec}.type", "d, [a]", Op.LD, load_parameter, _MEMORY),
    Form("ld.param::entry{.vec}.type", "d, [a]", Op.LD, load_parameter, _MEMORY),
    *_hinted(
        f"ld{{.weak}}{{.space}}{{.lcache}}{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        load,
    ),
    *_hinted(
        f"ld{{.weak}}.global{{.lcache}}.nc{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        load,
    ),
    Form("ld.volatile{.written}{.prefetch}{.vec}.type", "d, [a]", Op.LD, load, _MEMORY),
    *_hinted(
        f"st{{.weak}}{{.written}}{{.scache}}{_HINTS}{{.vec}}.type",
        "[a], b",
        Op.ST,
        store,
    ),
    Form("st.volatile{.written}{.vec}.type", "[a], b", Op.ST, store, _MEMORY),
)
