"""Module-scope variables: their segment and initial values (PTX ISA, "Variables")."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from vgpu_sim.compiler.lower.symbols import frames, managed_variables, names, references
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.symbols.parameters import element_bytes
from vgpu_sim.compiler.lower.symbols.scopes import Refused
from vgpu_sim.compiler.lower.symbols.shared_memory import is_shared, size_and_alignment
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.lower.values import float_literal, integer_literal
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Function, Relocation, Space, Variable
from vgpu_sim.records import dataclass

MAX_ALIGNMENT_BYTES = 1 << 20  # the segment is aligned to the largest alignment of a variable
_LEAST_ALIGNMENT_BYTES = 512  # largest alignment of a segment
IMAGE_ALIGNMENT_BYTES = 64  # alignment of tensor maps, the largest that parameters need in practice
MAX_SEGMENT_BYTES = 1 << 36
MAX_INITIAL_BYTES = 1 << 26  # of all variables together: padding must not exhaust memory
_POINTER_BYTES = 8
MAX_CONST_BYTES = 64 << 10  # PTX ISA, "Constant State Space"

_MANAGED = ".managed"
# Attributes that concern the host's access or address, which device code does not see.
_ATTRIBUTES = frozenset({_MANAGED, ".unified"})
_SPACES = {tree.Space.GLOBAL: Space.GLOBAL, tree.Space.CONST: Space.CONST}


@dataclass(slots=True)
class Segment:
    """The layout of a module's variables: those placed so far, and those that were refused.

    ``shared`` holds the variables that each block has, and ``local`` those that each thread has. A
    constant bank can be declared as one array of unknown size. ``banks`` maps the number of each
    such bank to the offset of its first byte.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    shared: list[tree.Variable] = field(default_factory=list)
    local: list[tree.Variable] = field(default_factory=list)
    banks: dict[int, int] = field(default_factory=dict)
    end: int = 0
    initial_bytes: int = 0


@dataclass(slots=True)
class _Initial:
    """An initial value under construction: its bytes up to the last one written, and the addresses
    among them. It may have ``most`` bytes.
    """

    most: int
    data: bytearray = field(default_factory=bytearray)
    relocations: list[Relocation] = field(default_factory=list)

    def put(self, at: int, data: bytes) -> None:
        self.data += bytes(max(0, at - len(self.data)))
        self.data[at : at + len(data)] = data


def lay_out(
    module: tree.Module, addresses: Mapping[str, int], findings: Callable[[str], Findings]
) -> Segment:
    """Place all variables of a module in one segment, in order.

    ``addresses`` maps functions' names to their addresses. ``findings`` is called with a variable's
    name; it returns the collector of diagnostics for that variable.
    """
    segment = Segment()
    declared = _definitions(module, findings)
    known = {variable.name: variable for variable in declared}
    functions = {function.name for function in module.functions}
    for variable in declared:
        try:
            if is_shared(variable):
                size_and_alignment(variable)
                segment.shared.append(variable)
            elif variable.space is tree.Space.LOCAL:
                frames.size_and_alignment(variable)
                segment.local.append(variable)
            else:
                _add(segment, variable, addresses)
                _check_names(variable, known, functions, addresses)
                if _is_managed(variable):
                    _add_pointer(segment, variable.name)
                if references.is_reference(variable):
                    marker = references.marker_name(variable.name, variable.type)
                    reserve(segment, marker, references.MARKER_BYTES)
        except Refusal as refusal:
            description = f"{variable.space.value} variable {variable.name!r}"
            segment.refused.setdefault(variable.name, Refused(description))
            segment.variables.pop(variable.name, None)
            findings(variable.name).add(refusal, variable)
    _check_banks(segment, declared, findings)
    return segment


