"""The conditions of the selects by which each lane takes the value of the edge on which it
arrives.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.masks import Edge, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text


class Choices:
    """The lanes of each edge at a block where ``edges`` join.

    A scalar condition decides for all lanes only if every edge has the same vector: then the
    edges differ in their scalars alone, exactly one of which is true. If the vectors differ, the
    scalar of one edge does not determine which lanes arrive on another.
    """

    def __init__(self, text: Text, masks: MaskWriter, edges: Sequence[Edge]) -> None:
        self._text = text
        self._masks = masks
        self._one_vector = all(edge.mask.vector == edges[0].mask.vector for edge in edges)

    def flags(self, edge: Edge, count: int, *, vector: bool) -> tuple[str, ...]:
        """Return ``count`` select conditions with their types, true in the edge's lanes.

        ``vector`` states that the values are vectors. A scalar value holds for all arriving lanes.
        """
        if self._one_vector:
            return (f"i1 {edge.mask.scalar or 'true'}",) * count
        if vector:
            type_ = self._text.type_of("i1", vector=True)
            return tuple(f"{type_} {lanes}" for lanes in self._masks.flat(edge.mask))
        return (f"i1 {self._masks.any(edge.mask)}",) * count
