"""Pruned SSA form of a function's mutable registers and predicates.

Registers start as zero, so that a read before any write is the literal 0. Plain moves disappear:
uses of the copy refer to its source, literals and symbols included, so that analyses see
constants. A predicated instruction becomes the instruction (a load or store keeps the guard as
its mask) and, for each result, a ``Merge`` of the new and the former value.
"""

from collections.abc import Callable, Iterator
from dataclasses import field, replace

from vgpu_sim.exec import cfg
from vgpu_sim.exec.jit.ir.reducible import Origins, make_reducible
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Destination,
    Function,
    Instruction,
    Literal,
    Op,
    Operand,
    Predicate,
    Register,
    Symbol,
)
from vgpu_sim.records import dataclass

ZERO = Literal(0)


class Value:
    """One assignment to a register (16, 32 or 64 bits) or predicate (1 bit)."""

    __slots__ = ("bits", "index")

    def __init__(self, index: int, bits: int) -> None:
        self.index = index
        self.bits = bits

    def __repr__(self) -> str:
        return f"%{self.index}:{self.bits}"


Source = Value | Literal | Symbol


@dataclass(frozen=True, slots=True)
class Condition:
    """The guard of an instruction or branch.

    It is true where ``value`` is true, or, if ``negated``, where ``value`` is false.
    """

    value: Source
    negated: bool


@dataclass(slots=True, eq=False)
class Phi:
    """The merge of a register's values at the start of a block.

    ``arguments`` maps each predecessor block to the value that arrives from it.
    """

    result: Value
    block: int
    arguments: dict[int, Source] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Operation:
    """An instruction in SSA form. ``guard`` is set only if it masks an effect (see
    ``Effects.masked``).
    """

    word: int
    instruction: Instruction
    sources: tuple[Source, ...]
    results: tuple[Value | None, ...]
    guard: Condition | None = None


@dataclass(slots=True, eq=False)
class Merge:
    """The result of a predicated instruction: ``result = condition ? new : old``, bit for bit."""

    word: int
    condition: Condition
    new: Value
    old: Source
    result: Value


Node = Operation | Merge


@dataclass(slots=True)
class SsaBlock:
    """A basic block. If it has two successors, the first is taken where ``condition`` is true, and
    the second elsewhere.
    """

    index: int
    successors: tuple[int, ...]
    phis: list[Phi] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    condition: Condition | None = None
    first_word: int = 0
    last_word: int = 0


@dataclass(slots=True, eq=False)
class SsaFunction:
    """A function in SSA form, with reachable ``blocks`` only.

    ``definition`` maps a value to its node, and ``block_of`` to its block. ``origins`` maps each
    instruction of ``function`` to its index in the original code. ``analyses`` caches the results
    of analyses: see ``value_shapes.analyse``.
    """

    function: Function
    graph: cfg.Cfg
    blocks: dict[int, SsaBlock]
    definition: dict[Value, Phi | Node]
    block_of: dict[Value, int]
    origins: Origins = ()
    analyses: dict[object, object] = field(default_factory=dict, repr=False)


def build(function: Function) -> SsaFunction:
    """Convert ``function`` to SSA form.

    Raises:
        ControlFlowError: see ``cfg.build``.
    """
    # Rejects invalid branch targets in terms of the caller's instruction indices.
    cfg.build(function)
    code, origins = _free_entry(_thread_returns(function.code))
    function, origins = make_reducible(replace(function, code=code), origins)
    return convert_reducible(function, origins)


def convert_reducible(function: Function, origins: Origins) -> SsaFunction:
    """Convert a reducible function to SSA form; see ``SsaFunction`` for ``origins``."""
    return _Builder(function, cfg.build(function), origins).build()


def sources_of(node: Phi | Node) -> Iterator[Source]:
    """Yield all operands that ``node`` reads, guards included."""
    if isinstance(node, Phi):
        yield from node.arguments.values()
    elif isinstance(node, Merge):
        yield node.condition.value
        yield node.new
        yield node.old
    else:
        yield from node.sources
        if node.guard is not None:
            yield node.guard.value


def used_values(ssa: SsaFunction) -> frozenset[Source | None]:
    """Return the values that at least one node or branch reads."""
    nodes = (n for b in ssa.blocks.values() for n in (*b.phis, *b.nodes))
    read = {source for node in nodes for source in sources_of(node)}
    branches = (b.condition for b in ssa.blocks.values())
    return frozenset(read | {c.value for c in branches if c is not None})


