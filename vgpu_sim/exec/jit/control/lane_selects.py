"""Who takes which value where lanes meet."""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.masks import Edge, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text


class Choices:
    """Who takes an edge's value where ``edges`` meet.

    A scalar decides for all lanes at once only if every edge has the same vector: then the edges
    differ in their scalars alone, of which one is true. With two vectors among them a scalar says
    nothing about the lanes of the other vector, be it the first edge's or not.
    """

    def __init__(self, text: Text, masks: MaskWriter, edges: Sequence[Edge]) -> None:
        self._text = text
        self._masks = masks
        self._one_vector = all(edge.mask.vector == edges[0].mask.vector for edge in edges)

    def flags(self, edge: Edge, count: int, *, vector: bool) -> tuple[str, ...]:
        """Return ``count`` conditions of a select, each with its type, true for the edge's lanes.

        ``vector`` says that the values are vectors; a scalar value is that of all arriving lanes.
        """
        if self._one_vector:
            return (f"i1 {edge.mask.scalar or 'true'}",) * count
        if vector:
            type_ = self._text.type_of("i1", vector=True)
            return tuple(f"{type_} {lanes}" for lanes in self._masks.flat(edge.mask))
        return (f"i1 {self._masks.any(edge.mask)}",) * count
