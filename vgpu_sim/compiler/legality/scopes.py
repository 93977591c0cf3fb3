"""The meanings of names in a function, as far as the operand checks need them."""

from vgpu_sim.compiler.legality.types import Type, find_type
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.naming import Names
from vgpu_sim.compiler.ptx import grammar, tree
from vgpu_sim.records import dataclass

_WIDE = frozenset({"%clock64", "%globaltimer", "%gridid", "%current_graph_exec"})
# Registers that were once narrower; mov and cvt still read the old widths (PTX ISA, "Special
# Registers").
_ONCE = {
    **dict.fromkeys(("%tid", "%ntid", "%ctaid", "%nctaid"), (16,)),
    "%gridid": (16, 32),
}


@dataclass(frozen=True, slots=True)
class Register:
    """The meaning of a register name: its type, and the number of elements if it is a vector."""

    type: Type
    count: int = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A variable or parameter in a state space. The space of a kernel's parameter is
    ``param::entry``.

    If a variable is declared in a function and then moved to file scope under a new name,
    ``name`` is the new name. For an array, ``element_bytes`` is the size of one number, even if
    the elements are vectors of numbers.
    """

    space: str
    name: str = ""
    element_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The meaning of a name that is a label or function."""


@dataclass(frozen=True, slots=True)
class Special:
    """A special register of 1, 32 or 64 bits. Some special registers were narrower in earlier PTX
    versions; ``once`` holds these earlier widths.
    """

    bits: int
    once: tuple[int, ...] = ()


Meaning = Register | Place | Symbol | Special


@dataclass(eq=False, slots=True)
class Scope(Names[Meaning]):
    """The meanings of the names that one ``{ }`` declares, and of those in enclosing scopes.

    Lowering reports names that are declared twice.
    """

    def look_up(self, name: tree.Name) -> Meaning:
        """Return the meaning of a name.

        Raises:
            Invalid: it is not declared.
        """
        binding = self.find(name.text)
        if binding is not None:
            return binding[1]
        if grammar.is_special(name.text):
            return Special(_special_bits(name.text), _ONCE.get(name.text, ()))
        raise Invalid(f"{name.text!r} is not declared", name)

    def register(self, name: tree.Name) -> Register:
        """Return the register called ``name``.

        Raises:
            Invalid: there is none.
        """
        meaning = self.look_up(name)
        if isinstance(meaning, Register):
            return meaning
        if isinstance(meaning, Special):
            raise Invalid(f"special register {name.text!r} can be read only by mov", name)
        raise Invalid(f"{name.text!r} is not a register", name)

    def array(self, element: tree.Element) -> Place:
        """Return the array to which ``element`` refers (PTX ISA, "Arrays as Operands").

        Raises:
            Invalid: the name is not that of an array, or the index is neither a constant nor in a
                register.
        """
        place = self.look_up(element.base)
        if not isinstance(place, Place) or not place.element_bytes:
            raise Invalid(f"{element.base.text!r} is not an array", element.base)
        index = element.index.base if isinstance(element.index, tree.Offset) else element.index
        if isinstance(index, tree.Integer):
            return place
        if isinstance(index, tree.Name):
            register = self.register(index)
            if register.type.kind in ("integer", "bits") and register.type.bits in (32, 64):
                return place
        raise Invalid("an element's index must be a constant or a register of 32 or 64 bits")

    def declare_statement(self, statement: tree.Statement) -> None:
        """Declare the names that a statement declares, if there are any."""
        if isinstance(statement, tree.Registers):
            type_ = find_type(statement.type[1:])
            if type_ is not None:
                meaning = Register(type_, int(statement.vector[2:]) if statement.vector else 1)
                for name in statement.names:
                    self.declare_once(name.name, meaning, name.count)
        elif isinstance(statement, tree.Variable):
            self.declare_once(statement.name, _variable(statement), statement.count)

    def declare_labels(self, block: tree.Block) -> None:
        """Declare all labels of a block in advance, because a branch may precede its label."""
        for statement in block.statements:
            if isinstance(statement, tree.Label):
                self.declare_once(statement.name, Symbol(), None)

    def declare_once(self, name: str, meaning: Meaning, count: int | None) -> None:
        """Declare a name in this scope; do nothing if the scope has the name already."""
        if not self.has(name, count):
            self.declare(name, meaning, count=count)


def module_scope(module: tree.Module) -> Scope:
    """Return the scope with the names that a file declares."""
    scope = Scope()
    for variable in module.variables:
        scope.declare_once(variable.name, _variable(variable), variable.count)
    for name in [definition.name for definition in module.functions] + [
        definition.name for definition in module.aliases
    ]:
        scope.declare_once(name, Symbol(), None)
    return scope


def function_scope(function: tree.Function, outer: Scope) -> Scope:
    """Return the scope with the names of a function's parameters, within the file's scope
    ``outer``.
    """
    scope = Scope(parent=outer)
    for parameter in (*function.parameters, *function.returns):
        meaning = _variable(parameter)
        if isinstance(meaning, Place) and function.is_entry:
            meaning = Place("param::entry")
        scope.declare_once(parameter.name, meaning, parameter.count)
    return scope


def element_bytes(variable: tree.Variable) -> int:
    """Return the size in bytes of one number in an array; 0 for anything but an array."""
    type_ = find_type(variable.type[1:])
    return type_.bits // 8 if type_ is not None and variable.dimensions else 0


def _variable(variable: tree.Variable) -> Meaning:
    type_ = find_type(variable.type[1:])
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