def results_of(node: Phi | Node) -> tuple[Value, ...]:
    """Return all values that ``node`` defines."""
    if isinstance(node, Operation):
        return tuple(result for result in node.results if result is not None)
    return (node.result,)


def _thread_returns(code: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Replace a branch to a RET by a RET: compilers put one RET at the end and branch to it."""
    threaded = []
    for instruction in code:
        if instruction.op is Op.BRA and instruction.target is not None:
            target = instruction.target
            while 0 <= target < len(code) and code[target].op is Op.NOP:
                target += 1
            if 0 <= target < len(code) and code[target].op is Op.RET and not code[target].guard:
                instruction = replace(instruction, op=Op.RET, target=None)
        threaded.append(instruction)
    return tuple(threaded)


def _free_entry(code: tuple[Instruction, ...]) -> tuple[tuple[Instruction, ...], Origins]:
    """Insert a NOP before the first instruction if that is a branch target.

    Return the code and the index that each of its instructions had before.
    """
    words = tuple(range(len(code)))
    if all(instruction.target != 0 for instruction in code if instruction.op is Op.BRA):
        return code, words
    moved = [
        replace(i, target=i.target + 1) if i.op is Op.BRA and i.target is not None else i
        for i in code
    ]
    return (Instruction(Op.NOP), *moved), (0, *words)


_Variable = Register | Predicate


class _Builder:
    def __init__(self, function: Function, graph: cfg.Cfg, origins: Origins) -> None:
        self._function = function
        self._origins = origins
        self._graph = graph
        self._order = graph.reverse_post_order
        self._count = 0
        self._blocks: dict[int, SsaBlock] = {}
        self._phi_of: dict[int, dict[_Variable, Phi]] = {b: {} for b in self._order}

    def build(self) -> SsaFunction:
        self._place_phis()
        self._rename()
        definition: dict[Value, Phi | Node] = {}
        block_of: dict[Value, int] = {}
        for block in self._blocks.values():
            for node in (*block.phis, *block.nodes):
                for result in results_of(node):
                    definition[result] = node
                    block_of[result] = block.index
        ordered = {index: self._blocks[index] for index in self._order}
        origins = self._origins
        return SsaFunction(self._function, self._graph, ordered, definition, block_of, origins)

    def _bits(self, variable: _Variable) -> int:
        if isinstance(variable, Predicate):
            return 1
        return self._function.register_bits[variable.index]

    def _value(self, bits: int) -> Value:
        self._count += 1
        return Value(self._count, bits)

    def _scan(self, b: int) -> tuple[set[_Variable], dict[_Variable, None]]:
        """Return the variables that a block reads before writing them, and those it writes (in
        order).
        """
        writes: dict[_Variable, None] = {}
        reads: set[_Variable] = set()
        for word in self._graph.blocks[b].words:
            instruction = self._function.code[word]
            reads |= {variable for variable in _reads(instruction) if variable not in writes}
            writes |= {d: None for d in instruction.dsts if d is not None}
        return reads, writes

    def _place_phis(self) -> None:
        scanned = {b: self._scan(b) for b in self._order}
        reads = {b: scan[0] for b, scan in scanned.items()}
        writes = {b: scan[1] for b, scan in scanned.items()}
        live = self._liveness(reads, writes)
        frontier = self._frontiers()
        defining: dict[_Variable, list[int]] = {}
        for b in self._order:
            for variable in writes[b]:
                defining.setdefault(variable, []).append(b)
        for variable, blocks in defining.items():
            pending = list(blocks)
            while pending:
                for target in sorted(frontier[pending.pop()]):
                    if variable in live[target] and variable not in self._phi_of[target]:
                        self._phi_of[target][variable] = Phi(
                            self._value(self._bits(variable)), target
                        )
                        pending.append(target)

    def _liveness(
        self, reads: dict[int, set[_Variable]], writes: dict[int, dict[_Variable, None]]
    ) -> dict[int, set[_Variable]]:
        live: dict[int, set[_Variable]] = {b: set() for b in self._order}
        changed = True
        while changed:
            changed = False
            for b in reversed(self._order):
                live_out: set[_Variable] = set()
                for successor in self._graph.blocks[b].successors:
                    live_out |= live.get(successor, set())
                live_in = reads[b] | (live_out - writes[b].keys())
                if live_in != live[b]:
                    live[b] = live_in
                    changed = True
        return live

    def _frontiers(self) -> dict[int, set[int]]:
        graph = self._graph
        frontier: dict[int, set[int]] = {b: set() for b in self._order}
        for b in self._order:
            predecessors = graph.blocks[b].predecessors
            for runner in predecessors if len(predecessors) > 1 else ():
                while runner != graph.idom[b]:
                    frontier[runner].add(b)
                    runner = graph.idom[runner]
        return frontier

    def _rename(self) -> None:
        children: dict[int, list[int]] = {b: [] for b in self._order}
        for b in self._order[1:]:
            children[self._graph.idom[b]].append(b)
        stack: list[tuple[int, dict[_Variable, Source]]] = [(self._order[0], {})]
        while stack:
            b, inherited = stack.pop()
            current = dict(inherited)
            self._rename_block(b, current)
            stack += [(child, current) for child in reversed(children[b])]

    def _rename_block(self, b: int, current: dict[_Variable, Source]) -> None:
        shape = self._graph.blocks[b]
        first, last = self._origins[shape.start], self._origins[shape.end - 1]
        block = SsaBlock(b, shape.successors, first_word=first, last_word=last)
        self._blocks[b] = block
        for variable, phi in self._phi_of[b].items():
            block.phis.append(phi)
            current[variable] = phi.result

        def read(operand: Operand) -> Source:
            if isinstance(operand, Register | Predicate):
                return current.get(operand, ZERO)
            return operand

        for word in shape.words:
            self._rename_word(block, word, read, current)
        for successor in shape.successors:
            for variable, phi in self._phi_of.get(successor, {}).items():
                phi.arguments[b] = current.get(variable, ZERO)

    def _rename_word(
        self,
        block: SsaBlock,
        word: int,
        read: Callable[[Operand], Source],
        current: dict[_Variable, Source],
    ) -> None:
        instruction = self._function.code[word]
        word = self._origins[word]
        guard = None
        if instruction.guard is not None:
            guard = Condition(read(instruction.guard.predicate), instruction.guard.negated)
        effects = EFFECTS[instruction.op]
        if effects.leaves and not effects.traps:
            block.condition = guard if len(block.successors) == 2 else None
            return
        if instruction.op is Op.NOP:
            return
        sources = tuple(read(operand) for operand in instruction.srcs)
        if self._is_copy(instruction, sources):
            destination = instruction.dsts[0]
            assert destination is not None
            current[destination] = sources[0]
            return
        results: list[Value | None] = []
        merges: list[tuple[_Variable, Merge]] = []
        for destination in instruction.dsts:
            if destination is None:
                results.append(None)
                continue
            result = self._value(self._bits(destination))
            results.append(result)
            if guard is None:
                continue
            merged = self._value(result.bits)
            merges.append((destination, Merge(word, guard, result, read(destination), merged)))
        effect = guard if effects.masked else None
        block.nodes.append(Operation(word, instruction, sources, tuple(results), effect))
        for variable, merge in merges:
            block.nodes.append(merge)
            current[variable] = merge.result
        if guard is None:
            self._assign(instruction.dsts, results, current)

    @staticmethod
    def _assign(
        destinations: tuple[Destination, ...],
        results: list[Value | None],
        current: dict[_Variable, Source],
    ) -> None:
        for destination, result in zip(destinations, results, strict=True):
            if destination is not None and result is not None:
                current[destination] = result

    def _is_copy(self, instruction: Instruction, sources: tuple[Source, ...]) -> bool:
        if instruction.op is not Op.MOV or instruction.guard or instruction.dsts[0] is None:
            return False
        bits = self._bits(instruction.dsts[0])
        source_bits = 1 if instruction.type is DataType.PRED else instruction.type.bits
        source = sources[0]
        return bits == source_bits and (not isinstance(source, Value) or source.bits == bits)


def _reads(instruction: Instruction) -> Iterator[_Variable]:
    for operand in instruction.srcs:
        if isinstance(operand, Register | Predicate):
            yield operand
    if instruction.guard is not None:
        yield instruction.guard.predicate
        for destination in instruction.dsts:  # lanes that the guard disables keep the former value
            if destination is not None:
                yield destination
