"""Known bits, range and origin of every value of a function.

A global address is clamped once, at the pointer from which it is derived: a 64-bit kernel
parameter or the module's segment. The integer added to that pointer must have a known bound, so
that the sum cannot leave the guard zones around the aperture, which are never allocated.

In a loop, a value keeps its origin and divisors: they are assumed from the loop's entry and
weakened until all back edges agree. Its range is known only if it advances by a constant and the
trip count is bounded. Values are known modulo 2^bits of their register, so that wrapping sums
stay correct.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from vgpu_sim.exec.jit.ir.ssa import (
    Merge,
    Node,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    sources_of,
)
from vgpu_sim.exec.jit.numbers import known_operations, trip_counts
from vgpu_sim.exec.jit.numbers.known_arithmetic import plus
from vgpu_sim.exec.jit.numbers.known_bits import (
    SEGMENT,
    WINDOW_HALF,
    Known,
    between,
    constant,
    either,
    multiple_of,
    refine_facts,
    resize,
    unknown,
)
from vgpu_sim.isa import Literal, Op, Space, SpecialRegister, Symbol
from vgpu_sim.records import dataclass

BOUND_BYTES: Final = 1 << 37
ROW_BYTES: Final = 1 << 12
"""An upper bound on the bytes that all lanes of a group access together. One load of their row
starts at the first lane's address, and the analysis does not prove the last lane's bound
separately.
"""

_PASSES: Final = 4
_INDICES: Final = (SpecialRegister.TID_X, SpecialRegister.TID_Y, SpecialRegister.TID_Z)
_SIZES: Final = (SpecialRegister.NTID_X, SpecialRegister.NTID_Y, SpecialRegister.NTID_Z)
_BLOCK: Final = frozenset((*_INDICES, *_SIZES))

Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The derivation of an address: an integer is added to the pointer ``origin``.

    ``origin`` is the byte offset of a kernel parameter, or ``SEGMENT`` or ``WINDOW``. ``bound``
    is an upper bound on the integer's magnitude, and ``grain`` is a power of two that divides the
    integer.
    """

    origin: int
    bound: int
    grain: int

    def is_confined(self, displacement: int, size: int) -> bool:
        """Return whether an access is within bounds once the pointer ``origin`` is clamped. The
        access has ``size`` bytes and begins ``displacement`` bytes after the address.
        """
        return self.bound + abs(displacement) + size + ROW_BYTES <= BOUND_BYTES

    def is_aligned(self, displacement: int, size: int) -> bool:
        """Return whether the distance from the pointer ``origin`` to an access is a multiple of
        ``size`` bytes. The access begins ``displacement`` bytes after the address.
        """
        return self.grain % size == 0 and displacement % size == 0


def known_values(
    ssa: SsaFunction, offsets: Mapping[str, int] | None = None, block: Block | None = None
) -> "KnownValues":
    """Return the facts about the values of ``ssa``, cached per function.

    ``offsets`` are the offsets of the module's variables, and ``block`` is the block shape. Each is
    None if it is unknown.
    """
    general_facts = ssa.analyses.get(KnownValues)
    if not isinstance(general_facts, KnownValues):
        general_facts = ssa.analyses[KnownValues] = KnownValues(ssa)
    if not block or not general_facts.reads_block:
        block = None
    if not offsets or not general_facts.names_variables:
        offsets = {}
    if not offsets and block is None:
        return general_facts
    key = (KnownValues, tuple(sorted(offsets.items())), block)
    specific_facts = ssa.analyses.get(key)
    if not isinstance(specific_facts, KnownValues):
        specific_facts = ssa.analyses[key] = KnownValues(ssa, offsets, block, general_facts)
    return specific_facts


