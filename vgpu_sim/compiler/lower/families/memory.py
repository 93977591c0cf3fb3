"""Lowers ld and st."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values, wide
from vgpu_sim.compiler.lower.addresses import (
    WINDOWS,
    base_and_displacement,
    space_of,
    split,
    whole_address,
    whole_parameter_address,
)
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import WORDS, Form, Lower, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import LocalVariable
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    Cache,
    DataType,
    Literal,
    Op,
    Operand,
    Order,
    Parameter,
    Scope,
    Space,
    Update,
)
from vgpu_sim.isa.families.atomic import PAIR

MAX_VECTOR_BYTES = 16
MAX_GLOBAL_VECTOR_BYTES = 32


_WIDE = "b128"
_WIDE_SPACES = (Space.GLOBAL, Space.GENERIC)
_HINTED = {"L1::no_allocate": Cache.CG, "L1::evict_first": Cache.CS}


def _elements(operand: tree.Operand, match: Match) -> tuple[tree.Operand, ...]:
    """Return the data operands: the elements of a vector, or the one operand."""
    count = int(match["vec"][1:]) if "vec" in match else 1
    if match["type"] == _WIDE:  # the halves of one register
        if count != 1 or not isinstance(operand, tree.Vector) or len(operand.elements) != PAIR:
            raise Invalid("expected a register of 128 bits")
        return operand.elements
    if isinstance(operand, tree.Vector):
        if len(operand.elements) != count:
            raise Invalid(f"expected {count} elements, found {len(operand.elements)}")
        return operand.elements
    if count != 1:
        raise Invalid(f"expected a vector of {count} elements")
    return (operand,)


def _type_of(form: Form, match: Match) -> DataType:
    """Return the type of an element; 128 bits are two elements of 64."""
    return DataType.B64 if match["type"] == _WIDE else one_word.type_of(form, match)


def _space(match: Match) -> Space:
    word = match.get("space") or match.get("written") or match.get("on") or match.get("global")
    return Space[word.partition("::")[0].upper()] if word else Space.GENERIC


def _space_of(context: Context, match: Match, where: tree.Operand) -> Space:
    return space_of(context, where, _space(match), WINDOWS)


def load(context: Context, form: Form, match: Match) -> None:
    """Lower ld from global, constant, shared and generic memory; cache hints change no result."""
    data, where, *_ = context.operands
    type_, space = _type_of(form, match), _space_of(context, match, where)
    if "loading" in match and match["type"] == _WIDE and space is not Space.LOCAL:
        _load_wide(context, match, data, whole_address(context, where, space), space)
    else:
        base, displacement = base_and_displacement(context, where, space)
        _load(context, match, data, type_, space, (base,), displacement)
    if match.get("loading") == "acquire":
        _order(context, match)


def _load_wide(
    context: Context, match: Match, data: tree.Operand, place: Operand, space: Space
) -> None:
    """Load 128 bits in one step: by a compare-and-swap of zeros for zeros."""
    dsts = tuple(values.destination(context, e, DataType.B64) for e in _elements(data, match))
    zeros = (Literal(0),) * (2 * PAIR)
    wide.exchange(context, Update.CAS, dsts, (place, *zeros), space)


def _order(context: Context, match: Match) -> None:
    """Order an acquire load before the following accesses, or previous ones before a release
    store.
    """
    scope = Scope[match["scope"].upper()] if "scope" in match else Scope.SYS
    context.builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=scope)


def load_parameter(context: Context, form: Form, match: Match) -> None:
    """Lower ld.param of a kernel parameter.

    The address stays symbolic, as an offset into the parameter block.
    """
    type_ = _type_of(form, match)
    data, where = context.operands
    base, addend = _name_and_offset(where)
    binding = context.scope.find(base.text)
    if binding is not None and isinstance(binding[1], LocalVariable):
        count = len(_elements(data, match))
        _check_inside(binding[1], addend, count * type_.bytes, base, padded=True)
        _load(context, match, data, type_, Space.LOCAL, (binding[1].symbol(addend),), 0)
        return
    parameter = context.parameters.get(base.text)
    if parameter is None or binding is not None:
        if context.register(base) is not None:
            # A kernel's parameters have addresses in their image, a function's in local memory.
            space = Space.GLOBAL if context.leave is None else Space.LOCAL
            source, displacement = base_and_displacement(context, where, space)
            source = whole_parameter_address(context, source)
            _load(context, match, data, type_, space, (source,), displacement)
            return
        raise Invalid(f"{base.text!r} is not a parameter", base)
    size = len(_elements(data, match)) * type_.bytes
    if addend < 0 or addend + size > _padded_end(parameter):
        raise Invalid(
            f"the access is outside of parameter {base.text!r} ({parameter.size} bytes)", base
        )
    if addend + size > parameter.size:
        _load_beginning(context, match, type_, parameter, addend)
        return
    _load(context, match, data, type_, Space.PARAM, (), parameter.offset + addend)


def _load_beginning(
    context: Context, match: Match, type_: DataType, parameter: Parameter, addend: int
) -> None:
    """Load the part of a vector that is within a parameter; the rest, beyond its end, is zeros."""
    elements = _elements(context.operands[0], match)
    _check_vector(elements, type_, Space.PARAM, Space.PARAM)
    for place, element in enumerate(elements, start=addend // type_.bytes):
        register = values.destination(context, element, type_, wider=True)
        begin = place * type_.bytes
        if begin + type_.bytes <= parameter.size:
            offset = parameter.offset + begin
            context.builder.emit(
                Op.LD, type=type_, dsts=(register,), space=Space.PARAM, displacement=offset
            )
        elif begin < parameter.size:
            raise Unsupported(
                "reading a vector element that extends beyond the end of its parameter"
            )
        else:
            context.builder.emit(Op.MOV, type=type_, dsts=(register,), srcs=(Literal(0),))


def _padded_end(variable: LocalVariable | Parameter) -> int:
    """Return the end up to which an access that begins in a parameter may extend.

    An access no wider than the alignment ends before memory that it may not touch. LLVM reads
    vectors of four for structures of three, and marks it with the pragma ``used_bytes_mask``.
    """
    return -(-variable.size // variable.align) * variable.align


def _name_and_offset(where: tree.Operand) -> tuple[tree.Name, int]:
    """Return the name in a parameter's address, and the byte offset."""
    if not isinstance(where, tree.Memory) or len(where.parts) != 1:
        raise Invalid("expected an address in brackets")
    base, addend = split(where.parts[0])
    if not isinstance(base, tree.Name):
        raise Invalid("expected the name of a parameter")
    return base, addend


