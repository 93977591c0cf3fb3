"""Value analysis: the shape of every SSA value, and the branches and loops at which lanes diverge.

The analysis starts from the assumption that no branch diverges, computes shapes to a fixpoint,
adds the branches whose condition differs between lanes, and repeats until nothing changes. A
value that is read outside a loop which its lanes leave in different iterations is a ``Vector``
there.
"""

from collections.abc import Iterable, Mapping

from vgpu_sim.exec.jit.analysis import choices, known_guards
from vgpu_sim.exec.jit.analysis.assumptions import Fallback, OfGroup
from vgpu_sim.exec.jit.analysis.transfer import Transfer
from vgpu_sim.exec.jit.ir import block_order, divergence
from vgpu_sim.exec.jit.ir.peers import reaches_peers
from vgpu_sim.exec.jit.ir.ssa import (
    Condition,
    Merge,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    results_of,
)
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.numbers.local_reach import local_loads
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape, Vector
from vgpu_sim.isa import Literal, Op, Space, is_visible
from vgpu_sim.isa.families.sync import WARPGROUP_BARRIER

_UNDECIDED = None


def analyse(ssa: SsaFunction, geometry: Geometry, *, assume_guards: bool) -> "Analysis":
    """Return the shapes of all values of ``ssa``, that is, how each value varies over lanes.

    The result is cached and shared by all callers, so it must not be modified. The choice of a
    plan, its legality check and code generation need the same analysis.
    """
    cached_analysis = ssa.analyses.get((geometry, assume_guards))
    if isinstance(cached_analysis, Analysis):
        return cached_analysis
    analysis = Analysis(ssa, geometry, assume_guards=assume_guards)
    ssa.analyses[geometry, assume_guards] = analysis
    if not analysis.guards and not analysis.scatters:
        ssa.analyses[geometry, not assume_guards] = analysis
    return analysis