def _check_banks(
    segment: Segment, declared: list[tree.Variable], findings: Callable[[str], Findings]
) -> None:
    """Check the size of each bank of constant memory."""
    for bank in sorted({v.bank for v in declared}):
        own = [v for v in declared if v.space is tree.Space.CONST and v.bank == bank]
        own = [v for v in own if v.linkage is not tree.Linkage.EXTERN]
        size = sum(segment.variables[v.name].size for v in own if v.name in segment.variables)
        if size > MAX_CONST_BYTES:
            message = (
                f"the bank's .const variables have {size} bytes (the limit is {MAX_CONST_BYTES})"
            )
            findings(own[-1].name).add(Invalid(message), own[-1])


def parameter_images(functions: Iterable[Function], end: int) -> Iterator[Variable]:
    """Yield the variables to which launches copy the parameters of kernels.

    They are placed in the module's segment, from byte ``end`` on.
    """
    for function in functions:
        if not function.parameter_image:
            continue
        align = max([IMAGE_ALIGNMENT_BYTES, *(p.align for p in function.parameters)])
        align = min(align, _LEAST_ALIGNMENT_BYTES)
        offset = -(-end // align) * align
        size = function.parameter_bytes
        yield Variable(function.parameter_image, Space.GLOBAL, align, size, offset)
        end = offset + size


def reserve(segment: Segment, name: str, size: int) -> None:
    """Add a variable at the end of the segment. The module does not declare this variable.

    ``size`` is both the variable's size and its alignment in bytes; it is a power of two.
    """
    offset = -(-segment.end // size) * size
    segment.variables[name] = Variable(
        name=name, space=Space.GLOBAL, align=size, size=size, offset=offset
    )
    segment.end = offset + size


def _definitions(module: tree.Module, findings: Callable[[str], Findings]) -> list[tree.Variable]:
    """Return each variable once: a definition replaces its .extern declarations."""
    definitions: dict[str, tree.Variable] = {}
    for declared in module.variables:
        earlier_variable = definitions.get(declared.name)
        if earlier_variable is None or earlier_variable.linkage is tree.Linkage.EXTERN:
            definitions[declared.name] = declared
        elif declared.linkage is not tree.Linkage.EXTERN:
            refusal = Invalid(f"{declared.name!r} is declared twice", declared)
            findings(declared.name).add(refusal, declared)
    return list(definitions.values())


def _check_names(
    declared: tree.Variable,
    known: dict[str, tree.Variable],
    functions: set[str],
    addresses: Mapping[str, int],
) -> None:
    """Check that the module defines the names in an initial value."""
    for name in sorted(() if declared.initial is None else names.in_value(declared.initial)):
        if name in functions:
            if name not in addresses:
                raise Unsupported(
                    f"the address of function {name!r}, which is not a .func defined in this"
                    " module,",
                    declared,
                )
            continue
        if name not in known:
            raise Invalid(f"{name!r} is not declared", declared)
        if known[name].space in (tree.Space.SHARED, tree.Space.LOCAL) or _is_managed(known[name]):
            kind = _MANAGED if _is_managed(known[name]) else known[name].space.value
            raise Unsupported(
                f"the address of {kind} variable {name!r} as an initial value", declared
            )


def _add(segment: Segment, declared: tree.Variable, addresses: Mapping[str, int]) -> None:
    if declared.bank and declared.linkage is tree.Linkage.EXTERN:
        _add_bank(segment, declared)
        return
    _check_kind(declared)
    size, shape = _extent(declared)
    align = declared.align or element_bytes(declared)
    if align > MAX_ALIGNMENT_BYTES:
        raise Unsupported(f"an alignment of more than {MAX_ALIGNMENT_BYTES} bytes", declared)
    offset = -(-segment.end // align) * align
    if offset + size > MAX_SEGMENT_BYTES:
        raise Unsupported(
            f"a module with more than {MAX_SEGMENT_BYTES} bytes of variables",
            declared,
        )
    initial = _Initial(most=MAX_INITIAL_BYTES - segment.initial_bytes)
    if declared.initial is not None:
        if declared.type[1:] not in DATA_TYPES:
            raise Unsupported(f"an initial value of type {declared.type}", declared)
        if declared.linkage is tree.Linkage.COMMON:
            raise Invalid("a .common variable cannot have an initial value", declared)
        _encode(initial, declared, declared.initial, shape, 0)
        _put_functions(initial, addresses)
    segment.variables[declared.name] = Variable(
        name=declared.name,
        space=_SPACES[declared.space],
        align=align,
        size=size,
        offset=offset,
        initial=bytes(initial.data).rstrip(b"\0"),
        relocations=tuple(initial.relocations),
    )
    segment.end = offset + size
    segment.initial_bytes += len(initial.data)


def _is_managed(declared: tree.Variable) -> bool:
    return any(attribute.name == _MANAGED for attribute in declared.attributes)


def _add_pointer(segment: Segment, name: str) -> None:
    """Add the variable with a managed variable's address, which initially is in the segment."""
    pointer = managed_variables.pointer_name(name)
    reserve(segment, pointer, _POINTER_BYTES)
    address = Relocation(0, _POINTER_BYTES, name)
    segment.variables[pointer] = replace(segment.variables[pointer], relocations=(address,))


def _add_bank(segment: Segment, declared: tree.Variable) -> None:
    """Place an array without size, which is the whole bank; several such arrays share it."""
    if declared.dimensions[:1] != (None,) or declared.initial is not None:
        raise Invalid(
            "an .extern variable in a constant bank must be an array without a size", declared
        )
    offset = segment.banks.get(declared.bank)
    if offset is None:
        offset = -(-segment.end // _LEAST_ALIGNMENT_BYTES) * _LEAST_ALIGNMENT_BYTES
        segment.banks[declared.bank] = offset
        segment.end = offset + MAX_CONST_BYTES
    segment.variables[declared.name] = Variable(
        declared.name, Space.CONST, _LEAST_ALIGNMENT_BYTES, MAX_CONST_BYTES, offset
    )


def _put_functions(initial: _Initial, addresses: Mapping[str, int]) -> None:
    """Write the addresses of functions, which are known numbers."""
    for relocation in initial.relocations:
        if relocation.name in addresses:
            number = (
                addresses[relocation.name] + relocation.addend >> relocation.shift
                & (1 << relocation.bits) - 1
            )
            initial.put(relocation.offset, number.to_bytes(relocation.size, "little"))
    initial.relocations = [
        relocation for relocation in initial.relocations if relocation.name not in addresses
    ]


def _check_kind(declared: tree.Variable) -> None:
    if declared.space not in _SPACES:
        raise Unsupported(f"{declared.space.value} variable {declared.name!r}", declared)
    if declared.linkage is tree.Linkage.COMMON and declared.space is not tree.Space.GLOBAL:
        raise Invalid("a .common variable must be in .global space", declared)
    if declared.linkage is tree.Linkage.EXTERN:
        if declared.initial is not None:
            raise Invalid("an .extern variable cannot have an initial value", declared)
        raise Unsupported(f".extern variable {declared.name!r} of another module", declared)
    for attribute in declared.attributes:
        if attribute.name not in _ATTRIBUTES:
            raise Unsupported(f"attribute {attribute.name}", declared)
        if declared.space is not tree.Space.GLOBAL:
            raise Invalid(f"{attribute.name} can be used only for .global variables", declared)
    if declared.count is not None:
        raise Unsupported("a parameterized variable name (name<N>)", declared)


def _extent(declared: tree.Variable) -> tuple[int, tuple[int, ...]]:
    """Return the size in bytes and the number of scalars per dimension, a vector as the last."""
    dimensions = list(declared.dimensions)
    if dimensions and dimensions[0] is None:
        if not isinstance(declared.initial, tree.ValueList):
            raise Invalid("an array without size needs an initial value", declared)
        dimensions[0] = len(declared.initial.elements)
    shape = [extent for extent in dimensions if extent is not None]
    if len(shape) != len(dimensions):
        raise Invalid("only the first dimension may be left out", declared)
    if not all(shape):
        raise Invalid("an array must have at least one element", declared)
    size = element_bytes(declared) * math.prod(shape)
    if declared.vector:
        shape.append(int(declared.vector[2:]))
    return size, tuple(shape)


def _encode(
    initial: _Initial,
    declared: tree.Variable,
    value: tree.InitialValue,
    shape: tuple[int, ...],
    at: int,
) -> None:
    """Write an initial value from byte ``at`` on; elements missing at the end of a list are
    zero.
    """
    if isinstance(value, tree.ValueList):
        if not shape:
            raise Invalid("only an array or a vector can be initialised by a list", declared)
        if len(value.elements) > shape[0]:
            raise Invalid(f"there are more than {shape[0]} initial values", declared)
        row_bytes = DATA_TYPES[declared.type[1:]].bytes * math.prod(shape[1:])
        if at + row_bytes * len(value.elements) > initial.most:
            raise Unsupported(
                f"a module with more than {MAX_INITIAL_BYTES} bytes of initial values",
                declared,
            )
        if len(shape) == 1 and _put_bytes(initial, declared, value, at):
            return
        for index, element in enumerate(value.elements):
            _encode(initial, declared, element, shape[1:], at + index * row_bytes)
        return
    if shape:
        raise Invalid("an array must be initialised by a list", declared)
    _scalar(initial, declared, value, at)


def _put_bytes(initial: _Initial, declared: tree.Variable, value: tree.ValueList, at: int) -> bool:
    """Write a list of plain bytes, the usual form of large tables; return False for other lists."""
    type_ = DATA_TYPES[declared.type[1:]]
    if type_.bytes != 1 or type_.is_float:
        return False
    try:
        data = bytes([element.value for element in value.elements if type(element) is tree.Integer])
    except ValueError:  # a number above 255, or a negative one
        return False
    if len(data) < len(value.elements):
        return False
    initial.put(at, data)
    return True


def _scalar(initial: _Initial, declared: tree.Variable, value: tree.InitialValue, at: int) -> None:
    type_ = DATA_TYPES[declared.type[1:]]
    match value:
        case tree.Integer() if type_.is_float:
            raise Invalid(
                f"the initial value of a .{type_.name.lower()} cannot be an integer", declared
            )
        case tree.Float() if not type_.is_untyped and type_ not in (DataType.F32, DataType.F64):
            raise Invalid(
                f"the initial value of a .{type_.name.lower()} cannot be a float", declared
            )
        case tree.Integer():
            bits = integer_literal(value, type_).bits
        case tree.Float():
            bits = float_literal(value, type_).bits
        case tree.Name() | tree.Offset() | tree.GenericAddress():
            if type_.bits != 64 or type_.is_float:
                raise Unsupported(
                    f"an address as the initial value of a .{type_.name.lower()}",
                    declared,
                )
            initial.relocations.append(_relocation(at, type_, value))
            return
        case tree.MaskedAddress(mask, address):
            initial.relocations.append(_masked_relocation(declared, at, type_, mask, address))
            return
        case _:
            raise Invalid("the initial value of a scalar must be one number or address", declared)
    initial.put(at, bits.to_bytes(type_.bytes, "little"))


_Address = tree.Name | tree.Offset | tree.GenericAddress


def _relocation(at: int, type_: DataType, address: _Address) -> Relocation:
    """Return an address; generic() changes nothing, as all addresses in the segment are generic."""
    if isinstance(address, tree.Name):
        return Relocation(at, type_.bytes, address.text)
    return Relocation(at, type_.bytes, address.base.text, address.addend)


def _masked_relocation(
    declared: tree.Variable, at: int, type_: DataType, mask: int, address: _Address
) -> Relocation:
    """Return the adjacent bits of an address that ``mask(address)`` selects."""
    mask &= 0xFFFF_FFFF_FFFF_FFFF
    shift = (mask & -mask).bit_length() - 1
    bits = mask.bit_count()
    if not mask or mask >> shift != (1 << bits) - 1:
        raise Invalid("a mask must select adjacent bits", declared)
    if type_.is_float or bits > type_.bits:
        raise Invalid(f"a mask of {bits} bits cannot initialise a .{type_.name.lower()}", declared)
    return replace(_relocation(at, type_, address), shift=shift, bits=bits)
