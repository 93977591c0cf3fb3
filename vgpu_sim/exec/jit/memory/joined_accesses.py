"""Accesses whose lanes are at known distances, combined with nearby ones: rows in place of gathers.

If a thread reads a record field by field, each field is a stride apart from lane to lane: such
fields become one access by rows (``permuted_rows``). Loads are emitted at the first of them,
stores at the last; no access between them may alias.
"""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.memory import permuted_rows, rows
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.memory.permuted_rows import Placed
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.shapes.geometry import Rows
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Values
from vgpu_sim.isa import Op, Space, is_visible, reads_memory
from vgpu_sim.records import dataclass

_MOST_JOINED: Final = 16
REACH_BYTES: Final = 1 << 12
_APART: Final = frozenset((Space.SHARED, Space.GLOBAL))


@dataclass(frozen=True, slots=True)
class Joined:
    """A set of accesses, in program order, that are emitted as one combined access.

    Combined loads are emitted at the first access of the set, combined stores at the last.
    """

    accesses: tuple[Access, ...]
    places: tuple[tuple[tuple[int, ...], ...], ...]
    """For each vector, the places of the lanes, for every element of every access."""

    least: tuple[int, ...]
    """For each vector, the distance in bytes from its first lane's address to place 0."""


class JoinedAccesses:
    """Finds and emits the combined accesses of one function version.

    ``describe`` returns the access that a node makes, or None if accesses to rows must not
    replace it. Such a row may begin up to ``REACH_BYTES`` away from the address of the access.
    """

    def __init__(
        self,
        text: Text,
        values: Values,
        pointers: Pointers,
        describe: Callable[[Operation], Access | None],
    ) -> None:
        self._text = text
        self._values = values
        self._pointers = pointers
        self._describe = describe
        self._decided: dict[Operation, Joined | None] = {}

    def find_joined_set(self, node: Operation) -> Joined | None:
        """Return the set of combined accesses that contains ``node``. The caller ensures that all
        lanes reach ``node``.

        Return None if ``node`` is emitted by itself.
        """
        if node not in self._decided:
            joined = self._find(node)
            members = [node] if joined is None else [a.node for a in joined.accesses]
            self._decided |= dict.fromkeys(members, joined)
        return self._decided[node]

    def load(self, joined: Joined) -> list[tuple[Access, list[list[str]]]]:
        """Emit the combined loads. Return each access together with the values that it loads.

        The values of an access are one list per vector of lanes. Each list has one LLVM vector
        for each element of the access.
        """
        first = joined.accesses[0]
        columns = []
        for part, places in enumerate(joined.places):
            with self._text.marking_accesses(part, first.memory):
                at = self._at(joined, part)
                columns.append(permuted_rows.load(self._text, places, at, first.scalar))
        loaded = []
        for number, access in enumerate(joined.accesses):
            begin = number * access.count
            loaded.append((access, [column[begin : begin + access.count] for column in columns]))
        return loaded

    def store(self, joined: Joined, elements: Callable[[Access], list[list[str]]]) -> None:
        """Emit the combined stores.

        ``elements`` returns the values that an access stores: for each vector of lanes, one LLVM
        vector per element.
        """
        stored = [elements(access) for access in joined.accesses]
        for part, places in enumerate(joined.places):
            names = [name for access in stored for name in access[part]]
            vectors = [Placed(name, own) for name, own in zip(names, places, strict=True)]
            at = self._at(joined, part)
            with self._text.marking_accesses(part, joined.accesses[0].memory):
                permuted_rows.store(self._text, vectors, at, joined.accesses[0].scalar)

    def _at(self, joined: Joined, part: int) -> Callable[[int], str]:
        access = joined.accesses[0]
        start, size = self._pointers.of_first(access, part), access.element_bytes

        def pointer(place: int) -> str:
            return self._pointers.offset_pointer(start, joined.least[part] + place * size)

        return pointer

    def _find(self, node: Operation) -> Joined | None:
        first = self._describe_access(node)
        if first is None or self._distances(first) is None:
            return None
        accesses = [first]
        following = iter(self._values.analysis.ssa.blocks[self._values.block].nodes)
        while next(following) is not node:
            pass
        for candidate in following:
            if not isinstance(candidate, Operation):
                continue
            access = self._describe_access(candidate) if self._fits(first, candidate) else None
            if access is not None:
                accesses.append(access)
            elif not _passes(node, candidate):
                break
            if len(accesses) == _MOST_JOINED:
                break
        while accesses:
            joined = self._place(accesses)
            if joined is not None:
                return joined
            accesses = accesses[: len(accesses) // 2]
        return None

    def _describe_access(self, node: Operation) -> Access | None:
        instruction = node.instruction
        if instruction.op not in (Op.LD, Op.ST) or node.guard is not None:
            return None
        if instruction.space in (Space.PARAM, Space.LOCAL) or instruction.volatile:
            return None
        access = self._describe(node)
        return access if access is not None and access.memory and not access.tested else None

    def _fits(self, first: Access, candidate: Operation) -> bool:
        node = first.node
        a, b = node.instruction, candidate.instruction
        return (
            (a.op, a.type, a.vector, a.space) == (b.op, b.type, b.vector, b.space)
            and node.sources[0] == candidate.sources[0]
            and candidate not in self._decided
            and abs(a.displacement - b.displacement) < REACH_BYTES
        )

    def _distances(self, access: Access) -> Rows | None:
        """Return the distance of each lane from the first lane of its vector."""
        shape, width = access.shape, self._text.width
        if not isinstance(shape, Vector):
            if not shape.stride or rows.is_contiguous(access):
                return None
            return (tuple(shape.stride * lane for lane in range(width)),) * self._values.vectors
        bits = 32 if access.where is Where.SHARED else 64
        return self._values.analysis.algebra.distances(shape, bits)

    def _place(self, accesses: Sequence[Access]) -> Joined | None:
        size, displacement = accesses[0].element_bytes, accesses[0].displacement
        distances = self._distances(accesses[0])
        assert distances is not None
        everywhere, begins = [], []
        for lanes in distances:
            offsets = [
                [far + access.displacement - displacement + n * size for far in lanes]
                for access in accesses
                for n in range(access.count)
            ]
            begin = min(min(row) for row in offsets)
            if any((far - begin) % size for row in offsets for far in row):
                return None
            if max(max(row) for row in offsets) - begin >= REACH_BYTES or begin < -REACH_BYTES:
                return None
            places = tuple(tuple((far - begin) // size for far in row) for row in offsets)
            if not permuted_rows.is_worthwhile(places, self._text.width):
                return None
            everywhere.append(places)
            begins.append(begin)
        return Joined(tuple(accesses), tuple(everywhere), tuple(begins))


def _passes(node: Operation, follower: Operation) -> bool:
    """Return whether an access may be reordered with a node that follows it."""
    theirs, own = follower.instruction, node.instruction
    apart = theirs.space is not own.space and {theirs.space, own.space} <= _APART
    if theirs.op is Op.LD and not theirs.volatile:
        return own.op is Op.LD or apart or theirs.space is Space.PARAM
    if theirs.op is Op.ST and not theirs.volatile:
        return apart
    return not is_visible(theirs) and not reads_memory(theirs)
