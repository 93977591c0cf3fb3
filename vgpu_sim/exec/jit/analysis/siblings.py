"""Loads whose 32-bit indices are a known number apart: neighbours, unless one of them wraps around.

``a[i * n + j]``, ``a[i * n + j + 1]`` and so on by ``int`` are sums that may wrap around each by
itself, so that each has an address of its own and no lane is known to read a row. Where the
indices are the same sum but for a constant, one question does for all: whether the first one of
each lane lies so far below the end of its type that the last one does not wrap around. Then they
are one load of a row of each lane, else each is a load of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from vgpu_sim.exec.jit.shapes.lane_shapes import signed
from vgpu_sim.isa import DataType, Literal, MulMode, Op, Space, is_visible, reads_memory

_MOST: Final = 4
_MOST_FAMILIES: Final = 16  # of a block: each is written both ways
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
    """Return, for the first of each set of such loads, all of them."""
    found: dict[Operation, Family] = {}
    waiting: dict[object, list[_Sibling]] = {}
    home = _home(nodes)

    def close() -> None:
        for siblings in waiting.values():
            for family in _rows(siblings):
                if len(found) < _MOST_FAMILIES and _reached(home, family) is not None:
                    found[family.loads[0]] = family
        waiting.clear()

    for node in nodes:
        if not isinstance(node, Operation):
            continue
        instruction = node.instruction
        elsewhere = instruction.op is Op.ST and instruction.space is Space.SHARED
        if is_visible(instruction) and (not elsewhere or instruction.volatile):
            close()
        elif (one := _described(ssa, node)) is not None:
            key = one.base, one.factor, one.kind, one.parts, instruction.type
            waiting.setdefault(key, []).append(one)
    close()
    return found


def arranged(nodes: Nodes, found: Mapping[Operation, Family]) -> Nodes:
    """Return the nodes in an order in which all addresses of a family come before its loads."""
    if not found:
        return nodes
    order: dict[Operation | Merge, None] = {}
    home, place = _home(nodes), {node: number for number, node in enumerate(nodes)}
    for node in nodes:
        if isinstance(node, Operation) and node in found:
            needed = _reached(home, found[node]) or set()
            order |= dict.fromkeys(sorted(needed, key=lambda n: place[n]))
        order[node] = None
    return list(order)


def _home(nodes: Nodes) -> Mapping[Source, Operation | Merge]:
    return {result: node for node in nodes for result in results_of(node)}


def _described(ssa: SsaFunction, node: Operation) -> _Sibling | None:
    """Return what the address of a load is made of: a base, and a factor times an index."""
    instruction = node.instruction
    if instruction.op is not Op.LD or instruction.space is not Space.GLOBAL:
        return None
    if instruction.volatile or instruction.vector > 1 or node.guard is not None:
        return None
    whole = _defined(ssa, node.sources[0], Op.ADD, Op.MAD)
    if whole is None:
        return None
    products = [(whole, whole.sources[2])] if whole.instruction.op is Op.MAD else []
    if whole.instruction.op is Op.ADD:
        a, b = whole.sources
        pairs = ((_defined(ssa, x, Op.MUL), y) for x, y in ((a, b), (b, a)))
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
        times = signed(factor.bits, _BITS)
        return _Sibling(node, index, kind, times, frozenset(parts.items()), base, away)
    return None


def _defined(ssa: SsaFunction, source: Source, *ops: Op) -> Operation | None:
    """Return the operation that computes 64 bits, if it is one of ``ops``."""
    node = ssa.definition.get(source) if isinstance(source, Value) else None
    if not isinstance(node, Operation) or node.instruction.op not in ops:
        return None
    assert isinstance(source, Value)
    wide = node.instruction.mode is MulMode.WIDE or node.instruction.type.bits == 64
    return node if wide and node.instruction.type.is_integer and source.bits == 64 else None


def _sum(ssa: SsaFunction, index: Source, parts: Counter[Source]) -> int:
    """Collect what a number of 32 bits is the sum of, modulo 2^32; return what is known of it."""
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
    """Return the parts of ``siblings`` that are rows, read from their first element on."""
    first, found = siblings[0], []
    size, row = first.load.instruction.type.bytes, list[_Sibling]()

    def place(one: _Sibling) -> int:
        distance = signed(one.away - first.away, _BITS) * first.factor
        return distance + one.load.instruction.displacement

    order = {one.load: number for number, one in enumerate(siblings)}
    for one in sorted(siblings, key=place):
        if row and place(one) == place(row[-1]):
            continue  # read twice: that one goes by itself
        if row and place(one) != place(row[-1]) + size:
            row = []
        row.append(one)
        if len(row) == _MOST:
            most = signed(row[-1].away - row[0].away, _BITS)
            if min(row, key=lambda s: order[s.load]) is row[0] and most > 0:
                loads = tuple(s.load for s in row)
                found.append(Family(loads, row[0].index, row[0].kind, most))
            row = []
    return found


def _reached(
    home: Mapping[Source, Operation | Merge], family: Family
) -> set[Operation | Merge] | None:
    """Return the nodes that the family's addresses are made by here; None: not arithmetic alone,
    or more of it than loads of rows would save."""
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
