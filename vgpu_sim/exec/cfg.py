"""Control-flow graph of a function: blocks, dominators, reconvergence points and loops.

Both executors read it: the interpreter takes the immediate post-dominator of a divergent branch as
the point where its lanes meet again (PTX ISA, "Divergence of Threads in Control Constructs"), the
JIT orders blocks by loop level. Nothing here depends on operands other than branch targets.
"""

from collections import Counter
from dataclasses import dataclass

from vgpu_sim.isa import EFFECTS, Function, Instruction

_NO_BLOCK = -1

MAX_LOOP_DEPTH = 256
"""Loops within each other in code that is compiled: as deep as clang lets brackets nest by default
(-fbracket-depth)."""

MAX_LOOP_SPAN = 1 << 20
"""Blocks from each backward branch to its target, summed: work and memory grow with it. Compilers
stay far below; about a thousand loops inside each other reach it."""


class ControlFlowError(ValueError):
    """A branch that leaves its function, or a function without code."""


class LoopNestError(ControlFlowError):
    """Loops inside loops without end: naming the blocks of each would take memory and minutes."""


@dataclass(frozen=True, slots=True)
class Block:
    """Words ``start`` to ``end`` (exclusive) that run one after the other, in program order.

    ``successors`` are block indices; the virtual exit has the index ``Cfg.exit``. After a branch
    under a guard the first successor is the target, the second the next word; a guarded RET has
    the exit first. Both are the same block only once.
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
    """The graph. Per-block tuples are indexed by block; unreachable blocks hold -1 in them.

    ``idom`` of the entry is the entry. ``ipdom`` may be ``exit``; a block that cannot reach the
    exit (an endless loop) is given an edge to it first, so every reachable block has one.
    ``loops`` maps a header to the blocks of its natural loop, header included;
    ``innermost_loop`` gives the header of the smallest loop around a block, or -1.
    ``loop_depth`` is how many loops nest. ``irreducible_edges`` are the retreating edges that enter
    a cycle elsewhere than at a header that dominates it; with one of them ``loops`` is incomplete.
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
        """Index of the virtual exit, one past the last block."""
        return len(self.blocks)

    def dominates(self, above: int, below: int) -> bool:
        """Return whether every path from the entry to ``below`` (itself included) has ``above``."""
        entry = self.reverse_post_order[0]
        while below != above:
            if below == entry or self.idom[below] == _NO_BLOCK:
                return False
            below = self.idom[below]
        return True

    def post_dominates(self, after: int, before: int) -> bool:
        """Return whether every path from ``before`` (itself included) to the exit has ``after``."""
        while before != after:
            if before == self.exit or self.ipdom[before] == _NO_BLOCK:
                return False
            before = self.ipdom[before]
        return True


def build(function: Function) -> Cfg:
    """Build the graph of ``function``.

    Raises:
        LoopNestError: when its loops span more than ``MAX_LOOP_SPAN`` blocks together.
        ControlFlowError: when the function has no code or a branch leaves it.
    """
    code = function.code
    if not code:
        raise ControlFlowError(f"{function.name}: no code")
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
        raise LoopNestError(f"loops nest too deep (they span over {MAX_LOOP_SPAN} blocks)")


def _ends_block(instruction: Instruction) -> bool:
    effects = EFFECTS[instruction.op]
    if effects.traps:  # under a guard it is an effect like others: whoever goes on has not trapped
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
                    f"{function.name}: word {word}: branch to word {target} of {len(code)}"
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
    taken = exit_index
    if EFFECTS[instruction.op].jumps:
        assert instruction.target is not None
        taken = block_of_word[instruction.target]
    if instruction.guard is None or taken == following:
        return (taken,)
    return (taken, following)


def _post_order(start: int, edges: list[tuple[int, ...]]) -> list[int]:
    """Depth-first post-order from ``start``; iterative, kernels may have thousands of blocks."""
    order: list[int] = []
    seen = {start}
    stack = [(start, iter(edges[start]))]
    while stack:
        node, remaining = stack[-1]
        for target in remaining:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(edges[target])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _dominators(order: list[int], predecessors: list[list[int]], count: int) -> list[int]:
    """Immediate dominators by Cooper, Harvey and Kennedy's iteration over ``order``."""
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
            for other in known[1:]:
                new = meet(new, other)
            if idom[block] != new:
                idom[block] = new
                changed = True
    return idom


def _post_dominators(
    order: list[int], successors: list[tuple[int, ...]], exit_index: int
) -> list[int]:
    """Immediate post-dominators: dominators of the reversed graph from the virtual exit."""
    backward: list[list[int]] = [[] for _ in range(exit_index + 1)]
    for block in order:
        for target in successors[block]:
            backward[target].append(block)
    forward = [list(targets) for targets in successors]
    for block in reversed(order):
        reached = set(_post_order(exit_index, [tuple(edges) for edges in backward]))
        if len(reached) == len(order) + 1:
            break
        if block not in reached:  # the last block in order of an endless loop
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
