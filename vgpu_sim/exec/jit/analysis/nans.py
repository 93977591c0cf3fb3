"""The places where NaN results become canonical.

Native arithmetic may produce any NaN pattern, but the instruction set defines the one that a
program observes (f32 7fffffff, f64 7ff8000000000000). To canonicalise every result would cost
two instructions in the middle of each inner loop, so it happens only where the bits become
visible: at stores, integer uses and sign operations, and where a result merges with a value
whose own NaN patterns must be preserved, such as a loaded one.
"""

from collections.abc import Iterator

from vgpu_sim.exec.jit.ir.ssa import (
    ZERO,
    Merge,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    results_of,
    sources_of,
)
from vgpu_sim.isa import DataType, Literal, Op
from vgpu_sim.isa.rules import matrix_registers

CANONICAL = {
    DataType.F16: 0x7FFF,
    DataType.BF16: 0x7FFF,
    DataType.F32: 0x7FFF_FFFF,
    DataType.F64: 0x7FF8_0000_0000_0000,
    DataType.TF32: 0x7FFF_FFFF,
    DataType.E4M3: 0x7F,
    DataType.E5M2: 0x7F,
    DataType.E2M3: 0x1F,  # these three formats have no NaN
    DataType.E3M2: 0x1F,
    DataType.E2M1: 0x7,
}
INFINITY = {
    DataType.F16: 0x7C00,
    DataType.BF16: 0x7F80,
    DataType.F32: 0x7F80_0000,
    DataType.F64: 0x7FF0_0000_0000_0000,
}
_NATIVE = (DataType.F32, DataType.F64)
_SIGN_OPS = (Op.FNEG, Op.FABS)
_Node = Phi | Operation | Merge


def is_arithmetic(node: _Node) -> bool:
    """Return whether ``node`` is native float arithmetic, whose NaN patterns are unspecified."""
    if not isinstance(node, Operation) or node.instruction.op in _SIGN_OPS:
        return False
    instruction = node.instruction
    floating = instruction.op.family.name in ("FLOAT", "MATRIX") or (
        instruction.op is Op.CVT
        and instruction.source_type is not None
        and instruction.source_type.is_float
    )
    return floating and instruction.type in _NATIVE and not instruction.saturate


def reads_number(source: Source, type_: DataType) -> bool:
    """Return whether ``source`` is read as a float of type ``type_``. If so, all NaNs are
    equivalent.
    """
    return not isinstance(source, Value) or (type_ in _NATIVE and source.bits == type_.bits)


