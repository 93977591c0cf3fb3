"""Which pointer an address starts from, and how far from it the address can be.

A global address is made safe once, where it starts: at a 64-bit kernel parameter or the module's
segment. The rest of it is bounded by its types, so it cannot leave the zones that are never
allocated around the aperture. A pointer bumped by a constant in a loop is bounded by the loop's
turns (see ``turns``).
"""

from dataclasses import dataclass

from vgpu_sim.exec.jit import fold
from vgpu_sim.exec.jit.elements import signed
from vgpu_sim.exec.jit.ssa import Merge, Operation, Phi, Source, SsaFunction, Value, results_of
from vgpu_sim.exec.jit.turns import most_turns, step_of
from vgpu_sim.isa import Literal, MulMode, Op, Space, Symbol

BOUND_BYTES = 1 << 37
SEGMENT = -1
_HUGE = 1 << 63


@dataclass(frozen=True, slots=True)
class Root:
    """``parameter``: byte offset of the pointer in the parameter block, or ``SEGMENT``."""

    parameter: int
    bound: int


class Roots:
    """Traces addresses of one function."""

    def __init__(self, ssa: SsaFunction) -> None:
        self._ssa = ssa
        self._known: dict[Value, Root | None] = {}
        self._distances: dict[Value, int | None] = {}
        # In the order of the program what a value is made from is known already: however long the
        # chain that leads to an address, no search goes deep.
        for block in ssa.blocks.values():
            for node in (*block.phis, *block.nodes):
                for value in results_of(node):
                    self._root(value)
                    self._distance(value)

    def trace(self, address: Source, displacement: int, size: int) -> int | None:
        """The root of an access of ``size`` bytes, or None where it must be made safe itself."""
        root = self._root(address)
        if root is None or root.bound + abs(displacement) + size > BOUND_BYTES:
            return None
        return root.parameter

    def _root(self, source: Source) -> Root | None:
        if isinstance(source, Symbol):
            return Root(SEGMENT, abs(source.addend) + BOUND_BYTES // 4)
        if not isinstance(source, Value) or source.bits != 64:
            return None
        if source not in self._known:
            self._known[source] = None  # a cycle that is not a bounded loop has no root
            self._known[source] = self._find(source)
        return self._known[source]

    def _find(self, value: Value) -> Root | None:
        node = self._ssa.definition[value]
        if isinstance(node, Phi):
            return self._phi(node)
        if isinstance(node, Merge):
            return self._widest([self._root(node.new), self._root(node.old)])
        instruction, sources = node.instruction, node.sources
        if fold.result_type(instruction).bits != 64:
            return None
        match instruction.op:
            case Op.LD if instruction.space is Space.PARAM and instruction.vector == 1:
                return Root(instruction.displacement, 0)
            case Op.MOV:
                return self._root(sources[0])
            case Op.SELP:
                return self._widest([self._root(sources[0]), self._root(sources[1])])
            case Op.ADD:
                return self._moved(sources[0], self._distance(sources[1])) or self._moved(
                    sources[1], self._distance(sources[0])
                )
            case Op.SUB:
                return self._moved(sources[0], self._distance(sources[1]))
            case Op.MAD:
                return self._moved(sources[2], self._product(node))
            case _:
                return None

    def _moved(self, source: Source, distance: int | None) -> Root | None:
        root = self._root(source) if distance is not None else None
        if root is None or distance is None:
            return None
        return Root(root.parameter, root.bound + distance)

    @staticmethod
    def _widest(roots: list[Root | None]) -> Root | None:
        known = [root for root in roots if root is not None]
        if len(known) != len(roots) or len({root.parameter for root in known}) != 1:
            return None
        return max(known, key=lambda root: root.bound)

    def _phi(self, phi: Phi) -> Root | None:
        body = self._ssa.graph.loops.get(phi.block)
        if body is None:
            return self._widest([self._root(source) for source in phi.arguments.values()])
        around = [source for block, source in phi.arguments.items() if block in body]
        entry = [source for block, source in phi.arguments.items() if block not in body]
        start = self._widest([self._root(source) for source in entry])
        if start is None or len(around) != 1:
            return None
        step = step_of(self._ssa, around[0], phi.result)
        if step == 0:
            return start
        turns = most_turns(self._ssa, phi.block)
        if step is None or turns is None:
            return None
        return Root(start.parameter, start.bound + abs(step) * turns)

    def _distance(self, source: Source) -> int | None:
        """A bound of a 64-bit number's magnitude (as a signed one)."""
        if isinstance(source, Literal):
            return abs(signed(source.bits, 64))
        if not isinstance(source, Value):
            return None
        if source.bits < 64:
            return 1 << source.bits
        if source not in self._distances:
            self._distances[source] = None
            self._distances[source] = self._measure(self._ssa.definition[source])
        return self._distances[source]

    def _measure(self, node: Phi | Operation | Merge) -> int | None:
        if isinstance(node, Phi):
            if node.block in self._ssa.graph.loops:
                return None
            return self._largest(*node.arguments.values())
        if isinstance(node, Merge):
            return self._largest(node.new, node.old)
        instruction, sources = node.instruction, node.sources
        bits = fold.result_type(instruction).bits
        if bits < 64:
            return 1 << bits
        if instruction.op in (Op.MUL, Op.MAD) and instruction.mode is MulMode.WIDE:
            product = self._product(node)
            if instruction.op is Op.MUL:
                return product
            return self._sum(product, self._distance(sources[2]))
        match instruction.op:
            case Op.CVT:
                source = instruction.source_type
                narrow = source is not None and source.is_integer and source.bits < 64
                return 1 << source.bits if narrow and source is not None else None
            case Op.MOV:
                return self._distance(sources[0])
            case Op.SELP:
                return self._largest(sources[0], sources[1])
            case Op.ADD | Op.SUB:
                return self._sum(self._distance(sources[0]), self._distance(sources[1]))
            case Op.SHL | Op.MUL:
                return self._scaled(node)
            case _:
                return None

    def _scaled(self, node: Operation) -> int | None:
        a, b = node.sources
        if node.instruction.op is Op.MUL and isinstance(a, Literal):
            a, b = b, a
        distance = self._distance(a)
        if distance is None or not isinstance(b, Literal) or node.instruction.mode is MulMode.HI:
            return None
        if node.instruction.op is Op.SHL:
            count = b.bits & 0xFFFF_FFFF
            factor = 1 << count if count < 64 else 0
        else:
            factor = abs(signed(b.bits, 64))
        return distance * factor if distance * factor < _HUGE else None

    def _product(self, node: Operation) -> int | None:
        instruction = node.instruction
        bits = instruction.type.bits
        if instruction.mode is not MulMode.WIDE:
            return None
        for factor in node.sources[:2]:
            if isinstance(factor, Literal):
                number = factor.bits & ((1 << bits) - 1)
                if instruction.type.is_signed:
                    number = abs(signed(number, bits))
                return number << bits
        return None

    def _largest(self, *sources: Source) -> int | None:
        distances = [self._distance(source) for source in sources]
        known = [distance for distance in distances if distance is not None]
        return max(known) if len(known) == len(distances) else None

    @staticmethod
    def _sum(a: int | None, b: int | None) -> int | None:
        if a is None or b is None or a + b >= _HUGE:
            return None
        return a + b
