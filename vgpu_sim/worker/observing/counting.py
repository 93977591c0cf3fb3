"""Counters in compiled code: instruments a module so that its kernels count their executions.

A thread counts in registers, and adds its counts to memory before it ends, so a loop costs one
addition per iteration. Basic blocks that every thread runs equally often share a counter; code
that every thread runs once has no counter. Only modules of an observed context are changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vgpu_sim.exec import cfg
from vgpu_sim.isa import (
    EFFECTS,
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    MulMode,
    Op,
    Operand,
    Register,
    Space,
    SpecialRegister,
    Symbol,
    Update,
    Variable,
)
from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.verify import check_function
from vgpu_sim.records import dataclass

SLOTS: Final = 2048  # sums of blocks' work: block b adds to sum b modulo SLOTS
ONCE: Final = -1  # instead of a counter, for code that every thread executes once
_NAME: Final = "__tessera_counts"
_MOST_COUNTERS: Final = 64
_MOST_WORDS: Final = 1 << 14
_MOST_STEPS: Final = 256  # up the dominator tree, to code that runs equally often
_BYTES: Final = 8
_U64: Final = DataType.U64
# Returns the (cycles, issues) of one more execution by a warp, for each list of instructions.
Weigh = Callable[[Function, Sequence[Sequence[int]]], Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The meaning of a kernel's counters, and their location in the module's segment.

    ``counter_of`` maps each instruction to its counter, or to ``ONCE``. ``cycles`` and ``issues``
    have an element for each counter. The element of ``cycles`` is the minimum number of cycles that
    one more execution of the counted code adds to a thread's dependency chain. The element of
    ``issues`` is the number of instructions that this execution issues. The last element of
    ``cycles`` and of ``issues`` is for code that runs once.

    The counters begin at ``offset``. If the kernel has ``loops``, further values follow the
    counters. The first is the number of cycles of the launch's longest thread. After it come
    ``SLOTS`` sums; each is the number of issues of one group of blocks.
    """

    counter_of: tuple[int, ...]
    counters: int
    cycles: tuple[int, ...]
    issues: tuple[int, ...]
    loops: bool
    offset: int = 0

    @property
    def bytes(self) -> int:
        """The size of the kernel's counters in memory, in bytes."""
        return _BYTES * (self.counters + (1 + SLOTS if self.loops else 0))


