"""Loads whose 32-bit indices differ by constants: contiguous, unless one of the indices wraps
around.

``a[i * n + j]``, ``a[i * n + j + 1]`` and so on, with ``int`` indices, are sums each of which may
wrap around by itself, so that no lane is known to read contiguous elements. If the indices are
equal except for a constant, one test serves all of them: whether the first index of each lane is
far enough below the end of its type for the last one not to wrap. If so, the loads become one load
of a row per lane, else they run one by one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from vgpu_sim.exec.jit.analysis.assumptions import Family
from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Operation,
    Source,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import DataType, Literal, MulMode, Op, Space, is_visible, reads_memory
from vgpu_sim.records import dataclass

_MOST: Final = 4
_MOST_FAMILIES: Final = 16  # families per block: each is emitted in both forms
_MOST_PARTS: Final = 12
_MOST_WORDS: Final = 64
_BITS: Final = 32
Nodes = Sequence[Operation | Merge]


@dataclass(frozen=True, slots=True)
class _Sibling:
    load: Operation
    index: Value
    kind: DataType
    factor: int
    parts: frozenset[tuple[Source, int]]
    base: Source
    away: int


def families(ssa: SsaFunction, nodes: Nodes) -> Mapping[Operation, Family]:
    """Return the families of loads whose indices differ only by constants, keyed by the first
    load.
    """
    family_of: dict[Operation, Family] = {}
    waiting: dict[object, list[_Sibling]] = {}
    home = _home(nodes)

    def close() -> None:
        for siblings in waiting.values():
            for family in _rows(siblings):
                if len(family_of) < _MOST_FAMILIES and _address_nodes(home, family) is not None:
                    family_of[family.loads[0]] = family
        waiting.clear()

    for node in nodes:
        if not isinstance(node, Operation):
            continue
        instruction = node.instruction
        elsewhere = instruction.op is Op.ST and instruction.space is Space.SHARED
        if is_visible(instruction) and (not elsewhere or instruction.volatile):
            close()
        elif (sibling := _describe(ssa, node)) is not None:
            key = sibling.base, sibling.factor, sibling.kind, sibling.parts, instruction.type
            waiting.setdefault(key, []).append(sibling)
    close()
    return family_of


def order_addresses_first(nodes: Nodes, family_of: Mapping[Operation, Family]) -> Nodes:
    """Return ``nodes`` reordered so that a family's addresses are computed before its loads."""
    if not family_of:
        return nodes
    order: dict[Operation | Merge, None] = {}
    home, place = _home(nodes), {node: number for number, node in enumerate(nodes)}
    for node in nodes:
        if isinstance(node, Operation) and node in family_of:
            needed = _address_nodes(home, family_of[node]) or set()
            order |= dict.fromkeys(sorted(needed, key=lambda n: place[n]))
        order[node] = None
    return list(order)


def _home(nodes: Nodes) -> Mapping[Source, Operation | Merge]:
    return {result: node for node in nodes for result in results_of(node)}


def _describe(ssa: SsaFunction, node: Operation) -> _Sibling | None:
    """Return the base, factor and index of which a load's address consists, or None."""
    instruction = node.instruction
    if instruction.op is not Op.LD or instruction.space is not Space.GLOBAL:
        return None
    if instruction.volatile or instruction.vector > 1 or node.guard is not None:
        return None
    whole = _definition(ssa, node.sources[0], Op.ADD, Op.MAD)
    if whole is None:
        return None
    products = [(whole, whole.sources[2])] if whole.instruction.op is Op.MAD else []
    if whole.instruction.op is Op.ADD:
        a, b = whole.sources
        pairs = ((_definition(ssa, x, Op.MUL), y) for x, y in ((a, b), (b, a)))
        products = [(product, base) for product, base in pairs if product is not None]
    for product, base in products:
        kind, (index, factor) = product.instruction.type, product.sources[:2]
        if product.instruction.mode is not MulMode.WIDE or kind.bits != _BITS:
            continue
        if isinstance(index, Literal):
            index, factor = factor, index
        if not isinstance(factor, Literal) or not isinstance(index, Value):
            continue
        parts = Counter[Source]()
        away = _sum(ssa, index, parts)
        times = to_signed(factor.bits, _BITS)
        return _Sibling(node, index, kind, times, frozenset(parts.items()), base, away)
    return None


def _definition(ssa: SsaFunction, source: Source, *ops: Op) -> Operation | None:
    """Return the operation that defines a 64-bit ``source`` if its opcode is one of ``ops``."""
    node = ssa.definition.get(source) if isinstance(source, Value) else None
    if not isinstance(node, Operation) or node.instruction.op not in ops:
        return None
    assert isinstance(source, Value)
    wide = node.instruction.mode is MulMode.WIDE or node.instruction.type.bits == 64
    return node if wide and node.instruction.type.is_integer and source.bits == 64 else None


def _sum(ssa: SsaFunction, index: Source, parts: Counter[Source]) -> int:
    """Collect the terms of a 32-bit sum modulo 2^32 in ``parts``; return its constant term."""
    away, pending, steps = 0, [index], 0
    while pending:
        source = pending.pop()
        if isinstance(source, Literal):
            away += source.bits
            continue
        steps += 1
        node = ssa.definition.get(source) if isinstance(source, Value) else None
        adds = isinstance(node, Operation) and node.instruction.op is Op.ADD
        if steps > _MOST_PARTS or not adds or not isinstance(source, Value):
            parts[source] += 1
            continue
        assert isinstance(node, Operation)
        type_, whole = node.instruction.type, source.bits == _BITS and len(node.results) == 1
        if whole and type_.bits == _BITS and type_.is_integer and not node.instruction.saturate:
            pending += node.sources
        else:
            parts[source] += 1
    return away


def _rows(siblings: list[_Sibling]) -> list[Family]:
    """Return the subsets of ``siblings`` that read rows without a gap."""
    first, rows = siblings[0], []
    size, row = first.load.instruction.type.bytes, list[_Sibling]()

    def place(sibling: _Sibling) -> int:
        distance = to_signed(sibling.away - first.away, _BITS) * first.factor
        return distance + sibling.load.instruction.displacement

    order = {sibling.load: number for number, sibling in enumerate(siblings)}
    for sibling in sorted(siblings, key=place):
        if row and place(sibling) == place(row[-1]):
            continue  # two loads of one element: the second stays a load of its own
        if row and place(sibling) != place(row[-1]) + size:
            row = []
        row.append(sibling)
        if len(row) == _MOST:
            span = to_signed(row[-1].away - row[0].away, _BITS)
            if min(row, key=lambda s: order[s.load]) is row[0] and span > 0:
                loads = tuple(s.load for s in row)
                rows.append(Family(loads, row[0].index, row[0].kind, span))
            row = []
    return rows


def _address_nodes(
    home: Mapping[Source, Operation | Merge], family: Family
) -> set[Operation | Merge] | None:
    """Return the nodes of this block that compute a family's addresses.

    Return None if they are not pure arithmetic, or if there are more of them than a row load
    saves.
    """
    needed: set[Operation | Merge] = set()
    pending = [home[load.sources[0]] for load in family.loads if load.sources[0] in home]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        if not isinstance(node, Operation) or node.guard is not None or len(needed) == _MOST_WORDS:
            return None
        if is_visible(node.instruction) or reads_memory(node.instruction):
            return None
        needed.add(node)
        pending += [home[s] for s in sources_of(node) if s in home]
    return needed
