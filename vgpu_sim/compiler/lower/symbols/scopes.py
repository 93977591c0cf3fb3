"""Names inside a function: nested scopes that may redeclare registers and labels."""

from dataclasses import field

from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.frames import LocalVariable
from vgpu_sim.compiler.lower.symbols.naming import Names
from vgpu_sim.compiler.lower.symbols.shared_memory import SharedVariable
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Predicate, Register
from vgpu_sim.records import dataclass

HALVES = ("low", "high")
"""The components of a register of 128 bits; PTX has no components with these names."""


@dataclass(frozen=True, slots=True)
class RegisterClass:
    """The meaning of a register name: its width ``bits``, which is 1 for a predicate.

    ``is_byte`` marks an 8-bit register; it is stored in 16 bits, so its ``bits`` are 16.
    ``is_wide`` marks a 128-bit register, which consists of two 64-bit registers. Vector registers
    do not occur here: ``compiler.expansion`` has replaced them by their elements.
    """

    bits: int
    is_byte: bool = False
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A name whose declaration was refused; ``what`` describes it in diagnostics."""

    what: str


@dataclass(eq=False, slots=True)
class LabelTarget:
    """A label of one scope.

    ``word`` is the index of the labelled instruction. It is None until the label is placed.
    """

    name: str
    word: int | None = None


Declared = RegisterClass | SharedVariable | LocalVariable | Refused


@dataclass(eq=False, slots=True)
class Scope(Names[Declared]):
    """The registers, variables and labels that one ``{ }`` declares, and those of enclosing
    scopes.
    """

    labels: dict[str, LabelTarget] = field(default_factory=dict)
    assigned: dict[str, Register | Predicate] = field(default_factory=dict)
    tables: dict[str, tree.BranchTargets | tree.CallPrototype] = field(default_factory=dict)

    def declare_label(self, label: tree.Label) -> None:
        """Declare a label.

        Raises:
            Invalid: this scope has declared the label already.
        """
        if label.name in self.labels:
            raise Invalid(f"label {label.name!r} is declared twice", label)
        self.labels[label.name] = LabelTarget(label.name)

    def find_table(self, name: str) -> tree.BranchTargets | tree.CallPrototype | None:
        """Return the list of targets, or the prototype, that follows the label ``name``."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tables:
                return scope.tables[name]
            scope = scope.parent
        return None

    def find_label(self, name: str) -> LabelTarget | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None