def instrument(module: Module, weigh: Weigh) -> tuple[Module, Mapping[str, Plan]]:
    """Return the module with counters in its code, and the plans of the counters by kernel name. A
    kernel whose launches cannot be counted has no plan.

    ``weigh`` returns, for the code of each counter, how many cycles and issues one execution costs.
    Before a thread ends, it multiplies its counts by these costs, and so computes its total cycles
    and issues.
    """
    plans, offset = {}, -(-module.segment_bytes // _BYTES) * _BYTES
    begin, functions = offset, []
    names = {variable.name for variable in module.variables}
    used_names = names.union(function.name for function in module.functions)
    used_names = used_names.union(refusal.name for refusal in module.refused)
    for function in module.functions:
        plan = _plan(function, weigh)
        if plan is not None and plan.counters:
            plan = replace(plan, offset=offset)
            try:
                instrumented_function = _rewritten(function, plan, begin)
                check_function(instrumented_function, names | {_NAME})
            except InvalidFunction:  # more registers or instructions than a function may have
                functions.append(function)
                continue
            function = instrumented_function
            offset += plan.bytes
        if plan is not None:
            plans[function.name] = plan
        functions.append(function)
    if offset == begin or _NAME in used_names:
        return module, {name: plan for name, plan in plans.items() if not plan.counters}
    variable = Variable(_NAME, Space.GLOBAL, _BYTES, offset - begin, begin)
    return replace(
        module, functions=tuple(functions), variables=(*module.variables, variable)
    ), plans


def _plan(function: Function, weigh: Weigh) -> Plan | None:
    """Assign counters to a kernel's code; return None if the kernel would need too many."""
    if len(function.code) > _MOST_WORDS:
        return None
    try:
        graph = cfg.build(function)
    except cfg.ControlFlowError:
        return None
    leaders = _leaders(graph)
    numbers: dict[int, int] = {0: ONCE} if leaders.get(0) == 0 and not _loops(graph, 0) else {}
    for block in graph.reverse_post_order:
        numbers.setdefault(leaders[block], len(numbers) - (ONCE in numbers.values()))
    counters = len(numbers) - (ONCE in numbers.values())
    if counters > _MOST_COUNTERS:
        return None
    of_block = {block: numbers[leaders[block]] for block in graph.reverse_post_order}
    words: list[list[int]] = [[] for _ in range(counters + 1)]
    for block in sorted(of_block):
        words[of_block[block]] += graph.blocks[block].words  # ONCE is the last
    weights = weigh(function, words)
    return Plan(
        tuple(of_block.get(block, ONCE) for block in graph.block_of_word),
        counters,
        tuple(round(cycles) for cycles, _ in weights),
        tuple(round(issues) for _, issues in weights),
        bool(graph.loops or graph.irreducible_edges),
    )


def _loops(graph: cfg.Cfg, block: int) -> bool:
    return graph.innermost_loop[block] >= 0 or bool(graph.irreducible_edges)


def _leaders(graph: cfg.Cfg) -> dict[int, int]:
    """Map each block to the first one that every thread executes equally often."""
    leaders: dict[int, int] = {}
    entry = graph.reverse_post_order[0]
    for block in graph.reverse_post_order:
        above, leaders[block] = block, block
        for _ in range(0 if graph.irreducible_edges else _MOST_STEPS):
            if above == entry:
                break
            above = graph.idom[above]
            if graph.innermost_loop[above] == graph.innermost_loop[block] and graph.post_dominates(
                block, above
            ):
                leaders[block] = leaders[above]
                break
    return leaders


class _Writer:
    """Builds a function's new code; the additional registers follow the existing ones."""

    def __init__(self, function: Function, plan: Plan, begin: int) -> None:
        self._function, self._plan, self._begin = function, plan, begin
        self.bits = [*function.register_bits]
        self._counts = [self._register(64) for _ in range(plan.counters)]
        self._address, self._sum = self._register(64), self._register(64)
        self._block, self._part = self._register(32), self._register(32)

    def _register(self, bits: int) -> Register:
        self.bits.append(bits)
        return Register(len(self.bits) - 1)

    def before(self) -> Iterator[Instruction]:
        """Yield the instructions to insert at the start of a thread."""
        for count in self._counts:
            yield _word(Op.MOV, _U64, count, [Literal(0)])

    def passing(self, counter: int) -> Instruction:
        """Return the instruction that increments a counter."""
        count = self._counts[counter]
        return _word(Op.ADD, _U64, count, [count, Literal(1)])

    def ending(self) -> Iterator[Instruction]:
        """Yield the instructions to insert before a thread ends."""
        plan = self._plan
        for number, count in enumerate(self._counts):
            yield self._place(number)
            yield self._update(Update.ADD, count)
        if not plan.loops:
            return
        yield from self._weigh_counts(plan.cycles)
        yield self._place(plan.counters)
        yield self._update(Update.MAX, self._sum)
        yield from self._index()
        yield from self._weigh_counts(plan.issues)
        yield self._update(Update.ADD, self._sum)

    def _weigh_counts(self, weights: Sequence[int]) -> Iterator[Instruction]:
        *weights, once = weights
        yield _word(Op.MOV, _U64, self._sum, [Literal(once)])
        for count, weight in zip(self._counts, weights, strict=True):
            yield _word(
                Op.MAD, _U64, self._sum, [count, Literal(weight), self._sum], mode=MulMode.LO
            )

    def _index(self) -> Iterator[Instruction]:
        """Yield code that computes the address of the sum to which the thread's block adds."""
        registers = SpecialRegister
        u32, block, part = DataType.U32, self._block, self._part
        yield _word(Op.S2R, DataType.B32, block, [], sreg=registers.CTAID_Z)
        for size, index in (
            (registers.NCTAID_Y, registers.CTAID_Y),
            (registers.NCTAID_X, registers.CTAID_X),
        ):
            yield _word(Op.S2R, DataType.B32, part, [], sreg=size)
            yield _word(Op.MUL, u32, block, [block, part], mode=MulMode.LO)
            yield _word(Op.S2R, DataType.B32, part, [], sreg=index)
            yield _word(Op.ADD, u32, block, [block, part])
        yield _word(Op.AND, u32, block, [block, Literal(SLOTS - 1)])
        yield self._place(self._plan.counters + 1)
        yield _word(
            Op.MAD,
            u32,
            self._address,
            [block, Literal(_BYTES), self._address],
            mode=MulMode.WIDE,
        )

    def _place(self, number: int) -> Instruction:
        at = self._plan.offset - self._begin + _BYTES * number
        return _word(Op.MOV, _U64, self._address, [Symbol(_NAME, at)])

    def _update(self, update: Update, value: Register) -> Instruction:
        return Instruction(
            Op.RED, _U64, (), (self._address, value), space=Space.GLOBAL, update=update
        )


def _word(
    op: Op,
    kind: DataType,
    to: Register,
    srcs: Iterable[Operand],
    *,
    mode: MulMode = MulMode.NONE,
    sreg: SpecialRegister | None = None,
) -> Instruction:
    return Instruction(op, kind, (to,), tuple(srcs), mode=mode, sreg=sreg)


def _rewritten(function: Function, plan: Plan, begin: int) -> Function:
    writer = _Writer(function, plan, begin)
    graph = cfg.build(function)
    starts = {block.start: graph.block_of_word[block.start] for block in graph.blocks}
    leaders = _leaders(graph)
    code: list[Instruction] = [*writer.before()]
    lines = [0] * len(code)
    places = []
    for word, instruction in enumerate(function.code):
        places.append(len(code))
        block = starts.get(word)
        counter = plan.counter_of[word]
        if block is not None and leaders.get(block) == block and counter != ONCE:
            code.append(writer.passing(counter))
        if instruction.op is Op.RET:
            code += (
                _add_guard(ending_instruction, instruction.guard)
                for ending_instruction in writer.ending()
            )
        code.append(instruction)
        lines += [function.lines[word]] * (len(code) - len(lines))
    code = [
        replace(written_instruction, target=places[written_instruction.target])
        if EFFECTS[written_instruction.op].jumps and written_instruction.target is not None
        else written_instruction
        for written_instruction in code
    ]
    slots = function.physical.slots
    added_slots = (-1,) * (len(writer.bits) - len(function.register_bits))
    return replace(
        function,
        code=tuple(code),
        lines=tuple(lines),
        register_bits=tuple(writer.bits),
        physical=replace(function.physical, slots=(*slots, *added_slots) if slots else ()),
    )


def _add_guard(instruction: Instruction, guard: Guard | None) -> Instruction:
    return replace(instruction, guard=guard)
