"""Label selectors (metav1.LabelSelector): what they ask, and whether labels answer it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """How a requirement compares; NotIn and DoesNotExist also match where the key is absent."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a selector asks of one key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels answer it."""
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
    """All requirements hold; none at all: everything matches. Labels of matchLabels are ``IN``."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels answer all of it."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    @classmethod
    def of(cls, **labels: str) -> "Selector":
        """Return the selector of these labels."""
        return cls(tuple(Requirement(key, Operator.IN, (labels[key],)) for key in sorted(labels)))


EVERYTHING = Selector()
