"""The meanings of the names that a ``{ }`` of PTX declares, within enclosing scopes."""

from collections.abc import Iterator
from dataclasses import field
from typing import Generic, Self, TypeVar

from vgpu_sim.compiler.lower.symbols.findings import Invalid, Positioned
from vgpu_sim.records import dataclass

Declared = TypeVar("Declared")

_MAX_SUFFIX_DIGITS = 9


@dataclass(eq=False, slots=True)
class Names(Generic[Declared]):
    """The meanings of the names that one scope declares, and a link to the enclosing scope."""

    parent: Self | None = None
    names: dict[str, Declared] = field(default_factory=dict)
    families: dict[str, tuple[Declared, int]] = field(default_factory=dict)  # %r<10>
    # members of those, until the next declaration
    _found: dict[str, Declared | None] = field(default_factory=dict)
    # number of a name with this prefix and suffix
    _least: dict[str, int] = field(default_factory=dict)

    def declare(
        self, name: str, meaning: Declared, at: Positioned | None = None, count: int | None = None
    ) -> None:
        """Declare ``name`` with the meaning ``meaning``.

        With ``count``, declare the names ``name0`` to ``name<count-1>`` instead.

        Raises:
            Invalid: this scope has declared such a name already.
        """
        if self.has(name, count):
            raise Invalid(f"{name!r} is declared twice", at)
        if count is None:
            self.names[name] = meaning
            for prefix, number in _split_numbered(name):
                self._least[prefix] = min(number, self._least.get(prefix, number))
        else:
            self.families[name] = (meaning, count)
            self._found.clear()

    def has(self, name: str, count: int | None = None) -> bool:
        """True if this scope has declared ``name`` already.

        With ``count``, true if it has declared one of the names ``name0`` to ``name<count-1>``.
        A plain name does not conflict with a family: ``%r`` and ``%r<10>`` may coexist.
        """
        if count is not None:
            return name in self.families or self._least.get(name, count) < count
        return name in self.names or self._find_in_families(name) is not None

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
        for prefix, number in _split_numbered(name):
            family = self.families.get(prefix)
            if family is not None and number < family[1]:
                return family[0]
        return None


def _split_numbered(name: str) -> Iterator[tuple[str, int]]:
    """Yield the ways to split ``name`` into a family's prefix and a number."""
    for digits in range(1, min(_MAX_SUFFIX_DIGITS, len(name) - 1) + 1):
        suffix = name[-digits:]
        if not (suffix[0].isascii() and suffix[0].isdigit()):
            return
        if suffix[0] != "0" or digits == 1:
            yield name[:-digits], int(suffix)
