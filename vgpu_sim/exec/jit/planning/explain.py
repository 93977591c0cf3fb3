"""Explains the JIT's decisions about a kernel for a block shape, with the rules behind them, as
text.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from vgpu_sim.exec.jit.analysis.assumptions import Fallback
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import choose, forms, row_order, tiers, versions
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.progress import exchanges, polling_loops, wait_points
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding
from vgpu_sim.exec.jit.target import dot_products
from vgpu_sim.isa import DataType, Function, Op

_LINES_SHOWN = 8


def explain(function: Function, block: Block) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each decision that the JIT makes about a kernel, in the order
    in which the decisions are made.

    Raises:
        UnsupportedError: the JIT rejects the kernel.
        PlanError: the block shape is invalid.
    """
    from vgpu_sim.exec.jit.target import llvm

    form = forms.build(function, block, best=True)
    *rejected, chosen = choose.list_candidates(form, block, llvm.vector_bits())
    plan = chosen.plan
    geometry = plan.geometry(block)
    analysis = Analysis(form, geometry, assume_guards=False)
    yield "vectors", f"{llvm.vector_bits()} bits ({llvm.cpu()[0]})"
    yield "vector", _count(plan.width, "lane") + _PADDED[plan.padding]
    yield "group", f"{_count(plan.vectors, 'vector')}, {_count(geometry.span, 'lane')}"
    yield "why", chosen.why
    if exchanges.exchanges_without_waits(form):
        yield "exchanges", "lanes load what others stored, without waiting: groups keep warps whole"
    for candidate in rejected[-_LINES_SHOWN:]:
        yield "not", f"{_narrow(candidate.plan)}: {candidate.against}"
    yield "block", f"{_count(geometry.groups, 'group')} of {_count(geometry.threads, 'thread')}"
    if plan.tier and row_order.may_run_by_rows(form, geometry):
        yield "order", "neighbouring blocks run row by row"
    yield "waits", _waits(form, geometry)
    wait_lines = sorted({function.lines[node.word] for _, node in wait_points.find(form)})
    if wait_lines:
        line_list = ", ".join(map(str, wait_lines[:_LINES_SHOWN]))
        yield (
            "wait points",
            f"PTX lines {line_list}{', ...' if len(wait_lines) > _LINES_SHOWN else ''}",
        )
    yield from _products(form, geometry)
    loops, divergence = form.graph.loops, analysis.divergence
    yield "loops", f"{len(loops)}, {len(divergence.loops)} of them left lane by lane"
    yield "divergent branches", str(len(divergence.branches))
    described = (
        "one for groups in which no guard ends a thread, one with masks"
        if plan.versioned
        else "one"
    )
    yield "versions", described
    yield from _assumptions(form, plan, geometry)
    yield "passes", "short list, level 1" if plan.tier else "none, level 0"
    early = forms.build(function, block, best=False)
    narrow, reason = tiers.first_tier_plan(early, block, llvm.vector_bits())
    yield "first tier", f"{_narrow(narrow)}: {reason}"


_FALLS_BACK: Final = {
    Fallback.MASKS: "else the group starts over, with masks",
    Fallback.LANES: "else the group starts over, lane by lane",
    Fallback.APART: "else each lane or load by itself",
}


def _assumptions(
    form: ssa.SsaFunction, plan: Plan, geometry: Geometry
) -> Iterator[tuple[str, str]]:
    """Describe the assumptions of the fast version, and the fallback of each."""
    analysis = versions.analyse_fast_version(form, geometry, versioned=plan.versioned)
    counts = Counter(type(assumption) for assumption in versions.assumptions_of(analysis))
    for kind, count in counts.items():
        yield "assumes", f"{_count(count, 'time')}: {kind.text}; {_FALLS_BACK[kind.fallback]}"


def _products(form: ssa.SsaFunction, geometry: Geometry) -> Iterator[tuple[str, str]]:
    """Describe the lowering of matrix products, for each type of factors."""
    counts = Counter(
        node.instruction.source_type
        for _, node in wait_points.collectives(form)
        if node.instruction.op is Op.MMA
    )
    for factor, count in counts.items():
        assert factor is not None
        how = "one lane at a time: each reads the others' factors"
        if geometry.span > 1:
            native = {
                DataType.BF16: dot_products.native_pairs() and "VDPBF16PS",
                **dict.fromkeys(
                    (DataType.U8, DataType.S8), dot_products.native_bytes() and "VPDPBUSD"
                ),
            }.get(factor)
            plain = "sums of products" if factor in dot_products.BYTES else "fused multiply-adds"
            how = f"calls of a function that uses {native or plain}"
        yield "products", f"{count} of {factor.name}: {how}"


_PADDED: Final = {
    Padding.NONE: "",
    Padding.ROWS: ", rows padded",
    Padding.LINE: ", the line of all threads padded",
}


def _narrow(plan: Plan | None) -> str:
    if plan is None:
        return "none"
    return (
        f"{_count(plan.vectors, 'vector')} of {_count(plan.width, 'lane')}{_PADDED[plan.padding]}"
    )


def _waits(form: ssa.SsaFunction, geometry: Geometry) -> str:
    """Describe how threads of a block wait for each other, and how the code is called."""
    if wait_points.lanes_wait(form, geometry):
        return "lanes of a warp wait for each other: each is a fiber"
    if not wait_points.waits(form):
        return "no thread waits for another: called for ranges of blocks"
    if wait_points.needs_counting(form, geometry):
        return "barriers are counted by warps: each group is a fiber"
    if polling_loops.polling_headers(form):
        return "loops poll memory: each group is a fiber that yields to others"
    if wait_points.meets_peers(form):
        return "threads wait for their cluster: each block is one fiber"
    if geometry.groups == 1:
        return "one barrier, one group: it orders accesses and costs nothing"
    return "one barrier for all threads: groups are fibers that run in turn"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
