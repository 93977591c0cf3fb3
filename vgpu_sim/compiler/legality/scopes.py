"""What the names in a function stand for, as far as its operands are held to it."""

from dataclasses import dataclass

from vgpu_sim.compiler.legality.types import Type, named
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.naming import Names
from vgpu_sim.compiler.ptx import grammar, tree

_WIDE = frozenset({"%clock64", "%globaltimer", "%gridid", "%current_graph_exec"})
# What was narrower once; mov and cvt still read so many low bits (PTX ISA, "Special Registers").
_ONCE = {
    **dict.fromkeys(("%tid", "%ntid", "%ctaid", "%nctaid"), (16,)),
    "%gridid": (16, 32),
}


@dataclass(frozen=True, slots=True)
class Register:
    """A register: its type, and of a vector how many it is."""

    type: Type
    count: int = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A variable or parameter, in a state space; ``param::entry`` is a kernel's own.

    ``name`` is what the file calls a variable that a function declares, if not the same;
    ``element_bytes`` those of a number in an array, in one of vectors too.
    """

    space: str
    name: str = ""
    element_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A label or function."""


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, of 1, 32 or 64 bits. ``once`` are the widths that it had before."""

    bits: int
    once: tuple[int, ...] = ()


Meaning = Register | Place | Symbol | Special


@dataclass(eq=False, slots=True)
class Scope(Names[Meaning]):
    """The names of one ``{ }``, on top of those around it.

    Names that are declared twice are found when a function is lowered.
    """

    def need(self, name: tree.Name) -> Meaning:
        """Return what a name stands for.

        Raises:
            Invalid: for one that is not declared.
        """
        found = self.find(name.text)
        if found is not None:
            return found[1]
        if grammar.is_special(name.text):
            return Special(_special_bits(name.text), _ONCE.get(name.text, ()))
        raise Invalid(f"{name.text!r} is not declared", name)

    def register(self, name: tree.Name) -> Register:
        """Return the register called ``name``.

        Raises:
            Invalid: when there is none.
        """
        meaning = self.need(name)
        if isinstance(meaning, Register):
            return meaning
        if isinstance(meaning, Special):
            raise Invalid(f"special register {name.text!r} is read by mov alone", name)
        raise Invalid(f"{name.text!r} is not a register", name)

    def array(self, element: tree.Element) -> Place:
        """Return the array that an operand is an element of (PTX ISA, "Arrays as Operands").

        Raises:
            Invalid: for what is none, and where its number is no constant and in no register.
        """
        found = self.need(element.base)
        if not isinstance(found, Place) or not found.element_bytes:
            raise Invalid(f"{element.base.text!r} is not an array", element.base)
        index = element.index.base if isinstance(element.index, tree.Offset) else element.index
        if isinstance(index, tree.Integer):
            return found
        if isinstance(index, tree.Name):
            register = self.register(index)
            if register.type.kind in ("integer", "bits") and register.type.bits in (32, 64):
                return found
        raise Invalid("the number of an element is a constant or in a register of 32 or 64 bits")

    def declare_statement(self, statement: tree.Statement) -> None:
        """Declare what a statement declares, if it does."""
        if isinstance(statement, tree.Registers):
            type_ = named(statement.type[1:])
            if type_ is not None:
                what = Register(type_, int(statement.vector[2:]) if statement.vector else 1)
                for name in statement.names:
                    self.put(name.name, what, name.count)
        elif isinstance(statement, tree.Variable):
            self.put(statement.name, _variable(statement), statement.count)

    def declare_labels(self, block: tree.Block) -> None:
        """Declare the labels of a block, which may be used before they stand."""
        for statement in block.statements:
            if isinstance(statement, tree.Label):
                self.put(statement.name, Symbol(), None)

    def put(self, name: str, what: Meaning, count: int | None) -> None:
        """Declare a name unless this scope has it."""
        if not self.has(name, count):
            self.declare(name, what, count=count)


def of_module(module: tree.Module) -> Scope:
    """Return the names of a file."""
    scope = Scope()
    for variable in module.variables:
        scope.put(variable.name, _variable(variable), variable.count)
    for name in [one.name for one in module.functions] + [one.name for one in module.aliases]:
        scope.put(name, Symbol(), None)
    return scope


def of_function(function: tree.Function, outer: Scope) -> Scope:
    """Return the names of a function's parameters, on top of the file's."""
    scope = Scope(parent=outer)
    for parameter in (*function.parameters, *function.returns):
        what = _variable(parameter)
        if isinstance(what, Place) and function.is_entry:
            what = Place("param::entry")
        scope.put(parameter.name, what, parameter.count)
    return scope


def element_bytes(variable: tree.Variable) -> int:
    """Return the bytes of a number in an array; 0 for what is none."""
    type_ = named(variable.type[1:])
    return type_.bits // 8 if type_ is not None and variable.dimensions else 0


def _variable(variable: tree.Variable) -> Meaning:
    type_ = named(variable.type[1:])
    if variable.space is tree.Space.REG and type_ is not None:
        return Register(type_, int(variable.vector[2:]) if variable.vector else 1)
    space = variable.space.value[1:]
    if space == "param":
        return Place("param::func")
    return Place(space, "", element_bytes(variable))


def _special_bits(name: str) -> int:
    if name == "%is_explicit_cluster":
        return 1
    return 64 if name in _WIDE or name.endswith("_64") else 32
