"""Value analysis: a shape of the lattice for every SSA value, and where lanes diverge.

Starts from the assumption that no branch diverges, computes shapes to a fixpoint, adds the
branches whose condition differs between lanes, and repeats until nothing changes. A value that is
read outside a loop which its lanes leave in different iterations is a ``Vector`` there.
"""

from collections.abc import Iterable

from vgpu_sim.exec.jit import divergence, layout
from vgpu_sim.exec.jit.geometry import Geometry
from vgpu_sim.exec.jit.lane_shapes import Affine, Algebra, LaneShape, Vector
from vgpu_sim.exec.jit.ssa import (
    Condition,
    Merge,
    Operation,
    Phi,
    Source,
    SsaFunction,
    Value,
    results_of,
)
from vgpu_sim.exec.jit.transfer import Transfer
from vgpu_sim.isa import Literal, is_visible

_UNDECIDED = None


class Analysis:
    """Elements of all values of ``ssa`` under ``geometry``.

    ``assume_guards``: treat branches at the top that only end threads as never taken (the fast
    version of a function; whoever runs it tests that all lanes stay). ``assumed`` has their blocks.
    ``checked`` are the widenings whose result holds only while no lane of the group wraps around;
    emitted code must test that and start over in the exact version. There are none where it cannot
    (``may_restart``).
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
        self.algebra = Algebra(geometry.width, geometry.strips)
        self.top = layout.build(ssa.graph)
        self.order = tuple(self.top.linear())
        self.shapes: dict[Value, LaneShape] = {}
        self.assumed = frozenset(self._top_guards() if assume_guards else ())
        self.divergence = divergence.Divergence()
        self._restartable = self._find_restartable() if may_restart else frozenset()
        self._transfer = Transfer(self.algebra, geometry, self.shape, self.may_restart)
        self._run()

    @property
    def checked(self) -> set[Operation]:
        return self._transfer.checked

    def shape(self, source: Source, block: int, bits: int) -> LaneShape | None:
        """Return the shape of ``source`` as ``block`` sees it, cut or zero-extended to ``bits``.

        None while the fixpoint has not reached it yet.
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

    def uniform(self, condition: Condition, block: int) -> bool:
        """Return whether all lanes of a group agree on ``condition`` in ``block``."""
        shape = self.shape(condition.value, block, 1)
        return isinstance(shape, Affine) and shape.uniform

    def may_restart(self, node: Operation) -> bool:
        """Return whether nothing that memory can see has happened when ``node`` runs."""
        return node in self._restartable

    def _seen_from(self, value: Value, shape: LaneShape, block: int) -> LaneShape:
        if self.algebra.lanes(shape, value.bits) is not None:
            return shape  # the same in every iteration
        home = self.ssa.block_of[value]
        for header in self.divergence.loops:
            body = self.ssa.graph.loops[header]
            if home in body and block not in body:
                return Vector()
        return shape

    def _run(self) -> None:
        while True:
            self.shapes = {}
            self._transfer.checked.clear()
            self._fixpoint()
            branches = {
                block.index
                for block in self.ssa.blocks.values()
                if block.condition is not None
                and block.index not in self.assumed
                and not self.uniform(block.condition, block.index)
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
                        results = self._transfer.operation(node, block.index)
                        for result, shape in zip(node.results, results, strict=True):
                            if result is not None:
                                changed |= self._raise(result, shape)
        for block in self.ssa.blocks.values():  # values of blocks that only feed themselves
            for definition in (*block.phis, *block.nodes):
                for result in results_of(definition):
                    self.shapes.setdefault(result, Vector())

    def _raise(self, value: Value, shape: LaneShape | None) -> bool:
        if shape is None:
            return False
        before = self.shapes.get(value)
        if before is not None:
            shape = self.algebra.join(before, shape)
        if shape == before:
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
        """Blocks on the straight way from the entry whose branch may end threads."""
        graph, blocks = self.ssa.graph, self.ssa.blocks
        block = self.order[0]
        seen = {block}
        while graph.innermost_loop[block] == -1 and not any(map(_has_effect, blocks[block].nodes)):
            successors = blocks[block].successors
            following = [target for target in successors if target != graph.exit]
            if len(following) != 1:
                return
            if len(successors) == 2:
                yield block
            block = following[0]
            if block in seen or len(graph.blocks[block].predecessors) != 1:
                return
            seen.add(block)

    def _find_restartable(self) -> frozenset[Operation]:
        graph, blocks = self.ssa.graph, self.ssa.blocks
        touching = {b for b in blocks if any(map(_has_effect, blocks[b].nodes))}
        restartable: set[Operation] = set()
        for block in self.order:
            if any(block in body and body & touching for body in graph.loops.values()):
                return frozenset(restartable)
            for node in blocks[block].nodes:
                if _has_effect(node):
                    return frozenset(restartable)
                if isinstance(node, Operation):
                    restartable.add(node)
        return frozenset(restartable)


def _differ(sources: Iterable[Source]) -> bool:
    return len(set(sources)) > 1


def _has_effect(node: Operation | Merge) -> bool:
    return isinstance(node, Operation) and is_visible(node.instruction)