def _check_inside(
    variable: LocalVariable, offset: int, size: int, at: tree.Name, *, padded: bool = False
) -> None:
    limit = _padded_end(variable) if padded else variable.size
    if offset < 0 or offset + size > limit:
        raise Invalid(f"the access is outside of parameter {at.text!r} ({variable.size} bytes)", at)


def store_parameter(context: Context, form: Form, match: Match) -> None:
    """Lower st.param to an argument of a call, or to a result of the function."""
    type_ = _type_of(form, match)
    where, data = context.operands
    base, addend = _name_and_offset(where)
    binding = context.scope.find(base.text)
    if binding is None or not isinstance(binding[1], LocalVariable):
        raise Invalid(f"{base.text!r} is neither an argument nor a result", base)
    elements = _elements(data, match)
    _check_vector(elements, type_, Space.PARAM, Space.PARAM)
    _check_inside(binding[1], addend, len(elements) * type_.bytes, base)
    srcs = tuple(values.source(context, element, type_, wider=True) for element in elements)
    context.builder.emit(
        Op.ST,
        type=type_,
        srcs=(binding[1].symbol(addend), *srcs),
        space=Space.LOCAL,
        vector=len(elements),
    )


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
    _check_vector(elements, type_, space, _space(match))
    alone = len(elements) == 1
    dsts = tuple(
        None
        if isinstance(element, tree.Sink) and not alone
        else values.destination(context, element, type_, wider=True)
        for element in elements
    )
    written = [register for register in dsts if register is not None]
    if len(set(written)) != len(written):
        raise Unsupported("using one register for two elements of a vector")
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
        volatile="volatile" in match or "loading" in match,
        read_only="nc" in match,
        cache=_cache(match) if space in _WIDE_SPACES else Cache.CA,
    )


def _cache(match: Match) -> Cache:
    """Return a load's cache operator for the first level, or its hint for that level."""
    if "lcache" in match:
        return Cache[match["lcache"].upper()]
    return _HINTED.get(match.get("evict") or "", Cache.CA)


