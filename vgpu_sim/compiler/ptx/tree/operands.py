"""Nodes of operands and expressions; constant expressions are already folded."""

from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Integer:
    """A folded integer constant of 64 bits; it is signed unless ``unsigned`` is set."""

    value: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point constant.

    If ``width`` is 32 or 64, ``bits`` is the exact pattern of that width. If it is 0, the
    constant was written as a decimal number, and ``bits`` is its pattern as an f64.
    """

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, variable, parameter, label or function.

    ``component`` is the part after a dot: ``x`` of ``%tid.x``, ``b0`` of a video operand.
    """

    text: str
    line: int
    column: int
    component: str = ""


@dataclass(frozen=True, slots=True)
class Offset:
    """An operand ``name + addend`` with a constant addend."""

    base: Name
    addend: int


@dataclass(frozen=True, slots=True)
class GenericAddress:
    """The generic address of a variable in an initial value: ``generic(name) + addend``."""

    base: Name
    addend: int


@dataclass(frozen=True, slots=True)
class MaskedAddress:
    """One byte of an address, ``0xFF00(name) + addend``, as an element of the initial value of a
    .u8 variable.
    """

    mask: int
    address: "Name | Offset | GenericAddress"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an array, ``name[index]``."""

    base: Name
    index: "Operand"


@dataclass(frozen=True, slots=True)
class Memory:
    """An address in brackets, ``[base, more...]``.

    The parts after the base, if there are any, are coordinates and handles.
    """

    parts: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of operands, ``{a, b, ...}``."""

    elements: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of destinations, ``a|b``."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate, ``!p``."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated operand ``-a`` of a video instruction, where a is not a constant."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments or results ``(a, b, ...)`` of a call."""

    elements: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """The operand ``_``: a destination whose result is discarded."""


Constant = Integer | Float
Operand = (
    Integer
    | Float
    | Name
    | Offset
    | Element
    | Memory
    | Vector
    | Pair
    | Not
    | Negated
    | Arguments
    | Sink
    | GenericAddress
    | MaskedAddress
)
