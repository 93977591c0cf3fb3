"""Partial unrolling: loops with a known trip count and more sums than registers.

Each iteration of such a loop loads and stores every sum. ``sum_chains`` reorders the steps of
several iterations so that they need few registers, which requires them in one block. Only pure
instructions and plain loads are copied, and the number of executed iterations does not change.
"""

from dataclasses import replace

from vgpu_sim.exec.jit.analysis.operand_widths import operand_widths
from vgpu_sim.exec.jit.ir.ssa import (
    Condition,
    Merge,
    Operation,
    Source,
    SsaBlock,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.planning import sum_chains
from vgpu_sim.isa import Literal, is_visible

_SUMS = 24  # more sums than any CPU keeps in registers, in addition to their factors
_TRIPS = 64
_NODES = 800

_Node = Operation | Merge


def unroll(ssa: SsaFunction) -> None:
    """Unroll suitable loops that have more sums than registers, so that ``sum_chains`` can keep
    each sum in a register over several iterations.
    """
    for block in list(ssa.blocks.values()):
        if block.index not in block.successors or not _suits(ssa, block):
            continue
        if _read_elsewhere(ssa, block):
            continue
        trips = _trips(block)
        round_limit = _NODES // len(block.nodes)
        rounds = max((n for n in range(1, round_limit + 1) if trips % n == 0), default=1)
        if trips > 1 and rounds > 1:
            _copy(ssa, block, rounds)


def _suits(ssa: SsaFunction, block: SsaBlock) -> bool:
    """Return whether a single-block loop has many sums and may be copied."""
    if any(isinstance(n, Operation) and is_visible(n.instruction) for n in block.nodes):
        return False
    return sum_chains.sums_of(ssa, block.index) > _SUMS and 2 * len(block.nodes) <= _NODES


def _read_elsewhere(ssa: SsaFunction, block: SsaBlock) -> bool:
    """Return whether a value at the start of an iteration is read after the loop."""
    begun = {phi.result for phi in block.phis}
    if begun & {phi.arguments[block.index] for phi in block.phis}:
        return True
    for other_block in ssa.blocks.values():
        if other_block is block:
            continue
        nodes = (*other_block.phis, *other_block.nodes)
        if any(source in begun for node in nodes for source in sources_of(node)):
            return True
        if other_block.condition is not None and other_block.condition.value in begun:
            return True
    return block.condition is None or block.condition.value in begun


def _trips(block: SsaBlock) -> int:
    """Return the trip count of a single-block loop if it is known and small, else 0."""
    condition = block.condition
    known: dict[Source, int] = {}
    for phi in block.phis:
        starts = {source for origin, source in phi.arguments.items() if origin != block.index}
        if len(starts) == 1 and isinstance(start := starts.pop(), Literal):
            known[phi.result] = start.bits
    assert condition is not None
    for trip in range(1, _TRIPS + 1):
        for node in block.nodes:
            _evaluate(node, known)
        flag = known.get(condition.value)
        if flag is None:
            return 0
        is_taken = bool(flag) != condition.negated
        if block.successors[0 if is_taken else 1] != block.index:
            return trip
        following: dict[Source, int] = {}
        for phi in block.phis:
            source = phi.arguments[block.index]
            if isinstance(source, Literal):
                following[phi.result] = source.bits
            elif source in known:
                following[phi.result] = known[source]
        known = following
    return 0


def _evaluate(node: _Node, known: dict[Source, int]) -> None:
    if not isinstance(node, Operation) or not node.results or node.results[0] is None:
        return
    if any(not isinstance(s, Literal) and s not in known for s in node.sources):
        return
    instruction = node.instruction
    if instruction.guard is not None or instruction.saturate or instruction.combine:
        return
    function = fold.integer_function(instruction)
    if function is None:
        return
    patterns = []
    for source, bits in zip(node.sources, operand_widths(instruction), strict=True):
        pattern = source.bits if isinstance(source, Literal) else known[source]
        patterns.append(pattern & ((1 << bits) - 1))
    result = node.results[0]
    known[result] = fold.extend(function(*patterns), fold.result_type(instruction), result.bits)


def _copy(ssa: SsaFunction, block: SsaBlock, rounds: int) -> None:
    """Insert ``rounds - 1`` copies of a block's nodes before the original nodes."""
    index = max(value.index for value in ssa.definition)
    current_values: dict[Source, Source] = {}  # the current value of each value of the loop
    copies: list[_Node] = []
    for _ in range(rounds - 1):
        for node in block.nodes:
            for result in results_of(node):
                index += 1
                current_values[result] = Value(index, result.bits)
            copy = _clone(node, current_values)
            copies.append(copy)
            for result in results_of(copy):
                ssa.definition[result], ssa.block_of[result] = copy, block.index
        latest = [phi.arguments[block.index] for phi in block.phis]
        begun = [current_values.get(source, source) for source in latest]
        current_values = {phi.result: source for phi, source in zip(block.phis, begun, strict=True)}
    for node in block.nodes:
        _rename(node, current_values)
    block.nodes = [*copies, *block.nodes]


def _clone(node: _Node, current_values: dict[Source, Source]) -> _Node:
    copy = replace(node)
    _rename(copy, current_values)
    if isinstance(copy, Merge):
        copy.result = _value(current_values, copy.result)
    else:
        copy.results = tuple(r if r is None else _value(current_values, r) for r in copy.results)
    return copy


def _rename(node: _Node, current_values: dict[Source, Source]) -> None:
    """Replace a node's sources by their current values."""
    if isinstance(node, Merge):
        node.condition = _condition(node.condition, current_values)
        node.new, node.old = (
            _value(current_values, node.new),
            current_values.get(node.old, node.old),
        )
        return
    node.sources = tuple(current_values.get(source, source) for source in node.sources)
    if node.guard is not None:
        node.guard = _condition(node.guard, current_values)


def _condition(condition: Condition, current_values: dict[Source, Source]) -> Condition:
    return Condition(current_values.get(condition.value, condition.value), condition.negated)


def _value(current_values: dict[Source, Source], value: Value) -> Value:
    renamed_value = current_values.get(value, value)
    assert isinstance(renamed_value, Value)
    return renamed_value
