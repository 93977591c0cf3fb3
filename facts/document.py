"""The facts of a GPU: what its pool says of it that programs read.

The operator writes them into the GPU object, the node agent passes them on, gpud checks them, keeps
them in its journal and reports them; NVML, workers and the command line read attributes. A fact is
added here, in the pool that sets it (``GPUPoolSpec.facts``), and where it is read.

In every one of these places the facts are fields of the GPU's entry, beside its UUID and its board.
A fact that has its default is not written, so a program of the version before, which refuses what
it does not know, reads an entry until a pool sets a new fact (docs/versioning.md).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from facts import fields


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What a pool says of each of its GPUs; the defaults are those of a pool that says nothing."""

    topology: str = fields.text(
        "flat", 1024, "The pool's topology, or its customTopology as one line."
    )

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """Read what ``to_json`` returned, here or elsewhere.

        Raises:
            fields.FactsError: a field is unknown, of another type or beyond its bounds.
        """
        fields.check(DECLARED, document)
        values: Mapping[str, Any] = document
        return cls(**values)

    @classmethod
    def split(cls, entry: Mapping[str, Any]) -> tuple[dict[str, Any], Self]:
        """Return an entry without its facts, and these.

        What is no fact stays in the entry, whose reader knows the other fields.

        Raises:
            fields.FactsError: a fact is of another type or beyond its bounds.
        """
        rest = {name: value for name, value in entry.items() if name not in DECLARED}
        return rest, cls.from_json({k: v for k, v in entry.items() if k in DECLARED})

    def to_json(self) -> dict[str, Any]:
        """Return the facts that do not have their default."""
        values = ((field, getattr(self, name)) for name, field in DECLARED.items())
        return {field.name: value for field, value in values if value != field.default}


DECLARED: Final[Mapping[str, "dataclasses.Field[Any]"]] = {
    field.name: field for field in dataclasses.fields(GpuFacts)
}
"""The facts that there are, by name."""

DEFAULT_FACTS: Final = GpuFacts()
"""Those of a pool that sets none."""
