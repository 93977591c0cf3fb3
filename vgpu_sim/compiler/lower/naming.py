"""Names that a ``{ }`` of PTX declares, on top of those around it."""

from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from vgpu_sim.compiler.lower.findings import Invalid, Positioned

Declared = TypeVar("Declared")

_MAX_SUFFIX_DIGITS = 9


@dataclass(eq=False, slots=True)
class Names(Generic[Declared]):
    """What the names of one scope stand for."""

    parent: Self | None = None
    names: dict[str, Declared] = field(default_factory=dict)
    families: dict[str, tuple[Declared, int]] = field(default_factory=dict)  # %r<10>
    _found: dict[str, Declared | None] = field(default_factory=dict)  # of those, until another

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
            self._found.clear()

    def find(self, name: str) -> tuple[Self, Declared] | None:
        """Return the innermost declaration of ``name`` and the scope that has it."""
        scope: Self | None = self
        while scope is not None:
            declared = scope.names.get(name)
            if declared is None and scope.families:
                if name not in scope._found:
                    scope._found[name] = scope._find_in_families(name)
                declared = scope._found[name]
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
