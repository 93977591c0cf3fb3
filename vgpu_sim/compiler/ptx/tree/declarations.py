"""Nodes of variables, parameters and registers."""

from dataclasses import dataclass
from enum import Enum

from vgpu_sim.compiler.ptx.tree.operands import (
    Float,
    GenericAddress,
    Integer,
    MaskedAddress,
    Name,
    Offset,
)


class Space(Enum):
    """State spaces in which a variable or parameter is declared."""

    CONST = ".const"
    GLOBAL = ".global"
    LOCAL = ".local"
    PARAM = ".param"
    SHARED = ".shared"
    SREG = ".sreg"
    TEX = ".tex"
    REG = ".reg"  # formal parameters of functions may be registers


class Linkage(Enum):
    """How a name is seen by other modules."""

    NONE = ""
    EXTERN = ".extern"
    VISIBLE = ".visible"
    WEAK = ".weak"
    COMMON = ".common"


@dataclass(frozen=True, slots=True)
class Field:
    """``name = value`` of an opaque type's initial value."""

    name: str
    value: "InitialValue"


@dataclass(frozen=True, slots=True)
class ValueList:
    """``{a, b, ...}`` of an initial value."""

    elements: tuple["InitialValue", ...]


InitialValue = Integer | Float | Name | Offset | GenericAddress | MaskedAddress | Field | ValueList


@dataclass(frozen=True, slots=True)
class Attribute:
    """``.attribute(.managed)``, ``.attribute(.unified(a, b))``."""

    name: str
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    """``.ptr .space .align n`` of a kernel parameter."""

    space: Space | None
    align: int | None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter. ``dimensions`` hold None for ``[]``; ``count`` is of ``name<n>``,
    ``bank`` of ``.const[n]``."""

    line: int
    column: int
    space: Space
    type: str
    name: str
    linkage: Linkage = Linkage.NONE
    align: int | None = None
    vector: str = ""
    attributes: tuple[Attribute, ...] = ()
    pointer: Pointer | None = None
    dimensions: tuple[int | None, ...] = ()
    count: int | None = None
    initial: InitialValue | None = None
    bank: int = 0


@dataclass(frozen=True, slots=True)
class RegisterName:
    """One declared register, or ``count`` of them numbered from 0."""

    name: str
    count: int | None
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Registers:
    """``.reg .v4 .f32 a, b<4>;``."""

    line: int
    column: int
    type: str
    vector: str
    names: tuple[RegisterName, ...]