class KnownValues:
    """The known bits, ranges and origins of the values of one function. Create it with
    ``known_values``.

    ``reads_block`` is true if the function reads a thread index or the block's size.
    ``names_variables`` is true if the function uses the address of a module variable.
    ``window_known`` is true if the function reads the generic address of shared memory. If it
    does not, no value of the function is a generic address in shared memory, because only this
    read yields such addresses.

    ``general_facts``, if given, has the facts that hold without ``offsets`` and ``block``. Only the
    values that depend on ``offsets`` or ``block`` are then recomputed.
    """

    def __init__(
        self,
        ssa: SsaFunction,
        offsets: Mapping[str, int] = MappingProxyType({}),
        block: Block | None = None,
        general_facts: "KnownValues | None" = None,
    ) -> None:
        self._ssa = ssa
        self._offsets = offsets
        self._order = list(ssa.blocks.values())
        self._special = {
            SpecialRegister.LANEID: between(0, 31, 32),
            SpecialRegister.SHARED_WINDOW: between(0, 0, 32, WINDOW_HALF),
            **_sizes(block),
        }
        self._facts: dict[Value, Known] = {}
        self._assumed: dict[Value, Known] = {}
        self._trips: dict[int, int | None] = {}
        self._changed: set[Source] | None = None
        self.reads_block = self.names_variables = self.window_known = False
        if general_facts is not None:
            self._facts, self._assumed = dict(general_facts._facts), dict(general_facts._assumed)
            self.names_variables, self.window_known = (
                general_facts.names_variables,
                general_facts.window_known,
            )
            self._changed = set()
        self._run()

    def read(self, source: Source, bits: int) -> Known:
        """Return the facts about an operand that is read in ``bits`` bits."""
        if isinstance(source, Literal):
            return constant(source.bits, bits)
        if isinstance(source, Value):
            facts = self._facts.get(source)
            if facts is None:
                return unknown(bits)
            return facts if facts.bits == bits else resize(facts, bits)
        return resize(self._address(source), bits)

    def trace(self, address: Source) -> Pointer | None:
        """Return the pointer from which ``address`` is derived, or None if that is unknown."""
        known = self.read(address, 64)
        if known.origin is None or known.origin == WINDOW_HALF:
            return None
        return Pointer(known.origin, known.magnitude, known.known_divisor)

    def known_divisor(self, source: Source) -> int:
        """Return a power of two, up to 2^32, that divides the low 32 bits of a value."""
        return self.read(source, 32).number.known_divisor

    def most_trips(self, header: int) -> int | None:
        """Return an upper bound, for all lanes, of the trip count of the loop with this header;
        None if no bound is known.
        """
        if header not in self._trips:
            self._trips[header] = trip_counts.most_trips(self._ssa, header, self.known_divisor)
        return self._trips[header]

    def constants(self) -> dict[Value, int]:
        """Return a mapping from operation results to constants. It contains each result that is
        known to be the same constant in all threads.
        """
        numbers = {}
        for value, known in self._facts.items():
            number = known.constant
            if number is not None and isinstance(self._ssa.definition[value], Operation):
                numbers[value] = number
        return numbers

    def _address(self, symbol: Symbol) -> Known:
        self.names_variables = True
        offset, reach = self._offsets.get(symbol.name), 0
        if offset is None:
            offset, reach = 0, BOUND_BYTES // 4
        begin = offset + symbol.addend
        return between(begin - reach, begin + reach, 64, SEGMENT)

    def _run(self) -> None:
        begin, passes = self._pass(0), 1
        while begin is not None:
            if passes >= _PASSES:  # now nothing is assumed any more, and one more pass is needed
                self._assumed = {value: unknown(value.bits) for value in self._assumed}
                begin = 0
            begin, passes = self._pass(begin), passes + 1

    def _pass(self, begin: int) -> int | None:
        """Compute the facts of all blocks from position ``begin`` in their order.

        Return the position from which to repeat the pass because an assumption about a loop was
        weakened, or None.
        """
        facts, changed = self._facts, self._changed
        self._trips.clear()
        for block in self._order[begin:]:
            for node in (*block.phis, *block.nodes):
                if isinstance(node, Operation):
                    result = node.results[0] if len(node.results) == 1 else None
                    if result is None:
                        self.names_variables |= any(isinstance(s, Symbol) for s in node.sources)
                        continue
                else:
                    result = node.result
                if changed is not None and not self._depends(node, changed):
                    continue
                refined_facts = self._find(node, result.bits)
                if changed is not None and facts[result] != refined_facts:
                    changed.add(result)
                facts[result] = refined_facts
        self._changed = None
        return self._weaken()

    def _depends(self, node: Node | Phi, changed: set[Source]) -> bool:
        """Return whether a node may have other facts than without offsets and block shape."""
        if isinstance(node, Operation) and node.instruction.op is Op.S2R:
            return node.instruction.sreg in _BLOCK
        return any(
            source in changed if isinstance(source, Value) else isinstance(source, Symbol)
            for source in sources_of(node)
        )

    def _find(self, node: Node | Phi, bits: int) -> Known:
        if isinstance(node, Phi):
            return self._phi(node)
        if isinstance(node, Merge):
            return self._join((node.new, node.old), bits)
        return self._result(node, bits)

    def _result(self, node: Operation, bits: int) -> Known:
        instruction, sources = node.instruction, node.sources
        if instruction.op in known_operations.RULES:
            return known_operations.result(
                instruction, lambda place, width: self.read(sources[place], width), bits
            )
        self.names_variables |= any(isinstance(source, Symbol) for source in sources)
        if instruction.op is Op.S2R:
            return self._of_special(instruction.sreg, bits)
        whole = instruction.type.bits == bits == 64 and instruction.vector == 1
        if instruction.op is Op.LD and instruction.space is Space.PARAM and whole:
            return between(0, 0, 64, instruction.displacement)
        return unknown(bits)

    def _of_special(self, register: SpecialRegister | None, bits: int) -> Known:
        self.window_known |= register is SpecialRegister.SHARED_WINDOW
        self.reads_block |= register in _BLOCK
        facts = None if register is None else self._special.get(register)
        return unknown(bits) if facts is None else resize(facts, bits)

    # Loops.

    def _phi(self, phi: Phi) -> Known:
        bits = phi.result.bits
        body = self._ssa.graph.loops.get(phi.block, frozenset())
        around = [source for block, source in phi.arguments.items() if block in body]
        start = self._join(
            [source for block, source in phi.arguments.items() if block not in body], bits
        )
        if not around:
            return start
        if len(around) == 1:
            step = trip_counts.step_of(self._ssa, around[0], phi.result)
            if step is not None:
                self._assumed.pop(phi.result, None)
                return plus(start, self._step(phi.block, step, bits))
        assumed = self._assumed.get(phi.result)
        if assumed is None:
            if not all(map(self._may_keep, around)):
                return unknown(bits)
            assumed = start
        self._assumed[phi.result] = assumed = _drifting(either(assumed, start))
        return assumed

    def _step(self, header: int, step: int, bits: int) -> Known:
        """Return the facts about the distance of a value from its first one in a loop.

        The value advances by the constant ``step`` in each iteration.
        """
        trips = self.most_trips(header) if step else 0
        if trips is None:
            return multiple_of(step & -step, bits)
        far, power = step * trips, step & -step
        return refine_facts(
            bits, min(far, 0), abs(far), multiple_of(power, bits).zeros if step else 0
        )

    def _may_keep(self, source: Source) -> bool:
        """Return whether anything can be known about a value on a back edge."""
        node = self._ssa.definition.get(source) if isinstance(source, Value) else None
        if not isinstance(node, Operation):
            return True
        instruction = node.instruction
        return instruction.op in known_operations.RULES and instruction.type.is_integer

    def _weaken(self) -> int | None:
        """Weaken the assumptions about loops to what their back edges provide.

        Return the position of the first block where an assumption changed, or None.
        """
        first: int | None = None
        for place, block in enumerate(self._order):
            body = self._ssa.graph.loops.get(block.index)
            for phi in block.phis if body else ():
                assumed = self._assumed.get(phi.result)
                if assumed is None or body is None:
                    continue
                around = [source for come, source in phi.arguments.items() if come in body]
                bits = phi.result.bits
                weakened_facts = _drifting(either(assumed, self._join(around, bits)))
                if weakened_facts != assumed:
                    first = place if first is None else first
                    self._assumed[phi.result] = weakened_facts
        return first

    def _join(self, sources: Iterable[Source], bits: int) -> Known:
        joined_facts: Known | None = None
        for source in sources:
            known = self.read(source, bits)
            joined_facts = known if joined_facts is None else either(joined_facts, known)
        return unknown(bits) if joined_facts is None else joined_facts


def _drifting(known: Known) -> Known:
    """Return the facts that remain if a value moves by any multiple of its divisor."""
    return multiple_of(known.known_divisor, known.bits, known.origin)


def _sizes(block: Block | None) -> dict[SpecialRegister, Known]:
    if block is None:
        return {}
    indices = zip(_INDICES, (between(0, size - 1, 32) for size in block), strict=True)
    sizes = zip(_SIZES, (constant(size, 32) for size in block), strict=True)
    return {**dict(indices), **dict(sizes)}
