"""What the lowering of one instruction can see and do."""

from dataclasses import dataclass, field

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.scopes import LabelTarget, Refused, RegisterClass, Scope
from vgpu_sim.compiler.lower.shared import SharedVariable
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Parameter, Predicate, Register, Variable


@dataclass(frozen=True, slots=True)
class Symbols:
    """Names of the module as a function sees them."""

    variables: dict[str, Variable] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    shared: tuple[tree.Variable, ...] = ()


@dataclass(slots=True)
class Context:
    """The function being lowered. ``operands`` are those of the current instruction; ``shared`` has
    the module's shared variables that it names."""

    builder: Builder
    symbols: Symbols
    parameters: dict[str, Parameter]
    refused_parameters: frozenset[str]
    scope: Scope
    shared: dict[str, SharedVariable] = field(default_factory=dict)
    operands: tuple[tree.Operand, ...] = ()

    def register(self, name: tree.Name) -> Register | Predicate | None:
        """Return the register called ``name``, or None when the name is something else.

        Raises:
            Unsupported: when its declaration was refused.
        """
        found = self.scope.find(name.text)
        if found is None:
            return None
        scope, declared = found
        if isinstance(declared, RegisterClass):
            if name.component:
                raise Invalid(f"{name.text!r} has no component {name.component!r}", name)
            return self.builder.assigned(scope, name.text, declared)
        if isinstance(declared, SharedVariable):
            return None
        raise Unsupported(declared.what, name)

    def bits(self, register: Register) -> int:
        """Return a register's width."""
        return self.builder.register_bits[register.index]

    def label(self, name: tree.Name) -> LabelTarget:
        """Return the label called ``name``.

        Raises:
            Invalid: when it is not defined in this or an outer scope.
        """
        label = self.scope.find_label(name.text)
        if label is None:
            raise Invalid(f"label {name.text!r} is not defined", name)
        return label