def _check_vector(
    elements: tuple[tree.Operand, ...], type_: DataType, space: Space, stated_space: Space
) -> None:
    """Check a vector's size: at most 16 bytes, through global and generic addresses 32."""
    size = len(elements) * type_.bytes
    limit_bytes = MAX_GLOBAL_VECTOR_BYTES if stated_space in _WIDE_SPACES else MAX_VECTOR_BYTES
    if size > limit_bytes:
        raise Invalid(f"the access is larger than {limit_bytes} bytes")
    if size > MAX_VECTOR_BYTES and space not in _WIDE_SPACES:
        raise Unsupported(f"an access of {size} bytes to a {space.name.lower()} variable")


def store(context: Context, form: Form, match: Match) -> None:
    """Lower st to global, shared and generic memory; cache hints change no result."""
    where, data, *_ = context.operands
    type_, space = _type_of(form, match), _space_of(context, match, where)
    elements = _elements(data, match)
    _check_vector(elements, type_, space, _space(match))
    srcs = tuple(values.source(context, element, type_, wider=True) for element in elements)
    if match.get("storing") == "release":
        _order(context, match)
    if "storing" in match and match["type"] == _WIDE and space is not Space.LOCAL:
        wide.store(context, whole_address(context, where, space), srcs, space)
        return
    base, displacement = base_and_displacement(context, where, space)
    context.builder.emit(
        Op.ST,
        type=type_,
        srcs=(base, *srcs),
        space=space,
        vector=len(elements),
        displacement=displacement,
        volatile="volatile" in match or "storing" in match,
    )


_MEMORY = ("b8", "u8", "s8", *WORDS, _WIDE)
_HINTS = "{.evict}{.l2evict}{.policy}"
_LOAD_NOTE = "cache hints are dropped; `.b128` is two of 64 bits"
_ACQUIRE_NOTE = "VOLATILE, before FENCE for `.acquire`; cache hints are dropped; `.b128`: ATOM.CAS"
_RELEASE_NOTE = "VOLATILE, after FENCE for `.release`; cache hints are dropped; `.b128`: ATOM.EXCH"


def _with_hint(
    pattern: str, operands: str, op: Op, lower: Lower, note: str = _LOAD_NOTE
) -> tuple[Form, ...]:
    """Return the rows of a form without and with a cache policy operand, which is a hint."""
    plain, hinted = (pattern.replace("{.policy}", word) for word in ("", ".L2::cache_hint"))
    return (
        Form(plain, operands, op, lower, _MEMORY, note, any_order=True),
        Form(hinted, f"{operands}, policy", op, lower, _MEMORY, note, any_order=True),
    )


def _any(pattern: str, operands: str, op: Op, lower: Lower, note: str = "") -> Form:
    return Form(pattern, operands, op, lower, _MEMORY, note, any_order=True)


FORMS: Final = (
    *(
        _any(f"ld{{.weak}}.{space}{{.lcache}}{{.vec}}.type", "d, [a]", Op.LD, load_parameter)
        for space in ("param", "param::entry", "param::func")
    ),
    *(
        _any(f"st{{.weak}}.{space}{{.scache}}{{.vec}}.type", "[a], b", Op.ST, store_parameter)
        for space in ("param", "param::func")
    ),
    *_with_hint(
        f"ld{{.weak}}{{.space}}{{.lcache}}{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        load,
    ),
    *_with_hint(
        f"ld{{.weak}}.global{{.lcache}}.nc{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        load,
    ),
    _any("ld{.global}{.nc}.proxy::readonly{.vec}.type", "d, [a]", Op.LD, load),
    Form("ldu{.global}{.vec}.type", "d, [a]", Op.LD, load, _MEMORY),
    _any("ld.volatile{.written}{.prefetch}{.vec}.type", "d, [a]", Op.LD, load),
    *_with_hint(
        f"ld.loading.scope{{.on}}{{.lcache}}{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        load,
        _ACQUIRE_NOTE,
    ),
    _any("ld.mmio.loading.sys{.global}.type", "d, [a]", Op.LD, load, _ACQUIRE_NOTE),
    *_with_hint(
        f"st{{.weak}}{{.written}}{{.scache}}{_HINTS}{{.vec}}.type",
        "[a], b",
        Op.ST,
        store,
    ),
    _any("st.volatile{.written}{.vec}.type", "[a], b", Op.ST, store),
    *_with_hint(
        f"st.storing.scope{{.on}}{{.scache}}{_HINTS}{{.vec}}.type",
        "[a], b",
        Op.ST,
        store,
        _RELEASE_NOTE,
    ),
    _any("st.mmio.storing.sys{.global}.type", "[a], b", Op.ST, store, _RELEASE_NOTE),
)
