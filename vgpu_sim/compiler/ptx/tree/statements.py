"""Syntax nodes of statements, functions and the file."""

from vgpu_sim.compiler.ptx.tree.declarations import Attribute, Linkage, Registers, Variable
from vgpu_sim.compiler.ptx.tree.operands import Name, Operand
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """A label, ``name:``."""

    line: int
    column: int
    name: str


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard of an instruction: ``@p`` or ``@!p``."""

    predicate: Name
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; ``start`` and ``end`` delimit its characters in the source."""

    line: int
    column: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Pragma:
    """A pragma, ``.pragma "..." , ...;``."""

    line: int
    column: int
    strings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Location:
    """``.loc file line column``: the position of the next instructions in the original program."""

    line: int
    column: int
    file: int
    source_line: int
    source_column: int


@dataclass(frozen=True, slots=True)
class BranchTargets:
    """A list of targets, ``.branchtargets`` or ``.calltargets``; the preceding Label is its
    label.
    """

    line: int
    column: int
    directive: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive of a function: its name, and its integers or strings if it has any.

    Examples: ``.maxntid 256, 1, 1``, ``.noreturn`` and ``.pragma "nounroll"``.
    """

    line: int
    column: int
    name: str
    arguments: tuple[int, ...] = ()
    strings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallPrototype:
    """A prototype for indirect calls, ``.callprototype (returns) _ (parameters)``.

    The preceding Label is its label.
    """

    line: int
    column: int
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    directives: tuple[Directive, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block ``{ ... }`` of statements, which is a scope of names."""

    line: int
    column: int
    statements: tuple["Statement", ...]


Statement = (
    Block
    | BranchTargets
    | CallPrototype
    | Instruction
    | Label
    | Location
    | Pragma
    | Registers
    | Variable
)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (``.entry``) or function (``.func``); ``body`` is None for a declaration."""

    line: int
    column: int
    is_entry: bool
    name: str
    linkage: Linkage
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    attributes: tuple[Attribute, ...]
    directives: tuple[Directive, ...]
    body: Block | None


@dataclass(frozen=True, slots=True)
class Alias:
    """A second name of a function, ``.alias name, aliasee;``."""

    line: int
    column: int
    name: str
    aliasee: str


@dataclass(frozen=True, slots=True)
class File:
    """A source file to which ``.loc`` refers: ``.file index "name"``."""

    line: int
    column: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Section:
    """A section of debug information, ``.section name { ... }``, of which only the name is kept."""

    line: int
    column: int
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """The targets and options of a file, such as ``.target sm_90, debug``."""

    line: int
    column: int
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file. ``address_size`` is None if the file does not state it."""

    version: tuple[int, int]
    targets: tuple[Target, ...]
    address_size: int | None
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    aliases: tuple[Alias, ...]
    files: tuple[File, ...]
    sections: tuple[Section, ...]
    pragmas: tuple[Pragma, ...]
