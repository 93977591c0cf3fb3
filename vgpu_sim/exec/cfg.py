"""Control-flow graph of a function: blocks, dominators, reconvergence points and loops.

Both executors use it: the interpreter takes the immediate post-dominator of a divergent branch
as the point at which its lanes reconverge (PTX ISA, "Divergence of Threads in Control
Constructs"), the JIT orders blocks by loop level. Nothing here depends on operands other than
branch targets.
"""

from collections import Counter

from vgpu_sim.isa import EFFECTS, Function, Instruction
from vgpu_sim.records import dataclass

_NO_BLOCK = -1

MAX_LOOP_DEPTH = 256
"""The maximum depth of nested loops in compiled code: clang's default limit for nested brackets
(-fbracket-depth).
"""

MAX_LOOP_SPAN = 1 << 20
"""The maximum number of blocks from a backward branch's target to the branch, summed over all
backward branches. It bounds work and memory. The output of compilers stays far below it; about a
thousand nested loops reach it.
"""


class ControlFlowError(ValueError):
    """A branch that leaves its function, or a function without code."""


class LoopNestError(ControlFlowError):
    """Loops nest so deeply that listing the blocks of each would take minutes and much memory."""


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: the instructions from ``start`` to ``end`` (exclusive), which run one after
    another.

    ``successors`` are block indices; the virtual exit has the index ``Cfg.exit``. If the block ends
    in a guarded branch, the first successor is the branch's target, and the second is the block
    after this one. If the block ends in a guarded RET, the first successor is the exit. If both
    successors are the same block, it is listed once.
    """

    index: int
    start: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]

    @property
    def words(self) -> range:
        return range(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Cfg:
    """The control-flow graph of a function.

    Tuples with an element for each block are indexed by block; the element of an unreachable
    block is -1.

    ``idom`` has the immediate dominators; that of the entry is the entry itself. ``ipdom`` has the
    immediate post-dominators, which may be ``exit``. A block that cannot reach the exit (an endless
    loop) first gets an edge to the exit, so every reachable block has an immediate post-dominator.

    ``loops`` maps a header to the blocks of its natural loop, header included. ``innermost_loop``
    gives the header of the smallest loop around a block, or -1. ``loop_depth`` is the largest
    number of loops around any block. ``irreducible_edges`` are the retreating edges whose target
    does not dominate their source. If there are any, ``loops`` is incomplete.
    """

    blocks: tuple[Block, ...]
    reverse_post_order: tuple[int, ...]
    idom: tuple[int, ...]
    ipdom: tuple[int, ...]
    loops: dict[int, frozenset[int]]
    innermost_loop: tuple[int, ...]
    loop_depth: int
    irreducible_edges: tuple[tuple[int, int], ...]
    block_of_word: tuple[int, ...]

    @property
    def exit(self) -> int:
        """The index of the virtual exit, one past the last block."""
        return len(self.blocks)

    def dominates(self, above: int, below: int) -> bool:
        """Return whether block ``above`` dominates block ``below``, that is, whether every path
        from the entry to ``below`` contains ``above``.

        A block dominates itself.
        """
        entry = self.reverse_post_order[0]
        while below != above:
            if below == entry or self.idom[below] == _NO_BLOCK:
                return False
            below = self.idom[below]
        return True

    def post_dominates(self, dominator: int, block: int) -> bool:
        """Return whether block ``dominator`` post-dominates block ``block``, that is, whether every
        path from ``block`` to the exit contains ``dominator``.

        A block post-dominates itself.
        """
        while block != dominator:
            if block == self.exit or self.ipdom[block] == _NO_BLOCK:
                return False
            block = self.ipdom[block]
        return True


def build(function: Function) -> Cfg:
    """Build the control-flow graph of ``function``.

    Raises:
        LoopNestError: its loops span more than ``MAX_LOOP_SPAN`` blocks in total.
        ControlFlowError: the function has no code or a branch leaves it.
    """
    code = function.code
    if not code:
        raise ControlFlowError(f"{function.name} has no code")
    starts = _leaders(function)
    block_of_word: list[int] = []
    bounds = [*starts, len(code)]
    for index, start in enumerate(starts):
        block_of_word += [index] * (bounds[index + 1] - start)
    successors = [
        _successors(code, bounds[index + 1] - 1, block_of_word, len(starts))
        for index in range(len(starts))
    ]
    exit_index = len(starts)
    order = _post_order(0, [*successors, ()])[::-1]
    order = [block for block in order if block != exit_index]
    _check_nesting(order, successors)
    reachable = set(order)
    predecessors: list[list[int]] = [[] for _ in starts]
    for block in order:
        for target in successors[block]:
            if target != exit_index:
                predecessors[target].append(block)
    idom = _dominators(order, predecessors, len(starts))
    ipdom = _post_dominators(order, successors, exit_index)
    blocks = tuple(
        Block(
            index,
            start,
            bounds[index + 1],
            successors[index] if index in reachable else (),
            tuple(predecessors[index]),
        )
        for index, start in enumerate(starts)
    )
    loops, irreducible, loop_depth = _natural_loops(
        order, successors, predecessors, idom, exit_index
    )
    return Cfg(
        blocks=blocks,
        reverse_post_order=tuple(order),
        idom=tuple(idom),
        ipdom=tuple(ipdom),
        loops=loops,
        innermost_loop=tuple(_innermost(loops, len(starts))),
        loop_depth=loop_depth,
        irreducible_edges=tuple(irreducible),
        block_of_word=tuple(block_of_word),
    )


def _check_nesting(order: list[int], successors: list[tuple[int, ...]]) -> None:
    position = {block: place for place, block in enumerate(order)}
    spans = (
        position[block] - position.get(target, len(order))
        for block in order
        for target in successors[block]
    )
    if sum(span + 1 for span in spans if span >= 0) > MAX_LOOP_SPAN:
        raise LoopNestError(f"loops nest too deeply (they span more than {MAX_LOOP_SPAN} blocks)")


def _ends_block(instruction: Instruction) -> bool:
    effects = EFFECTS[instruction.op]
    # A trap with a guard does not end its block: the lanes whose guard is false continue.
    if effects.traps:
        return instruction.guard is None
    return effects.leaves


def _leaders(function: Function) -> list[int]:
    code = function.code
    leaders = {0}
    for word, instruction in enumerate(code):
        if EFFECTS[instruction.op].jumps:
            target = instruction.target
            if target is None or not 0 <= target < len(code):
                raise ControlFlowError(
                    f"{function.name}: instruction {word}: branch to instruction {target}"
                    f" of {len(code)}"
                )
            leaders.add(target)
        if _ends_block(instruction) and word + 1 < len(code):
            leaders.add(word + 1)
    return sorted(leaders)


def _successors(
    code: tuple[Instruction, ...], last: int, block_of_word: list[int], exit_index: int
) -> tuple[int, ...]:
    instruction = code[last]
    following = block_of_word[last + 1] if last + 1 < len(code) else exit_index
    if not _ends_block(instruction):
        return (following,)
    branch_target = exit_index
    if EFFECTS[instruction.op].jumps:
        assert instruction.target is not None
        branch_target = block_of_word[instruction.target]
    if instruction.guard is None or branch_target == following:
        return (branch_target,)
    return (branch_target, following)


def _post_order(start: int, edges: list[tuple[int, ...]]) -> list[int]:
    """Return a depth-first post-order from ``start``; iterative, since kernels may have many
    blocks.
    """
    order: list[int] = []
    visited = {start}
    stack = [(start, iter(edges[start]))]
    while stack:
        node, remaining = stack[-1]
        for target in remaining:
            if target not in visited:
                visited.add(target)
                stack.append((target, iter(edges[target])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _dominators(order: list[int], predecessors: list[list[int]], count: int) -> list[int]:
    """Return immediate dominators by Cooper, Harvey and Kennedy's iteration over ``order``."""
    position = {block: place for place, block in enumerate(order)}
    idom = [_NO_BLOCK] * count
    idom[order[0]] = order[0]

    def meet(a: int, b: int) -> int:
        while a != b:
            while position[a] > position[b]:
                a = idom[a]
            while position[b] > position[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [p for p in predecessors[block] if p in position and idom[p] != _NO_BLOCK]
            new = known[0]
            for predecessor in known[1:]:
                new = meet(new, predecessor)
            if idom[block] != new:
                idom[block] = new
                changed = True
    return idom


def _post_dominators(
    order: list[int], successors: list[tuple[int, ...]], exit_index: int
) -> list[int]:
    """Return immediate post-dominators: dominators of the reversed graph from the virtual exit."""
    backward: list[list[int]] = [[] for _ in range(exit_index + 1)]
    for block in order:
        for target in successors[block]:
            backward[target].append(block)
    forward = [list(targets) for targets in successors]
    for block in reversed(order):
        reached = set(_post_order(exit_index, [tuple(edges) for edges in backward]))
        if len(reached) == len(order) + 1:
            break
        if block not in reached:  # the last block of an endless loop in this order
            backward[exit_index].append(block)
            forward[block].append(exit_index)
    reverse_order = _post_order(exit_index, [tuple(edges) for edges in backward])[::-1]
    forward.append([])
    return _dominators(reverse_order, forward, exit_index + 1)[:exit_index]


def _natural_loops(
    order: list[int],
    successors: list[tuple[int, ...]],
    predecessors: list[list[int]],
    idom: list[int],
    exit_index: int,
) -> tuple[dict[int, frozenset[int]], list[tuple[int, int]], int]:
    position = {block: place for place, block in enumerate(order)}

    def dominates(above: int, below: int) -> bool:
        while position[below] > position[above]:
            below = idom[below]
        return above == below

    latches: dict[int, list[int]] = {}
    irreducible: list[tuple[int, int]] = []
    for block in order:
        for target in successors[block]:
            if target != exit_index and position[target] <= position[block]:
                if dominates(target, block):
                    latches.setdefault(target, []).append(block)
                else:
                    irreducible.append((block, target))
    loops: dict[int, frozenset[int]] = {}
    depth: Counter[int] = Counter()
    for header, sources in latches.items():
        body = {header}
        pending = list(sources)
        while pending:
            block = pending.pop()
            if block not in body:
                body.add(block)
                pending += predecessors[block]
        loops[header] = frozenset(body)
        depth.update(body)
    return loops, irreducible, max(depth.values(), default=0)


def _innermost(loops: dict[int, frozenset[int]], count: int) -> list[int]:
    innermost = [_NO_BLOCK] * count
    for header in sorted(loops, key=lambda header: len(loops[header]), reverse=True):
        for block in loops[header]:
            innermost[block] = header
    return innermost
