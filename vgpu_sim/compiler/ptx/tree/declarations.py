"""Syntax nodes of variables, parameters and registers."""

from enum import Enum

from vgpu_sim.compiler.ptx.tree.operands import (
    Float,
    GenericAddress,
    Integer,
    MaskedAddress,
    Name,
    Offset,
)
from vgpu_sim.records import dataclass


class Space(Enum):
    """The state spaces in which a variable or parameter can be declared."""

    CONST = ".const"
    GLOBAL = ".global"
    LOCAL = ".local"
    PARAM = ".param"
    SHARED = ".shared"
    SREG = ".sreg"
    TEX = ".tex"
    REG = ".reg"  # formal parameters of functions may be registers


class Linkage(Enum):
    """The visibility of a name in other modules."""

    NONE = ""
    EXTERN = ".extern"
    VISIBLE = ".visible"
    WEAK = ".weak"
    COMMON = ".common"


@dataclass(frozen=True, slots=True)
class Field:
    """A field ``name = value`` in the initial value of an opaque type."""

    name: str
    value: "InitialValue"


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list ``{a, b, ...}`` in an initial value."""

    elements: tuple["InitialValue", ...]


InitialValue = Integer | Float | Name | Offset | GenericAddress | MaskedAddress | Field | ValueList


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute such as ``.attribute(.managed)`` or ``.attribute(.unified(a, b))``."""

    name: str
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The memory to which a kernel parameter points: ``.ptr .space .align n``."""

    space: Space | None
    align: int | None


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter.

    ``dimensions`` has None for a dimension that is written ``[]``. ``count`` is the n of
    ``name<n>``. ``bank`` is the n of ``.const[n]``.
    """

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
    """A declaration of registers, such as ``.reg .v4 .f32 a, b<4>;``."""

    line: int
    column: int
    type: str
    vector: str
    names: tuple[RegisterName, ...]
