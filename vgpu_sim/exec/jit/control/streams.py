"""Loads with a fixed stride in a loop that also loads from addresses it has just read.

Hardware prefetchers detect a fixed stride by themselves. Between irregular loads
(``x[column[i]]``) they often do not, particularly in unrolled loops, in which each load skips
the elements of the others: the loop then stalls on every new line. Rows of a sparse matrix are
contiguous in memory, so a prefetch beyond the end of one row usually serves the next one.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Operation, Phi, SsaFunction, Value
from vgpu_sim.exec.jit.numbers.trip_counts import step_of
from vgpu_sim.isa import Op, Space

_AHEAD_BYTES: Final = 1024
_LINE_BYTES: Final = 64
# The hardware detects smaller strides, and one prefetch per load would cost more than it saves.
_LEAST_STEP: Final = 16
_MOST_NODES: Final = 128


@functools.lru_cache(maxsize=4)  # the result is the same for every version of a kernel
def find(ssa: SsaFunction) -> Mapping[Operation, int]:
    """Return the loads of streams, and the distance in bytes at which to prefetch each.

    A stream is a load with a fixed stride, in a loop that also loads from irregular addresses.
    """
    stream_distances: dict[Operation, int] = {}
    own = Counter(ssa.graph.innermost_loop[block] for block in ssa.blocks)
    for header, body in ssa.graph.loops.items():
        if own[header] < len(body):  # the loop contains another loop
            continue
        phis = ssa.blocks[header].phis
        nodes = [node for block in sorted(body) for node in ssa.blocks[block].nodes]
        if len(phis) + len(nodes) > _MOST_NODES:
            continue
        loads = [node for node in nodes if isinstance(node, Operation) and _is_load(node)]
        if any(_goes_anywhere(ssa, load, body) for load in loads):
            for phi in phis:
                stream_distances.update(_stream(ssa, phi, loads, body))
    return stream_distances


def _is_load(node: Operation) -> bool:
    instruction = node.instruction
    return (
        instruction.op is Op.LD and instruction.space is Space.GLOBAL and not instruction.volatile
    )


def _stream(
    ssa: SsaFunction, phi: Phi, loads: list[Operation], body: frozenset[int]
) -> Iterator[tuple[Operation, int]]:
    """Yield one load for each cache line that an iteration reads by a pointer with a fixed
    stride.
    """
    around = [source for block, source in phi.arguments.items() if block in body]
    step = step_of(ssa, around[0], phi.result) if len(around) == 1 else None
    if step is None or not _LEAST_STEP <= abs(step) <= _LINE_BYTES:
        return
    places: list[int] = []
    for load in loads:
        offset = step_of(ssa, load.sources[0], phi.result)
        if offset is None:
            continue
        place = offset + load.instruction.displacement
        if all(abs(place - earlier_place) >= _LINE_BYTES for earlier_place in places):
            places.append(place)
            yield load, _AHEAD_BYTES if step > 0 else -_AHEAD_BYTES


def _goes_anywhere(ssa: SsaFunction, load: Operation, body: frozenset[int]) -> bool:
    """Return whether the address of ``load`` depends on another load of the same iteration."""
    visited: set[Value] = set()
    pending = [load.sources[0]]
    while pending:
        source = pending.pop()
        if not isinstance(source, Value) or source in visited or ssa.block_of[source] not in body:
            continue
        visited.add(source)
        node = ssa.definition[source]
        if isinstance(node, Operation):
            if _is_load(node):
                return True
            pending += node.sources
    return False