class NanPlan:
    """The values with non-canonical NaNs, and the nodes that canonicalise.

    ``dirty`` maps each value whose NaNs are not canonical to its type. ``cleaning`` holds nodes
    that compute nothing themselves but must canonicalise their sources.
    """

    def __init__(self, ssa: SsaFunction, *, lanes_alone: bool = False) -> None:
        """Find the values of ``ssa`` whose NaNs must become canonical, and where.

        With ``lanes_alone``, each lane is a group, so that a shuffle may pair values of
        different instructions.
        """
        self._ssa = ssa
        self._lanes_alone = lanes_alone
        self._visible = self._find_visible()
        self._safe = self._find_safe()
        self.cleaning: set[_Node] = set()
        for node in self._nodes():
            passive = self._is_passive(node) or self._is_sign(node)
            if not passive or not results_of(node) or results_of(node)[0] not in self._visible:
                continue
            if self._is_sign(node) or results_of(node)[0] not in self._safe:
                self.cleaning.add(node)
        self.dirty = self._find_dirty()

    def _nodes(self) -> list[_Node]:
        return [n for b in self._ssa.blocks.values() for n in (*b.phis, *b.nodes)]

    def _is_passive(self, node: _Node) -> bool:
        """Return whether the result is a bitwise copy of one of the sources, perhaps of another
        lane.
        """
        if isinstance(node, Phi | Merge):
            return True
        op, result = node.instruction.op, node.results[0] if node.results else None
        if op is not Op.SELP and (op is not Op.SHFL or self._lanes_alone):
            return False
        return result is not None and result.bits == node.instruction.type.bits

    @staticmethod
    def _is_sign(node: _Node) -> bool:
        return isinstance(node, Operation) and node.instruction.op in _SIGN_OPS

    @staticmethod
    def _observed_sources(node: _Node) -> Iterator[Value]:
        """Yield the sources whose NaN patterns ``node`` observes.

        These are all sources that it does not read as floats of their own width.
        """
        type_ = None
        if isinstance(node, Operation):
            instruction = node.instruction
            if instruction.op is Op.CVT:
                type_ = instruction.source_type
            elif instruction.op is Op.MMA and instruction.type in _NATIVE:
                left, right, _ = matrix_registers(instruction)
                addends = node.sources[left + right :]
                yield from (s for s in node.sources[: left + right] if isinstance(s, Value))
                wide = (s for s in addends if not reads_number(s, instruction.type))
                yield from (s for s in wide if isinstance(s, Value))
                return
            elif instruction.xorsign:
                type_ = None  # the NaN's sign becomes part of the result
            elif instruction.op is Op.SETP or instruction.op.family.name == "FLOAT":
                type_ = instruction.type
        for source in sources_of(node):
            if isinstance(source, Value) and (type_ is None or not reads_number(source, type_)):
                yield source

    @staticmethod
    def _forwarded_sources(node: _Node) -> list[Source]:
        """Return the sources that a passive node forwards."""
        if isinstance(node, Operation):
            carried = {Op.SELP: 2, Op.SHFL: 1}
            return list(node.sources[: carried.get(node.instruction.op)])
        if isinstance(node, Merge):
            return [node.new, node.old]
        return list(node.arguments.values())

    def _find_visible(self) -> set[Value]:
        visible: set[Value] = set()
        nodes = self._nodes()
        for node in nodes:
            if not self._is_passive(node) and not self._is_sign(node):
                visible |= set(self._observed_sources(node))
            elif isinstance(node, Operation) and node.instruction.op is Op.SHFL:
                visible |= {s for s in node.sources[1:] if isinstance(s, Value)}
        changed = True
        while changed:
            earlier_count = len(visible)
            for node in nodes:
                if (self._is_passive(node) or self._is_sign(node)) and any(
                    result in visible for result in results_of(node)
                ):
                    visible |= {s for s in self._forwarded_sources(node) if isinstance(s, Value)}
            changed = len(visible) > earlier_count
        return visible

    def _find_safe(self) -> dict[Value, DataType]:
        """Return the values that contain no NaN other than the canonical one, with their type."""
        safe: dict[Value, DataType] = {}
        passive = [node for node in self._nodes() if self._is_passive(node)]
        for node in self._nodes():
            if is_arithmetic(node):
                assert isinstance(node, Operation)
                for result in results_of(node):
                    if result.bits == node.instruction.type.bits:
                        safe[result] = node.instruction.type
        candidates = {node: t for node in passive if (t := self._guess(node, safe)) is not None}
        assumed = {results_of(node)[0]: type_ for node, type_ in candidates.items()}
        changed = True
        while changed:  # a loop phi is assumed safe at first, until an argument proves otherwise
            changed = False
            for node, type_ in list(candidates.items()):
                if not all(
                    self._is_safe(source, type_, safe, assumed)
                    for source in self._forwarded_sources(node)
                ):
                    del candidates[node], assumed[results_of(node)[0]]
                    changed = True
        return safe | assumed

    def _guess(self, node: _Node, safe: dict[Value, DataType]) -> DataType | None:
        bits = results_of(node)[0].bits if results_of(node) else 0
        types = {type_ for type_ in _NATIVE if type_.bits == bits}
        return types.pop() if types else None

    @staticmethod
    def _is_safe(
        source: Source,
        type_: DataType,
        safe: dict[Value, DataType],
        assumed: dict[Value, DataType],
    ) -> bool:
        if isinstance(source, Value):
            return safe.get(source, assumed.get(source)) is type_
        if not isinstance(source, Literal):
            return False
        magnitude = source.bits & ((1 << (type_.bits - 1)) - 1)
        masked = source.bits & ((1 << type_.bits) - 1)
        return source == ZERO or magnitude <= INFINITY[type_] or masked == CANONICAL[type_]

    def _find_dirty(self) -> dict[Value, DataType]:
        dirty: dict[Value, DataType] = {}
        for node in self._nodes():
            if is_arithmetic(node):
                assert isinstance(node, Operation)
                for result in results_of(node):
                    if result.bits == node.instruction.type.bits:
                        dirty[result] = node.instruction.type
        changed = True
        while changed:
            changed = False
            for node in self._nodes():
                if not self._is_passive(node) or not results_of(node):
                    continue
                result = results_of(node)[0]
                if result in dirty or result not in self._safe:
                    continue
                if any(source in dirty for source in self._forwarded_sources(node)):
                    dirty[result] = self._safe[result]
                    changed = True
        return dirty
