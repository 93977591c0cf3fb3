"""The conditions of the selects by which each lane takes the value of the edge on which it
arrives.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.masks import Edge, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text


class Choices:
    """The conditions of the selects at a block where ``edges`` join: they state which lanes arrive
    on which edge.

    If all edges have the same vector of lanes, the edges differ only in their scalar conditions,
    exactly one of which is true. An edge's scalar then decides for all lanes. If the vectors
    differ, the scalar of one edge does not determine which lanes arrive on another edge.
    """

    def __init__(self, text: Text, masks: MaskWriter, edges: Sequence[Edge]) -> None:
        self._text = text
        self._masks = masks
        self._one_vector = all(edge.mask.vector == edges[0].mask.vector for edge in edges)

    def flags(self, edge: Edge, count: int, *, vector: bool) -> tuple[str, ...]:
        """Return ``count`` conditions for selects, with their types. The conditions are true in the
        lanes that arrive on ``edge``.

        ``vector`` states that the selected values are vectors. A scalar value is the same in all
        arriving lanes, so one scalar condition selects it.
        """
        if self._one_vector:
            return (f"i1 {edge.mask.scalar or 'true'}",) * count
        if vector:
            type_ = self._text.type_of("i1", vector=True)
            return tuple(f"{type_} {lanes}" for lanes in self._masks.flat(edge.mask))
        return (f"i1 {self._masks.any(edge.mask)}",) * count
