"""Prefetches of memory that code reads later, where the hardware prefetcher does not detect it.

The hardware prefetches sequential accesses, and out-of-order execution covers the loads of the
next few hundred instructions. It misses three kinds of loads. A request is a load, the
operations that recompute its address with other values in place of phis, and the distances to
prefetch beyond it:

==============  ===================================  ===============================  ==============
kind            loads                                in place of a phi                distance
==============  ===================================  ===============================  ==============
next block      rows, before the first wait point    its value in the first           of four
                                                     iteration                        iterations
next iteration  rows, in a loop with a wait point    its value in the next iteration  none
stream          at a fixed stride, in a loop with    nothing                          1,024 bytes
                gathers
==============  ===================================  ===============================  ==============

*Next block*: where lanes wait, a block is a dependence chain, and the processor reaches the next
block's loads only after its end. The next block's index replaces this one's. Rows that are the same
in every block are cached already.

*Next iteration*: a loop copies a tile to shared memory, waits, computes with it and waits again.
The rows of a tile are a matrix row apart. In the last iteration the requests are beyond the tile.

*Stream*: see ``streams``.

A prefetch never faults, and its address is clamped in the same way as that of the load.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vgpu_sim.exec.jit.control import recomputation, streams
from vgpu_sim.exec.jit.control.recomputation import Recomputed, Step
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Phi, Source, Value
from vgpu_sim.exec.jit.memory import rows, wraps
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.numbers.trip_counts import step_of
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, LaneShape, Vector
from vgpu_sim.isa import EFFECTS, Op, Space, SpecialRegister
from vgpu_sim.records import dataclass

_LINE_BYTES: Final = 64
_BLOCK_LINES: Final = 128
_BLOCK_WORDS: Final = 200
_BLOCK_ITERATIONS: Final = 4
_TURN_LINES: Final = 64  # cache lines per load
_TURN_WORDS: Final = 32
_BLOCK_INDICES: Final = frozenset(
    (SpecialRegister.CTAID_X, SpecialRegister.CTAID_Y, SpecialRegister.CTAID_Z)
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to prefetch some cache lines.

    Each of ``distances``, in bytes, is added to the address of ``access``. The lines to prefetch
    are those that ``access`` would read at each resulting address. ``steps`` are the operations
    that recompute the address of ``access``.
    """

    access: Access
    steps: Sequence[Step] = ()
    distances: Sequence[int] = (0,)


