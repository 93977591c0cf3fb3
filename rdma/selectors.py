"""Label selectors (metav1.LabelSelector) and their evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """The operator of a selector's requirement.

    If labels do not contain the requirement's key, they meet NotIn and DoesNotExist, but not In
    and Exists.
    """

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A selector's condition on the label with one key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet the requirement."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements on labels, all of which must be met; a selector without requirements matches
    everything.

    A manifest's matchLabels become requirements with the operator ``IN``.
    """

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet all of the selector's requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    @classmethod
    def of(cls, **labels: str) -> "Selector":
        """Return the selector that requires exactly these labels."""
        return cls(tuple(Requirement(key, Operator.IN, (labels[key],)) for key in sorted(labels)))


EVERYTHING = Selector()
