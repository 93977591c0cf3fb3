"""Computes the halves of wide products directly.

Compilers write both halves of a 32-bit product as ``mul.wide``, ``shr`` and two ``cvt`` (or a
``mov`` that unpacks). On vectors, a 64-bit product and its halves cost three times as much as
computing the halves directly.
"""

from dataclasses import replace

from vgpu_sim.exec.jit.ir.ssa import Operation, Source, SsaFunction, Value, results_of, sources_of
from vgpu_sim.isa import DataType, Literal, MulMode, Op

_NARROW, _WIDE = (DataType.U32, DataType.S32), (DataType.U64, DataType.S64)


def split(ssa: SsaFunction) -> None:
    """Compute the halves of wide products directly, and drop operations that are then unused.

    Each conversion that extracts a half becomes a product. Only conversions in the same block as
    the wide product are replaced, because a product that was computed once must not move into a
    loop.
    """
    replaced_values: set[Value] = set()
    for block in ssa.blocks.values():
        for node in block.nodes:
            if not isinstance(node, Operation) or not _is_cut(node):
                continue
            mode, product = _half_of(ssa, node.sources[0])
            if product is None or ssa.block_of[results_of(product)[0]] != block.index:
                continue
            node.instruction = replace(product.instruction, mode=mode, dsts=node.instruction.dsts)
            replaced_values |= {source for source in node.sources if isinstance(source, Value)}
            replaced_values |= set(results_of(product))
            node.sources = product.sources
    if replaced_values:
        _drop(ssa, replaced_values)


def _is_cut(node: Operation) -> bool:
    """Return whether a node only truncates 64 bits to 32."""
    instruction, result = node.instruction, node.results[0] if node.results else None
    return (
        instruction.op is Op.CVT
        and instruction.type in _NARROW
        and instruction.source_type in _WIDE
        and not instruction.saturate
        and result is not None
        and result.bits == 32
    )


def _half_of(ssa: SsaFunction, source: Source) -> tuple[MulMode, Operation | None]:
    """Return which half of which product the low 32 bits of ``source`` are."""
    node = _operation(ssa, source)
    if node is None:
        return MulMode.NONE, None
    if node.instruction.op is Op.SHR and node.sources[1] == Literal(32):
        inner = _operation(ssa, node.sources[0])
        return MulMode.HI, inner if _is_product(inner) else None
    return MulMode.LO, node if _is_product(node) else None


def _operation(ssa: SsaFunction, source: Source) -> Operation | None:
    if not isinstance(source, Value) or source.bits != 64:
        return None
    node = ssa.definition.get(source)
    return node if isinstance(node, Operation) else None


def _is_product(node: Operation | None) -> bool:
    if node is None:
        return False
    instruction = node.instruction
    wide = instruction.op is Op.MUL and instruction.mode is MulMode.WIDE
    return wide and instruction.type in _NARROW


def _drop(ssa: SsaFunction, candidates: set[Value]) -> None:
    """Remove the operations that define ``candidates`` if their results are unused."""
    while True:
        used = {
            source
            for block in ssa.blocks.values()
            for node in (*block.phis, *block.nodes)
            for source in sources_of(node)
        }
        used |= {b.condition.value for b in ssa.blocks.values() if b.condition is not None}
        dead = {value for value in candidates if value not in used}
        if not dead:
            return
        candidates -= dead
        for block in ssa.blocks.values():
            block.nodes = [
                node
                for node in block.nodes
                if not (isinstance(node, Operation) and dead & set(node.results))
            ]
        for value in dead:
            del ssa.definition[value], ssa.block_of[value]
