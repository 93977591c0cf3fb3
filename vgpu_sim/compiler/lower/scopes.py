"""Names inside a function: nested scopes that may redeclare registers and labels."""

from dataclasses import dataclass, field

from vgpu_sim.compiler.lower.findings import Invalid, Positioned
from vgpu_sim.compiler.lower.shared import SharedVariable
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Predicate, Register

_MAX_SUFFIX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class RegisterClass:
    """What a register name stands for; ``bits`` 1 is a predicate."""

    bits: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A name whose declaration was refused; ``what`` describes it in a diagnostic."""

    what: str


@dataclass(eq=False, slots=True)
class LabelTarget:
    """A label of one scope; ``word`` is known once it has been reached."""

    name: str
    word: int | None = None


Declared = RegisterClass | SharedVariable | Refused


@dataclass(eq=False, slots=True)
class Scope:
    """The names of one ``{ }``, on top of those around it."""

    parent: "Scope | None" = None
    names: dict[str, Declared] = field(default_factory=dict)
    families: dict[str, tuple[Declared, int]] = field(default_factory=dict)  # %r<10>
    labels: dict[str, LabelTarget] = field(default_factory=dict)
    assigned: dict[str, Register | Predicate] = field(default_factory=dict)

    def declare(
        self, name: str, what: Declared, at: Positioned | None = None, count: int | None = None
    ) -> None:
        """Declare ``name``, or with ``count`` the names ``name0`` to ``name<count-1>``.

        Raises:
            Invalid: when this scope has it already.
        """
        if name in self.names or name in self.families:
            raise Invalid(f"{name!r} is declared twice", at)
        if count is None:
            self.names[name] = what
        else:
            self.families[name] = (what, count)

    def declare_label(self, label: tree.Label) -> None:
        """Declare a label.

        Raises:
            Invalid: when this scope has it already.
        """
        if label.name in self.labels:
            raise Invalid(f"label {label.name!r} is declared twice", label)
        self.labels[label.name] = LabelTarget(label.name)

    def find(self, name: str) -> "tuple[Scope, Declared] | None":
        """Return the innermost declaration of ``name`` and the scope that has it."""
        scope: Scope | None = self
        while scope is not None:
            declared = scope.names.get(name) or scope._find_in_families(name)
            if declared is not None:
                return scope, declared
            scope = scope.parent
        return None

    def _find_in_families(self, name: str) -> Declared | None:
        """Look ``name`` up as a prefix and a number; the prefix may itself end in digits."""
        for digits in range(1, min(_MAX_SUFFIX_DIGITS, len(name) - 1) + 1):
            suffix = name[-digits:]
            if not (suffix[0].isascii() and suffix[0].isdigit()):
                return None
            if suffix[0] == "0" and digits > 1:
                continue
            family = self.families.get(name[:-digits])
            if family is not None and int(suffix) < family[1]:
                return family[0]
        return None

    def find_label(self, name: str) -> LabelTarget | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None
