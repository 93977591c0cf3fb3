"""Nodes of statements, functions and the file."""

from dataclasses import dataclass

from vgpu_sim.compiler.ptx.tree.declarations import Attribute, Linkage, Registers, Variable
from vgpu_sim.compiler.ptx.tree.operands import Name, Operand


@dataclass(frozen=True, slots=True)
class Label:
    """``name:``."""

    line: int
    column: int
    name: str


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

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
    """``.pragma "..." , ...;``."""

    line: int
    column: int
    strings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Location:
    """``.loc file line column``: where in the original program the next instructions come from."""

    line: int
    column: int
    file: int
    source_line: int
    source_column: int


@dataclass(frozen=True, slots=True)
class BranchTargets:
    """``.branchtargets`` or ``.calltargets``; its label stands before it as a Label."""

    line: int
    column: int
    directive: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive that is a word and numbers: ``.maxntid 256, 1, 1``, ``.noreturn``."""

    line: int
    column: int
    name: str
    arguments: tuple[int, ...] = ()
    strings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallPrototype:
    """``.callprototype (returns) _ (parameters)``; its label stands before it as a Label."""

    line: int
    column: int
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    directives: tuple[Directive, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """``{ ... }``: a scope of names."""

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
    """An ``.entry`` or ``.func``; ``body`` is None for a declaration."""

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
    """``.alias name, aliasee;``."""

    line: int
    column: int
    name: str
    aliasee: str


@dataclass(frozen=True, slots=True)
class File:
    """``.file index "name"``: a source file for ``.loc``."""

    line: int
    column: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Section:
    """``.section name { ... }``: debug information, kept by name only."""

    line: int
    column: int
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """``.target sm_90, debug``."""

    line: int
    column: int
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file. ``address_size`` is None where the file does not say."""

    version: tuple[int, int]
    targets: tuple[Target, ...]
    address_size: int | None
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    aliases: tuple[Alias, ...]
    files: tuple[File, ...]
    sections: tuple[Section, ...]
    pragmas: tuple[Pragma, ...]
