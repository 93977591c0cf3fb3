"""Nodes of operands and expressions; constant expressions are folded already."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Integer:
    """A folded integer constant: a 64-bit value, signed or (``unsigned``) not."""

    value: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point constant. ``width`` 32 or 64: exact ``bits``; 0: a decimal, bits of f64."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, variable, parameter, label or function.

    ``component`` is what follows a dot: ``x`` of ``%tid.x``, ``b0`` of a video operand.
    """

    text: str
    line: int
    column: int
    component: str = ""


@dataclass(frozen=True, slots=True)
class Offset:
    """``name + addend`` with a constant addend."""

    base: Name
    addend: int


@dataclass(frozen=True, slots=True)
class GenericAddress:
    """``generic(name) + addend``: the generic address of a variable, in an initial value."""

    base: Name
    addend: int


@dataclass(frozen=True, slots=True)
class MaskedAddress:
    """``0xFF00(name) + addend``: one byte of an address, in an initial value of ``.u8``."""

    mask: int
    address: "Name | Offset | GenericAddress"


@dataclass(frozen=True, slots=True)
class Element:
    """``name[index]``."""

    base: Name
    index: "Operand"


@dataclass(frozen=True, slots=True)
class Memory:
    """``[base, more...]``: an address, with coordinates and further handles where they exist."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    elements: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two destinations."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Negated:
    """``-a`` of something that is no constant (video instructions)."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Arguments:
    """``(a, b, ...)`` of a call."""

    elements: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a destination that is not wanted."""


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
