"""The facts of a GPU: properties that its pool sets and that programs can read.

The operator writes the facts into the GPU object, and the node agent passes them on. gpud checks
them, keeps them in its journal and reports them. NVML, workers and the command line read the
attributes. To add a fact, add it here, in the pool that sets it (``GPUPoolSpec.facts``), and
where it is read.

In each of these places the facts are fields of the GPU's entry, next to its UUID and its board.
A fact with its default value is not written, so a program of the previous version, which refuses
unknown fields, can read an entry until a pool sets a new fact (docs/versioning.md).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from facts import fields


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Facts about GPUs, such as their topology, that a pool sets for all of its GPUs.

    A fact that the pool does not set has its default.
    """

    topology: str = fields.text(
        "flat", 1024, "The pool's topology, or its customTopology as one line."
    )

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """Read facts from the result of ``to_json``, which another process may have sent.

        Raises:
            fields.FactsError: a field is unknown, of another type or beyond its bounds.
        """
        fields.check(DECLARED, document)
        values: Mapping[str, Any] = document
        return cls(**values)

    @classmethod
    def split(cls, entry: Mapping[str, Any]) -> tuple[dict[str, Any], Self]:
        """Separate an entry's facts from its other fields; return the other fields first.

        Only the facts are checked.

        Raises:
            fields.FactsError: a fact is of another type or beyond its bounds.
        """
        other_fields = {name: value for name, value in entry.items() if name not in DECLARED}
        return other_fields, cls.from_json({k: v for k, v in entry.items() if k in DECLARED})

    def to_json(self) -> dict[str, Any]:
        """Return the facts that differ from their default."""
        values = ((field, getattr(self, name)) for name, field in DECLARED.items())
        return {field.name: value for field, value in values if value != field.default}


DECLARED: Final[Mapping[str, "dataclasses.Field[Any]"]] = {
    field.name: field for field in dataclasses.fields(GpuFacts)
}
"""The declared facts of a GPU, by name."""

DEFAULT_FACTS: Final = GpuFacts()
"""The facts of a pool that sets none."""