class Analysis:
    """The shapes of all values of ``ssa`` under ``geometry``.

    With ``assume_guards``, the analysis is for the fast version of a function. Some top-level
    branches only end threads; the analysis treats them as never taken. The caller of the fast
    version tests that no lane takes such a branch. ``assumed`` holds the blocks of these
    branches.

    The shapes hold under ``assumptions``, which the emitted code tests; if one does not hold for
    a group, the group starts over. If groups cannot start over (``may_restart``), there are no
    assumptions. If ``clears_shared`` is true, a group may have written shared memory before it
    starts over, so it must clear that memory first.
    """

    def __init__(
        self,
        ssa: SsaFunction,
        geometry: Geometry,
        *,
        assume_guards: bool,
        may_restart: bool = True,
    ) -> None:
        self.ssa = ssa
        self.geometry = geometry
        self.algebra = Algebra(geometry.width, geometry.vectors)
        self.top = block_order.build(ssa.graph)
        self.order = tuple(self.top.blocks_in_order())
        self.shapes: dict[Value, LaneShape] = {}
        self._alone = may_restart and geometry.groups == 1 and _meets_at_one_barrier(ssa)
        self.guards = frozenset(self._top_guards())
        self.assumed = self.guards if assume_guards else frozenset()
        self.divergence = divergence.Divergence()
        self.clears_shared = False
        self._restartable = self._find_restartable() if may_restart else frozenset()
        own = local_loads(ssa)
        self._choices = choices.candidates(ssa) if assume_guards else frozenset()
        self._transfer = Transfer(
            self.algebra,
            geometry,
            self.shape,
            self.may_restart,
            own.__contains__,
            self._may_choose,
            choices.addresses(ssa) if assume_guards else (),
            known_values(ssa, block=geometry.block).constants(),
        )
        self._run()

    @property
    def assumptions(self) -> Mapping[Operation, OfGroup]:
        return self._transfer.assumptions

    def falls_back(self, to: Fallback) -> bool:
        """Return whether one of the assumptions has the fallback ``to``."""
        return any(assumption.fallback is to for assumption in self.assumptions.values())

    @property
    def scatters(self) -> bool:
        """Return whether a select or sum that computes an address needs an assumption.

        Also return true if the shape of an address is ``Vector`` in spite of the assumptions. In
        this case, another assumption could still be made.
        """
        addresses = choices.addresses(self.ssa)
        return self.falls_back(Fallback.MASKS) or any(
            isinstance(self.shapes[v], Vector) for v in addresses
        )

    def shape(self, source: Source, block: int, bits: int) -> LaneShape | None:
        """Return the shape of ``source`` as seen in ``block``, truncated or zero-extended to
        ``bits``.

        The result is None as long as the fixpoint iteration has not reached the value.
        """
        if isinstance(source, Literal):
            return self.algebra.constant(source.bits, bits)
        if not isinstance(source, Value):
            return self.algebra.uniform()
        shape = self.shapes.get(source)
        if shape is _UNDECIDED:
            return None
        shape = self._seen_from(source, shape, block)
        if source.bits > bits:
            return self.algebra.truncate(shape, bits)
        if source.bits < bits:
            return self._transfer.widen(shape, source.bits, bits, signed=False)
        return shape

    def is_uniform(self, condition: Condition, block: int) -> bool:
        """Return whether all lanes of a group agree on ``condition`` in ``block``."""
        shape = self.shape(condition.value, block, 1)
        return isinstance(shape, Affine) and shape.uniform

    def may_restart(self, node: Operation) -> bool:
        """Return whether no externally visible effect precedes ``node``, so that a group may
        restart.
        """
        return node in self._restartable

    def _may_choose(self, node: Operation) -> tuple[Operation, bool] | None:
        if node not in self._choices or not self.may_restart(node):
            return None
        return choices.comparison(self.ssa, node)

    def _seen_from(self, value: Value, shape: LaneShape, block: int) -> LaneShape:
        if not self.divergence.loops:
            return shape
        home = self.ssa.block_of[value]
        for header in self.divergence.loops:
            body = self.ssa.graph.loops[header]
            if home in body and block not in body:
                invariant = self.algebra.lanes(shape, value.bits) is not None
                return shape if invariant else Vector()
        return shape

    def _run(self) -> None:
        while True:
            self.shapes = {}
            self._transfer.begin()
            self._fixpoint()
            branches = {
                block.index
                for block in self.ssa.blocks.values()
                if block.condition is not None
                and block.index not in self.assumed
                and not self.is_uniform(block.condition, block.index)
            }
            if branches <= self.divergence.branches:
                return
            branches |= self.divergence.branches
            self.divergence = divergence.analyse(self.ssa.graph, branches)

    def _fixpoint(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in self.ssa.blocks.values():
                for phi in block.phis:
                    changed |= self._raise(phi.result, self._phi(phi))
                for node in block.nodes:
                    if isinstance(node, Merge):
                        changed |= self._raise(node.result, self._transfer.merge(node, block.index))
                    else:
                        results = self._transfer.result_shapes(node, block.index)
                        for result, shape in zip(node.results, results, strict=True):
                            if result is not None:
                                changed |= self._raise(result, shape)
            if not self.ssa.graph.loops:
                break  # predecessors come first in this order, so all operands have been visited
        for block in self.ssa.blocks.values():  # values in cycles that no path enters
            for definition in (*block.phis, *block.nodes):
                for result in results_of(definition):
                    self.shapes.setdefault(result, Vector())

    def _raise(self, value: Value, shape: LaneShape | None) -> bool:
        if shape is None:
            return False
        earlier_shape = self.shapes.get(value)
        if earlier_shape is not None:
            shape = self.algebra.join(earlier_shape, shape)
        if shape == earlier_shape:
            return False
        self.shapes[value] = shape
        return True

    def _phi(self, phi: Phi) -> LaneShape | None:
        header = phi.block
        arguments = list(phi.arguments.items())
        if header in self.divergence.joins and _differ(s for _, s in arguments):
            return Vector()
        if header in self.divergence.latches:
            body = self.ssa.graph.loops[header]
            if _differ(s for block, s in arguments if block in body):
                return Vector()
        joined: LaneShape | None = None
        for _, source in arguments:
            shape = self.shape(source, header, phi.result.bits)
            if shape is not None:
                joined = shape if joined is None else self.algebra.join(joined, shape)
        return joined

    def _top_guards(self) -> Iterable[int]:
        """Return the top-level blocks, passed by every thread, whose branch may end threads.

        Between them threads may diverge and reconverge. Nothing outside the group has observed
        an effect of them yet.
        """
        graph, blocks = self.ssa.graph, self.ssa.blocks
        block = self.order[0]
        visited: set[int] = set()
        while (
            graph.innermost_loop[block] == -1
            and block not in visited
            and self._is_unobservable(block)
        ):
            visited.add(block)
            successors = blocks[block].successors
            following = [target for target in successors if target != graph.exit]
            if len(following) == 1:
                if len(successors) == 2:
                    if self.geometry.groups == 1 and known_guards.depends_only_on_indices(
                        self.ssa, block
                    ):
                        return  # in every block, some threads end here
                    yield block
                block = following[0]
                if len(graph.blocks[block].predecessors) != 1:
                    return
                continue
            meeting = graph.ipdom[block]
            if meeting == graph.exit or not following:
                return
            between = self._between(block, meeting)
            if not all(map(self._is_unobservable, between)):
                return
            if any(graph.exit in blocks[b].successors for b in between):
                return
            block = meeting

    def _between(self, block: int, meeting: int) -> set[int]:
        blocks_between: set[int] = set()
        pending = list(self.ssa.blocks[block].successors)
        while pending:
            successor = pending.pop()
            if (
                successor != meeting
                and successor not in blocks_between
                and successor != self.ssa.graph.exit
            ):
                blocks_between.add(successor)
                pending += self.ssa.blocks[successor].successors
        return blocks_between

    def _is_unobservable(self, block: int) -> bool:
        """Return whether nothing outside the group can observe that a block ran."""
        return not any(map(self._is_noticed, self.ssa.blocks[block].nodes))

    def _is_noticed(self, node: Operation | Merge) -> bool:
        return _has_effect(node) and not (self._alone and _stays_inside(node))

    def _find_restartable(self) -> frozenset[Operation]:
        graph, blocks = self.ssa.graph, self.ssa.blocks
        written = self._alone and any(
            _has_effect(node) and _stays_inside(node) and node.instruction.op is Op.ST
            for block in blocks.values()
            for node in block.nodes
            if isinstance(node, Operation)
        )
        self.clears_shared = written
        touching = {b for b in blocks if not self._is_unobservable(b)}
        restartable: set[Operation] = set()
        for block in self.order:
            if any(block in body and body & touching for body in graph.loops.values()):
                return frozenset(restartable)
            for node in blocks[block].nodes:
                if self._is_noticed(node):
                    return frozenset(restartable)
                if isinstance(node, Operation):
                    restartable.add(node)
        return frozenset(restartable)


def _differ(sources: Iterable[Source]) -> bool:
    return len(set(sources)) > 1


def _meets_at_one_barrier(ssa: SsaFunction) -> bool:
    """Return whether threads wait only at barriers for the whole block, and at one barrier at
    most. Those of warpgroups are as many as that one, since the block is one group.
    """
    if reaches_peers(ssa):
        return False
    barriers = set()
    for block in ssa.blocks.values():
        for node in filter(_has_effect, block.nodes):
            assert isinstance(node, Operation)
            if node.instruction.op is Op.BAR_SYNC and node.sources[1] == Literal(0):
                if node.sources[0] != Literal(WARPGROUP_BARRIER):
                    barriers.add(node.sources[0])
            elif node.instruction.op is not Op.ST or node.instruction.volatile:
                return False
    return len(barriers) < 2 and all(isinstance(barrier, Literal) for barrier in barriers)


def _stays_inside(node: Operation | Merge) -> bool:
    """Return whether only the group itself can observe the node, where the group is a whole block.

    If such a group starts over, shared memory is cleared again, as before its first start.
    """
    assert isinstance(node, Operation)
    instruction = node.instruction
    return instruction.op is Op.BAR_SYNC or instruction.space is Space.SHARED


def _has_effect(node: Operation | Merge) -> bool:
    return isinstance(node, Operation) and is_visible(node.instruction)
