"""Emission of SSA nodes: orders them, narrows masks, and calls the lowering of their family."""

from collections.abc import Sequence

from vgpu_sim.exec.jit.analysis import siblings
from vgpu_sim.exec.jit.analysis.assumptions import Family
from vgpu_sim.exec.jit.control.prefetch import Prefetch
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.families import LOWERING
from vgpu_sim.exec.jit.ir.ssa import Condition, Merge, Operation, SsaBlock, results_of, sources_of
from vgpu_sim.exec.jit.memory import adjacent_loads
from vgpu_sim.exec.jit.planning import sum_chains, tile_groups
from vgpu_sim.exec.jit.target import dot_products
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import EntryArguments
from vgpu_sim.isa import EFFECTS, is_visible, reads_memory


class Nodes:
    """Emits the nodes of one function version."""

    def __init__(self, emitter: Emitter, prefetch: Prefetch) -> None:
        self._emitter = emitter
        self._prefetch = prefetch

    @property
    def launch(self) -> EntryArguments:
        return self._emitter.launch

    def emit_block(self, block: SsaBlock, mask: Mask, *, occupied: bool) -> None:
        """Emit all nodes of a block for the lanes of ``mask``.

        ``occupied`` states that the mask is known not to be empty.
        """
        text, analysis = self._emitter.text, self._emitter.analysis
        nodes = self._order(block)
        self._emitter.ahead -= set(nodes)  # the block may be emitted a second time
        registers = 32 if text.shared.embedded_rounding else 16
        by_sums = sum_chains.reorder(analysis, nodes, registers)
        nodes = by_sums or nodes
        rows = adjacent_loads.find_load_groups(analysis, block.index, nodes) if mask.full else {}
        family_of = siblings.families(analysis.ssa, nodes) if mask.full else {}
        nodes = siblings.order_addresses_first(nodes, family_of)
        self._emitter.tile_groups = {}
        if analysis.geometry.span > 1 and dot_products.native_tiles():
            nodes, self._emitter.tile_groups = tile_groups.find(analysis, nodes)
        for group in self._emitter.tile_groups.values():
            self._emitter.ahead |= group.passed
        steps = 0
        for node in nodes:
            text.word = node.word
            if by_sums and sum_chains.is_step(analysis, node):
                steps += analysis.geometry.vectors
                if steps > registers:
                    text.call("void", "llvm.codeview.annotation", ("metadata", "!0"))
                    steps = analysis.geometry.vectors
            if isinstance(node, Merge):
                self._merge(node)
            elif node in rows and self._together(rows[node]):
                self._emitter.ahead |= set(rows[node])
            elif node in family_of and self._family(family_of[node]):
                self._emitter.ahead |= set(family_of[node].loads)
            elif node not in self._emitter.ahead:
                self._operation(node, mask, occupied)
        self._emitter.text.word = block.last_word

    def flush(self) -> None:
        """Emit the pending tests of assumptions. If one fails, the code branches to its
        fallback.
        """
        self._emitter.flush()

    def _order(self, block: SsaBlock) -> Sequence[Operation | Merge]:
        """Return the block's nodes, reordered so that one branch tests all assumptions.

        The nodes with assumptions come first, together with the operands that they need.
        """
        analysis = self._emitter.analysis
        home = {r: node for node in block.nodes for r in results_of(node)}
        early: set[Operation | Merge] = set()
        for node in block.nodes:
            if node not in analysis.assumptions:
                continue
            needed: set[Operation | Merge] = set()
            pending: list[Operation | Merge] = [node]
            while pending:
                current = pending.pop()
                needed.add(current)
                operands = [home[s] for s in sources_of(current) if s in home]
                pending += [n for n in operands if n not in needed]
            if not any(_touches_memory(n) for n in needed):
                early |= needed
        first = [node for node in block.nodes if node in early]
        return [*first, *(node for node in block.nodes if node not in early)]

    def _operation(self, node: Operation, mask: Mask, occupied: bool) -> None:
        if EFFECTS[node.instruction.op].masked:
            self._emitter.flush()
            if node.guard is not None:
                mask, occupied = self._narrow(mask, node.guard), False
        self._emitter.test_assumptions(node)
        self._prefetch.prefetch_stream(node)
        LOWERING[node.instruction.op](self._emitter, node, mask, occupied)
        self._prefetch.prefetch_next_iteration(node)

    def _together(self, loads: Sequence[Operation]) -> bool:
        self._emitter.flush()
        return self._emitter.memory.load_together(loads)

    def _family(self, family: Family) -> bool:
        self._emitter.flush()
        access = self._emitter.memory.load_family(family)
        if access is not None:
            self._prefetch.prefetch_next_iteration(family.loads[0], access)
        return access is not None

    def _narrow(self, mask: Mask, guard: Condition) -> Mask:
        """Return the lanes of a mask in which a guard is true."""
        masks, values = self._emitter.masks, self._emitter.values
        if self._emitter.analysis.is_uniform(guard, values.block):
            return masks.narrow(mask, values.condition(guard, Form.BASE))
        return Mask(
            tuple(
                masks.lanes_in_both(lane, values.condition(guard, Form.VECTOR, part))
                for part, lane in enumerate(masks.flat(mask))
            )
        )

    def _merge(self, node: Merge) -> None:
        values = self._emitter.values
        clean = node in self._emitter.nans.cleaning
        scalar = values.types[node.result]

        def produce(form: Form, part: int) -> str:
            flag = values.read(node.condition.value, "i1", form, part)
            new = values.read(node.new, scalar, form, part, clean=clean)
            old = values.read(node.old, scalar, form, part, clean=clean)
            pair = (old, new) if node.condition.negated else (new, old)
            return self._emitter.text.select(flag, *pair, scalar, form is Form.VECTOR)

        values.define(node.result, produce)


def _touches_memory(node: Operation | Merge) -> bool:
    return isinstance(node, Operation) and (
        is_visible(node.instruction) or reads_memory(node.instruction)
    )
