"""The conditions of the selects by which each lane takes the value of the edge on which it
arrives.
"""

from collections.abc import Sequence

from vgpu_sim.exec.jit.text.masks import Edge, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text


class Choices:
    """The select conditions at a block where ``edges`` join. They state which lanes arrive on which
    edge.

    The mask of an edge has a scalar and a vector of lanes. If all edges have the same vector,
    exactly one of the scalars is true, and all lanes arrive on its edge. If the vectors differ,
    one edge's scalar does not determine which lanes arrive on another edge.
    """

    def __init__(self, text: Text, masks: MaskWriter, edges: Sequence[Edge]) -> None:
        self._text = text
        self._masks = masks
        self._one_vector = all(edge.mask.vector == edges[0].mask.vector for edge in edges)

    def flags(self, edge: Edge, count: int, *, vector: bool) -> tuple[str, ...]:
        """Return ``count`` operands for selects, each with its LLVM type. They are true in the
        lanes that arrive on ``edge``.

        ``vector`` states that the selected values are vectors. If it is false, the selected value
        is the same in all arriving lanes, so one scalar condition is enough.
        """
        if self._one_vector:
            return (f"i1 {edge.mask.scalar or 'true'}",) * count
        if vector:
            type_ = self._text.type_of("i1", vector=True)
            return tuple(f"{type_} {lanes}" for lanes in self._masks.flat(edge.mask))
        return (f"i1 {self._masks.any(edge.mask)}",) * count