class Prefetch:
    """Emits the prefetches of one function version."""

    def __init__(self, emitter: Emitter, *, iterations: bool = False) -> None:
        """With ``iterations``, also prefetch the rows that loops with wait points read in the next
        iteration.
        """
        self._emitter = emitter
        self._values = emitter.values
        self._ssa = emitter.analysis.ssa
        self._iterations = iterations
        self._streams = streams.find(self._ssa)
        self._meeting: dict[int, bool] = {}

    def next_block(self) -> None:
        """Emit prefetches of the memory that the next thread block reads at its beginning.

        The emitter of this object must have been created with the indices of the next block.
        """
        lines: dict[str, None] = {}
        for block in self._emitter.analysis.order:
            self._values.block = block
            for node in self._ssa.blocks[block].nodes:
                if _meets(node):
                    return self._request(lines, _BLOCK_LINES)
                request = self._of_block(node)
                if request is not None:
                    lines |= dict.fromkeys(self._lines(request))
        return self._request(lines, _BLOCK_LINES)

    def prefetch_stream(self, node: Operation) -> None:
        """Emit a prefetch for the stream to which the load ``node`` belongs, if it belongs to one.
        The load itself is emitted next.
        """
        distance = self._streams.get(node)
        if distance is None:
            return
        access = self._emitter.memory.access(node)
        memory = self._emitter.memory
        if memory.is_scalar(access) and memory.reaches(access, distance):
            self._request(self._lines(Request(access, distances=(distance,))), _TURN_LINES)

    def prefetch_next_iteration(self, node: Operation, access: Access | None = None) -> None:
        """Emit prefetches of the memory that ``node`` will load in the next iteration of its loop.

        ``node`` has just been emitted. If it was combined with other loads into one access,
        ``access`` is that access.
        """
        request = self._of_iteration(node, access) if self._iterations else None
        if request is not None:
            self._request(self._lines(request), _TURN_LINES)

    def _request(self, lines: Iterable[str], line_limit: int) -> None:
        for pointer in list(dict.fromkeys(lines))[:line_limit]:
            self._emitter.text.prefetch(pointer)

    def _of_block(self, node: Operation | Merge) -> Request | None:
        shapes = self._emitter.analysis.shapes
        address = _address(node)
        if address is None or not isinstance(shapes[address], Affine):
            return None
        assert isinstance(node, Operation)

        def first_iteration(words: Recomputed, phi: Phi) -> bool:
            body = self._ssa.graph.loops.get(phi.block, frozenset())
            first = [source for block, source in phi.arguments.items() if block not in body]
            if not body or len(first) != 1 or not words.collect(first[0]):
                return False
            words.steps.append({phi: first[0]})
            return True

        words = Recomputed(
            self._values,
            frozenset(self._ssa.blocks),
            at_hand=lambda value: False,
            replace=first_iteration,
            suits=lambda shape: isinstance(shape, Affine),
            step_limit=_BLOCK_WORDS,
        )
        is_collected, access = words.collect(address), self._emitter.memory.access(node)
        indices = (s.instruction.sreg for s in words.steps if isinstance(s, Operation))
        if not is_collected or not rows.is_contiguous(access) or _BLOCK_INDICES.isdisjoint(indices):
            return None
        return Request(access, words.steps, self._first_iterations(access))

    def _first_iterations(self, access: Access) -> range:
        """Return the distances from the first iteration's row to those of the next ones."""
        home = self._ssa.graph.innermost_loop[self._values.block]
        for phi in self._ssa.blocks[home].phis if home != -1 else ():
            around = _around(phi, self._ssa.graph.loops[home])
            if around is None or step_of(self._ssa, access.address, phi.result) is None:
                continue
            step = step_of(self._ssa, around, phi.result)
            if step:
                return range(0, _BLOCK_ITERATIONS * step, step)
        return range(1)

    def _of_iteration(self, node: Operation, access: Access | None) -> Request | None:
        body, address = self._loop_with_meeting(), _address(node)
        if body is None or address is None:
            return None
        phis: dict[Phi, Source] = {}

        def next_iteration(words: Recomputed, phi: Phi) -> bool:
            around = _around(phi, body) if self._ssa.graph.loops.get(phi.block) == body else None
            if around is None or isinstance(self._emitter.analysis.shapes[phi.result], Vector):
                return False
            phis[phi] = around
            return True

        words, earlier_words = (
            Recomputed(
                self._values,
                body,
                at_hand=lambda value: wraps.is_at_hand(self._values, value),
                replace=next_iteration,
                suits=_may_be_rows,
                step_limit=_TURN_WORDS,
            )
            for _ in range(2)
        )
        if not words.collect(address) or not phis:
            return None
        following = dict(phis)
        if not all(map(earlier_words.collect, following.values())):
            return None
        access = access or self._emitter.memory.access(node)
        if not isinstance(access.shape, Vector) and not rows.is_contiguous(access):
            return None
        return Request(access, [*earlier_words.steps, following, *words.steps])

    def _loop_with_meeting(self) -> frozenset[int] | None:
        """Return the innermost loop here if it contains a wait point."""
        header = self._ssa.graph.innermost_loop[self._values.block]
        if header == -1:
            return None
        body = self._ssa.graph.loops[header]
        if header not in self._meeting:
            nodes = (node for block in body for node in self._ssa.blocks[block].nodes)
            self._meeting[header] = any(
                isinstance(n, Operation) and EFFECTS[n.instruction.op].stops for n in nodes
            )
        return body if self._meeting[header] else None

    def _lines(self, request: Request) -> Iterator[str]:
        """Yield pointers into the cache lines of a request."""
        scope = self._values.mark()
        recomputation.write(self._emitter, request.steps)
        starts = list(self._starts(request.access))
        scope.roll_back()
        moved = self._emitter.memory.pointers.offset_pointer
        for start, places in starts:
            for distance in request.distances:
                yield from (moved(start, distance + place) for place in places)

    def _starts(self, access: Access) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield base pointers and, for each, the offsets of the cache lines that an access
        reads.
        """
        pointers, vectors = self._emitter.memory.pointers, range(self._values.vectors)
        shape, size = access.shape, self._emitter.text.width * access.element_bytes * access.count
        if not isinstance(shape, Vector) and not shape.stride:
            uniform = isinstance(shape, Affine) and shape.uniform
            yield from (
                (pointers.of_vector(access, n), (0,)) for n in vectors[: 1 if uniform else None]
            )
        elif isinstance(shape, Affine) and rows.is_contiguous(access):
            places = {n for far in shape.offsets for n in range(far, far + size, _LINE_BYTES)}
            lines = sorted({n // _LINE_BYTES * _LINE_BYTES for n in places})
            yield pointers.of_vector(access, None), lines
        elif rows.is_contiguous(access):
            yield from (
                (pointers.of_vector(access, n), range(0, size, _LINE_BYTES)) for n in vectors
            )
        elif (first_lanes := wraps.first_lane_addresses(self._values, access)) is not None:
            for address in first_lanes.addresses:
                yield pointers.at(access, address), range(0, size, _LINE_BYTES)


def _address(node: Operation | Merge) -> Value | None:
    """Return the address of a load that may be prefetched, or None."""
    if not isinstance(node, Operation) or node.instruction.op is not Op.LD:
        return None
    if node.instruction.space is not Space.GLOBAL or node.instruction.volatile:
        return None
    address = node.sources[0]
    return address if isinstance(address, Value) else None


def _around(phi: Phi, body: frozenset[int]) -> Source | None:
    """Return a phi's value in the next iteration of ``body``, if it is the same operand for all
    lanes.
    """
    around = [source for block, source in phi.arguments.items() if block in body]
    return around[0] if len(around) == 1 else None


def _meets(node: Operation | Merge) -> bool:
    effects = EFFECTS[node.instruction.op] if isinstance(node, Operation) else None
    return effects is not None and (effects.stops or effects.collective)


def _may_be_rows(shape: LaneShape) -> bool:
    return not isinstance(shape, Vector) or shape.without_wrap is not None
