"""Module-scope variables: their segment and initial values (PTX ISA, "Variables")."""

import math
from dataclasses import dataclass, field

from vgpu_sim.compiler.lower.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.parameters import element_bytes
from vgpu_sim.compiler.lower.scopes import Refused
from vgpu_sim.compiler.lower.shared import extent, is_shared
from vgpu_sim.compiler.lower.types import DATA_TYPES
from vgpu_sim.compiler.lower.values import float_literal, integer_literal
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Space, Variable

MAX_ALIGNMENT_BYTES = 512  # what every device allocation has, so the segment has it too
MAX_SEGMENT_BYTES = 1 << 36
MAX_INITIAL_BYTES = 1 << 28  # padding inside a list must not be a way to exhaust memory
MAX_CONST_BYTES = 64 << 10  # PTX ISA, "Constant State Space"

_SPACES = {tree.Space.GLOBAL: Space.GLOBAL, tree.Space.CONST: Space.CONST}


@dataclass(slots=True)
class Segment:
    """The variables placed so far, those that were refused, and those that each block has."""

    variables: dict[str, Variable] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    shared: list[tree.Variable] = field(default_factory=list)
    end: int = 0


def lay_out(module: tree.Module, findings: Findings) -> Segment:
    """Place all variables of a module in one segment, in order."""
    segment, names = Segment(), set[str]()
    for declared in module.variables:
        try:
            if declared.name in names:
                raise Invalid(f"{declared.name!r} is declared twice", declared)
            names.add(declared.name)
            if is_shared(declared):
                extent(declared)
                segment.shared.append(declared)
            else:
                _add(segment, declared)
        except Refusal as refusal:
            what = f"{declared.space.value} variable {declared.name!r}"
            segment.refused.setdefault(declared.name, Refused(what))
            findings.add(refusal, declared)
    constant_bytes = sum(v.size for v in segment.variables.values() if v.space is Space.CONST)
    if constant_bytes > MAX_CONST_BYTES:
        last = [v for v in module.variables if v.space is tree.Space.CONST][-1]
        message = f"{constant_bytes} bytes of .const variables (the limit is {MAX_CONST_BYTES})"
        findings.add(Invalid(message), last)
    return segment


def _add(segment: Segment, declared: tree.Variable) -> None:
    _check_kind(declared)
    size, shape = _extent(declared)
    align = declared.align or element_bytes(declared)
    if align > MAX_ALIGNMENT_BYTES:
        raise Unsupported(f"an alignment of more than {MAX_ALIGNMENT_BYTES} bytes", declared)
    offset = -(-segment.end // align) * align
    if offset + size > MAX_SEGMENT_BYTES:
        raise Unsupported(f"more than {MAX_SEGMENT_BYTES} bytes of variables", declared)
    initial = b""
    if declared.initial is not None:
        initial = _encode(declared, declared.initial, shape)
    segment.variables[declared.name] = Variable(
        name=declared.name,
        space=_SPACES[declared.space],
        align=align,
        size=size,
        offset=offset,
        initial=initial.rstrip(b"\0"),
    )
    segment.end = offset + size


def _check_kind(declared: tree.Variable) -> None:
    if declared.space not in _SPACES:
        raise Unsupported(f"{declared.space.value} variable {declared.name!r}", declared)
    if declared.linkage in (tree.Linkage.EXTERN, tree.Linkage.COMMON):
        raise Unsupported(f"{declared.linkage.value} variable {declared.name!r}", declared)
    if declared.attributes:
        raise Unsupported(f"attribute {declared.attributes[0].name}", declared)
    if declared.count is not None:
        raise Unsupported("a numbered family of variables", declared)


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
        raise Invalid("an array of no elements", declared)
    size = element_bytes(declared) * math.prod(shape)
    if declared.vector:
        shape.append(int(declared.vector[2:]))
    return size, tuple(shape)


def _encode(declared: tree.Variable, value: tree.InitialValue, shape: tuple[int, ...]) -> bytes:
    """Return the bytes of an initial value; what it leaves out at the end of a list is zero."""
    if isinstance(value, tree.ValueList):
        if not shape:
            raise Invalid("a list initialises an array or a vector", declared)
        if len(value.elements) > shape[0]:
            raise Invalid(f"more than {shape[0]} initial values", declared)
        row_bytes = DATA_TYPES[declared.type[1:]].bytes * math.prod(shape[1:])
        if row_bytes * len(value.elements) > MAX_INITIAL_BYTES:
            raise Unsupported(f"an initial value of more than {MAX_INITIAL_BYTES} bytes", declared)
        rows = [_encode(declared, element, shape[1:]) for element in value.elements]
        return b"".join(row.ljust(row_bytes, b"\0") for row in rows)
    if shape:
        raise Invalid("an array is initialised by a list", declared)
    return _scalar(declared, value)


def _scalar(declared: tree.Variable, value: tree.InitialValue) -> bytes:
    type_ = DATA_TYPES[declared.type[1:]]
    match value:
        case tree.Integer():
            bits = integer_literal(value, type_).bits
        case tree.Float():
            bits = float_literal(value, type_).bits
        case tree.Name() | tree.Offset() | tree.GenericAddress() | tree.MaskedAddress():
            raise Unsupported("an address as initial value", declared)
        case _:
            raise Invalid("a field as initial value of a scalar", declared)
    return bits.to_bytes(type_.bytes, "little")
