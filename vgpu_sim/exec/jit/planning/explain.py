"""What the JIT decides about a kernel for a block shape, and by which rule, for people."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from vgpu_sim.exec.jit.analysis.assumptions import Fallback
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import choose, forms, row_order, tiers, versions
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.exec.jit.progress import polling_loops, stops
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding
from vgpu_sim.exec.jit.target import dot_products
from vgpu_sim.isa import DataType, Function, Op

_LINES_SHOWN = 8


def explain(function: Function, block: Block) -> Iterator[tuple[str, str]]:
    """Yield names and values of what is decided, in the order in which it is.

    Raises:
        UnsupportedError: for a kernel that the JIT refuses.
        PlanError: for a block shape that no kernel has.
    """
    from vgpu_sim.exec.jit.target import llvm

    form = forms.build(function, block, best=True)
    *rejected, chosen = choose.considered(form, block, llvm.vector_bits())
    plan = chosen.plan
    geometry = plan.geometry(block)
    analysis = Analysis(form, geometry, assume_guards=False)
    yield "vectors", f"{llvm.vector_bits()} bits ({llvm.cpu()[0]})"
    yield "strip", _count(plan.width, "lane") + _PADDED[plan.padding]
    yield "group", f"{_count(plan.strips, 'strip')}, {_count(geometry.span, 'lane')}"
    yield "why", chosen.why
    for one in rejected[-_LINES_SHOWN:]:
        yield "not", f"{_narrow(one.plan)}: {one.against}"
    yield "block", f"{_count(geometry.groups, 'group')} of {_count(geometry.threads, 'thread')}"
    if plan.tier and row_order.suits(form, geometry):
        yield "order", "rows of neighbouring blocks, one row after the other"
    yield "waits", _waits(form, geometry)
    found = sorted({function.lines[node.word] for _, node in stops.stops(form)})
    if found:
        shown = ", ".join(map(str, found[:_LINES_SHOWN]))
        yield "stops at", f"PTX lines {shown}{', ...' if len(found) > _LINES_SHOWN else ''}"
    yield from _products(form, geometry)
    loops, divergence = form.graph.loops, analysis.divergence
    yield "loops", f"{len(loops)}, {len(divergence.loops)} of them left lane by lane"
    yield "branches that part lanes", str(len(divergence.branches))
    described = "one for groups that no guard ends, one with masks" if plan.versioned else "one"
    yield "versions", described
    yield from _assumed(form, plan, geometry)
    yield "passes", "short list, level 1" if plan.tier else "none, level 0"
    early = forms.build(function, block, best=False)
    narrow, reason = tiers.first(early, block, llvm.vector_bits())
    yield "first tier", f"{_narrow(narrow)}: {reason}"


_FALLS_BACK: Final = {
    Fallback.MASKS: "else the group starts over, with masks",
    Fallback.LANES: "else the group starts over, lane by lane",
    Fallback.APART: "else each lane or load by itself",
}


def _assumed(form: ssa.SsaFunction, plan: Plan, geometry: Geometry) -> Iterator[tuple[str, str]]:
    """Say what the fast version assumes of lanes, and what runs where that does not hold."""
    analysis = versions.fast(form, geometry, versioned=plan.versioned)
    found = Counter(type(one) for one in versions.assumed(analysis))
    for kind, count in found.items():
        yield "assumes", f"{_count(count, 'time')}: {kind.text}; {_FALLS_BACK[kind.fallback]}"


def _products(form: ssa.SsaFunction, geometry: Geometry) -> Iterator[tuple[str, str]]:
    """Say what products of matrices become, for each type of factors."""
    found = Counter(
        node.instruction.source_type
        for _, node in stops.collectives(form)
        if node.instruction.op is Op.MMA
    )
    for factor, count in found.items():
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
            how = f"calls of a function of {native or plain}"
        yield "products", f"{count} of {factor.name}: {how}"


_PADDED: Final = {
    Padding.NONE: "",
    Padding.ROWS: ", rows padded",
    Padding.LINE: ", the line of all threads padded",
}


def _narrow(plan: Plan | None) -> str:
    if plan is None:
        return "none"
    return f"{_count(plan.strips, 'strip')} of {_count(plan.width, 'lane')}{_PADDED[plan.padding]}"


def _waits(form: ssa.SsaFunction, geometry: Geometry) -> str:
    """Say how threads of a block wait for each other, and in what form the code is called."""
    if stops.lanes_wait(form, geometry):
        return "lanes of a warp meet: each is a fiber"
    if not stops.waits(form):
        return "no thread waits for another: called for runs of blocks"
    if stops.counted(form, geometry):
        return "barriers are counted by warps: each group is a fiber"
    if polling_loops.polling(form):
        return "loops poll memory: each group is a fiber that lets others run"
    if geometry.groups == 1:
        return "one barrier, one group: it orders accesses and costs nothing"
    return "one barrier for all threads: groups are fibers and take turns"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
