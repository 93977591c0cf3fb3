"""Reordering of sums that exceed the registers: a few are completed before the next ones begin.

Compilers emit a product of 8 x 8 elements per thread in rounds: one step of each of 64 sums,
then the next step of each. No CPU has 64 registers, so each step loads and stores a sum. If the
steps of several rounds are in one block, as many sums as there are registers go through all
rounds first. Only float arithmetic is delayed, until the next visible instruction or the block's
end, and loads until their first use.

LLVM's scheduler would restore the rounds (it minimises latency, not register pressure). It does
not move code across a label, an annotation for debuggers that emits no code.
"""

from collections.abc import Iterator, Mapping, Sequence

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.isa import Family, is_visible, reads_memory

_Node = Operation | Merge
_FEWEST_STEPS = 2  # steps per sum, on average, below which the order is unchanged


def exceeds_registers(ssa: SsaFunction, registers: int) -> bool:
    """Return whether a loop accumulates so many sums that no registers are left for other values,
    namely the factors of the products that the loop adds to the sums.
    """
    return any(sums_of(ssa, header) > registers * 3 // 4 for header in ssa.graph.loops)


def sums_of(ssa: SsaFunction, header: int) -> int:
    """Return the number of floats that a loop computes in each iteration and carries to the
    next.
    """
    body = ssa.graph.loops[header]
    return sum(
        any(b in body and _computed_value(ssa, source) for b, source in phi.arguments.items())
        for phi in ssa.blocks[header].phis
    )


def _computed_value(ssa: SsaFunction, source: Source) -> bool:
    node = ssa.definition.get(source) if isinstance(source, Value) else None
    if isinstance(node, Phi):  # an inner loop's sum, which the outer loop carries too
        body = ssa.graph.loops.get(node.block, frozenset())
        within = (s for b, s in node.arguments.items() if b in body)
        return any(s is not source and _is_float(ssa, s) for s in within)
    return isinstance(source, Value) and _is_float(ssa, source)


def _is_float(ssa: SsaFunction, source: Source) -> bool:
    node = ssa.definition.get(source) if isinstance(source, Value) else None
    return isinstance(node, Operation) and node.instruction.op.family is Family.FLOAT


def reorder(analysis: Analysis, nodes: Sequence[_Node], registers: int) -> list[_Node] | None:
    """Return the ``nodes`` of a block in an order that computes only a few sums at a time.

    ``registers`` is the number of vector registers. Return None if the order does not change.
    """
    if len(nodes) <= registers:
        return None
    put_off = _put_off(analysis, nodes)
    result: list[_Node] = []
    steps: list[Operation] = []
    for node in nodes:
        if isinstance(node, Operation) and is_visible(node.instruction):
            result += _by_sums(analysis, steps, registers)
            steps = []
        if isinstance(node, Operation) and node in put_off:
            steps.append(node)
        else:
            result.append(node)
    result += _by_sums(analysis, steps, registers)
    former = [node for node in nodes if node in put_off]
    if [node for node in result if node in put_off] == former:
        return None
    return _late(result)


def _late(nodes: Sequence[_Node]) -> list[_Node]:
    """Return ``nodes`` with each plain load just before the first instruction that reads it.

    No load moves across a visible instruction.
    """
    result: list[_Node] = []
    waiting: dict[Value, Operation] = {}

    def load(node: Operation) -> None:
        for value in results_of(node):
            waiting.pop(value, None)
        for source in sources_of(node):
            if isinstance(source, Value) and source in waiting:
                load(waiting[source])
        result.append(node)

    for node in nodes:
        if isinstance(node, Operation) and is_visible(node.instruction):
            for pending in list(dict.fromkeys(waiting.values())):
                load(pending)
        for source in sources_of(node):
            if isinstance(source, Value) and source in waiting:
                load(waiting[source])
        if isinstance(node, Operation) and reads_memory(node.instruction) and results_of(node):
            waiting |= dict.fromkeys(results_of(node), node)
        else:
            result.append(node)
    for pending in list(dict.fromkeys(waiting.values())):
        load(pending)
    return result


def _put_off(analysis: Analysis, nodes: Sequence[_Node]) -> set[_Node]:
    """Return the steps whose result is read in this block by at most one other node, a later
    step.
    """
    readers: dict[Value, list[_Node]] = {}
    delayed_steps: set[_Node] = set()
    for node in reversed(nodes):
        used = [reader for result in results_of(node) for reader in readers.get(result, ())]
        if is_step(analysis, node) and len(used) <= 1 and all(n in delayed_steps for n in used):
            delayed_steps.add(node)
        if isinstance(node, Operation) and is_visible(node.instruction):
            readers.clear()  # readers in other blocks run after the delayed steps
        for source in sources_of(node):
            if isinstance(source, Value):
                readers.setdefault(source, []).append(node)
    return delayed_steps


def is_step(analysis: Analysis, node: _Node) -> bool:
    """Return whether a node is float arithmetic with a result that varies over lanes."""
    if not isinstance(node, Operation) or node.guard is not None:
        return False
    results = results_of(node)
    return (
        node.instruction.op.family is Family.FLOAT
        and len(results) == 1
        and isinstance(analysis.shapes[results[0]], Vector)
    )


def _by_sums(analysis: Analysis, steps: Sequence[Operation], registers: int) -> Iterator[Operation]:
    sum_of: dict[Value, int] = {}
    sums: list[list[Operation]] = []
    for step in steps:
        joined = sorted({sum_of[s] for s in step.sources if isinstance(s, Value) and s in sum_of})
        target = joined[0] if joined else len(sums)
        if not joined:
            sums.append([])
        for joined_sum in joined[1:]:
            _move(sums, sum_of, joined_sum, target)
        sums[target].append(step)
        sum_of[results_of(step)[0]] = target
    sums = [sum_ for sum_ in sums if sum_]
    each = analysis.geometry.vectors
    if len(sums) * each <= registers or len(steps) < _FEWEST_STEPS * len(sums):
        yield from steps
        return
    place: Mapping[Operation, int] = {step: n for n, step in enumerate(steps)}
    at_once = max(1, registers // 2 // each)
    for first in range(0, len(sums), at_once):
        together = [step for sum_ in sums[first : first + at_once] for step in sum_]
        yield from sorted(together, key=place.__getitem__)


def _move(sums: list[list[Operation]], sum_of: dict[Value, int], source: int, target: int) -> None:
    for step in sums[source]:
        sum_of[results_of(step)[0]] = target
    sums[target] += sums[source]
    sums[source] = []
