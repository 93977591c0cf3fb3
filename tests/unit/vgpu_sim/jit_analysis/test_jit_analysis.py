"""SSA form, value analysis, known pointers and plans: the analyses before code generation."""

import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

import pytest

from support.kernels import barrier_kernels
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.analysis.assumptions import Extended
from vgpu_sim.exec.jit.analysis.nans import NanPlan
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis, analyse
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.planning import choose
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape, PerVector, Vector
from vgpu_sim.isa import (
    Compare,
    DataType,
    Function,
    Guard,
    Instruction,
    Literal,
    MulMode,
    Op,
    Register,
    Space,
    SpecialRegister,
)

D = DataType
_EXAMPLES = Path(__file__).parents[4] / "examples"
_TILE = Geometry((32, 8, 1), 16, 16)


def example(name: str) -> Function:
    source = (_EXAMPLES / f"{name}.ptx").read_text()
    return compile_ptx(source, capability=(8, 0)).functions[0]


def accesses(function: Function, geometry: Geometry) -> list[tuple[str, LaneShape, int | None]]:
    """Return opcode, address shape and clamped origin of each access that is not to parameters."""
    form = ssa.build(function)
    analysis = Analysis(form, geometry, assume_guards=True)
    known = known_values(form)
    found = []
    for block in form.blocks.values():
        for node in block.nodes:
            if not isinstance(node, ssa.Operation) or node.instruction.op not in (Op.LD, Op.ST):
                continue
            if node.instruction.space is not Space.PARAM:
                element = analysis.shape(node.sources[0], block.index, 64)
                source = known.trace(node.sources[0])
                confined = source is not None and source.is_confined(
                    node.instruction.displacement, 4
                )
                origin = source.origin if source is not None and confined else None
                assert element is not None
                found.append((node.instruction.op.name, element, origin))
    return found


def test_sgemm_reads_rows_once_per_vector_and_columns_in_lines() -> None:
    found = accesses(example("sgemm"), _TILE)
    loads = [element for op, element, _ in found if op == "LD"]
    rows, columns = loads[::2], loads[1::2]
    assert all(isinstance(e, PerVector) and e.stride == 0 for e in rows)
    assert all(isinstance(e, Affine) and e.stride == 4 for e in columns)
    assert all(isinstance(e, Affine) and e.offsets[:4] == (0, 64, 0, 64) for e in columns)
    assert [origin for _, _, origin in found] == [0, 8] * 5 + [16]


def test_without_a_multiple_of_the_row_nothing_is_affine_in_the_group() -> None:
    loads = [
        e for op, e, _ in accesses(example("sgemm"), Geometry((32, 8, 1), 16, 1)) if op == "LD"
    ]
    assert all(not isinstance(e, Vector) for e in loads)


def test_copies_vanish_and_reads_before_writes_are_zero() -> None:
    b = KernelBuilder(8)
    a, copy, total = b.register(32), b.register(32), b.register(32)
    b.op(Op.MOV, D.B32, copy, Literal(7))
    b.op(Op.ADD, D.B32, total, copy, a)
    b.store(D.B32, b.parameter(0), total)
    form = ssa.build(b.module().functions[0])
    (block,) = form.blocks.values()
    first = block.nodes[0]
    assert isinstance(first, ssa.Operation)
    assert first.instruction.op is Op.ADD
    assert first.sources == (Literal(7), Literal(0))


def test_phis_are_pruned() -> None:
    b = KernelBuilder(8)
    read, dead, flag = b.register(32), b.register(32), b.predicate()
    b.branch("skip", Guard(flag))
    b.op(Op.ADD, D.B32, read, read, Literal(1))
    b.op(Op.ADD, D.B32, dead, dead, Literal(1))
    b.place("skip")
    b.store(D.B32, b.parameter(0), read)
    form = ssa.build(b.module().functions[0])
    assert [len(block.phis) for block in form.blocks.values()] == [0, 0, 1]


def test_a_guarded_result_merges_with_the_former_value() -> None:
    b = KernelBuilder(8)
    register, flag = b.register(32), b.predicate()
    b.op(Op.ADD, D.B32, register, register, Literal(1), guard=Guard(flag, negated=True))
    b.store(D.B32, b.parameter(0), register)
    nodes = next(iter(ssa.build(b.module().functions[0]).blocks.values())).nodes
    assert isinstance(nodes[1], ssa.Merge)
    assert nodes[1].condition.negated
    assert nodes[1].old == Literal(0)


def _element_of(build: object, geometry: Geometry) -> LaneShape:
    b = KernelBuilder(8)
    result = build(b)  # type: ignore[operator]
    b.store(D.B32, b.parameter(0), result)
    form = ssa.build(b.module().functions[0])
    analysis = Analysis(form, geometry, assume_guards=False)
    block = next(iter(form.blocks.values()))
    stored = block.nodes[-1]
    assert isinstance(stored, ssa.Operation)
    element = analysis.shape(stored.sources[1], block.index, 32)
    assert element is not None
    return element


def _binary(op: Op, type_: DataType, literal: int) -> object:
    def build(b: KernelBuilder) -> Register:
        result = b.register(32)
        b.op(op, type_, result, b.special(SpecialRegister.TID_X), Literal(literal))
        return result

    return build


@pytest.mark.parametrize(
    ("op", "type_", "literal", "expected"),
    [
        (Op.ADD, D.B32, 5, Affine((0,), 1, None, 1)),
        (Op.SHL, D.B32, 2, Affine((0,), 4, None, 64)),
        (Op.SHL, D.B32, 40, Affine((0,), 0, 0, 1 << 31)),
        (Op.SHR, D.U32, 4, Affine((0,), 0, None, 1)),
        (Op.AND, D.B32, 15, Affine((0,), 1, 0, 1 << 31)),
        (Op.AND, D.B32, 31, Vector()),
        (Op.XOR, D.B32, 1, Vector()),
    ],
)
def test_arithmetic_on_a_thread_index(
    op: Op, type_: DataType, literal: int, expected: LaneShape
) -> None:
    assert _element_of(_binary(op, type_, literal), Geometry((256, 1, 1), 16, 1)) == expected


@pytest.mark.parametrize(
    ("type_", "position", "length", "expected"),
    [
        (D.U32, 0, 4, Affine((0,), 1, 0, 1 << 31)),
        (D.U32, 2, 2, Vector((tuple(lane >> 2 for lane in range(16)),))),
        (D.U32, 3, 0, Affine((0,), 0, 0, 1 << 31)),
        (D.U32, 0x102, 0x102, Vector((tuple(lane >> 2 for lane in range(16)),))),
        (D.U32, 0, 5, Vector()),
        (D.U32, 2, 31, Vector()),
        (D.S32, 0, 4, Vector()),
    ],
)
def test_fields_of_a_thread_index(
    type_: DataType, position: int, length: int, expected: LaneShape
) -> None:
    def build(b: KernelBuilder) -> Register:
        result = b.register(32)
        index = b.special(SpecialRegister.TID_X)
        b.op(Op.BFE, type_, result, index, Literal(position), Literal(length))
        return result

    assert _element_of(build, Geometry((256, 1, 1), 16, 1)) == expected


def test_known_lanes_survive_non_affine_operations() -> None:
    element = _element_of(_binary(Op.XOR, D.B32, 1), Geometry((16, 1, 1), 16, 1))
    assert element == Vector((tuple(lane ^ 1 for lane in range(16)),))


def test_alignment_is_a_power_of_two_whatever_the_group() -> None:
    element = Algebra(1, 6).from_axis(tuple((c,) for c in range(6)), 6)
    assert isinstance(element, Affine)
    assert element.align == 2


def test_a_widened_index_is_tested_unless_alignment_proves_it() -> None:
    def kernel(offset: int) -> Function:
        b = KernelBuilder(8)
        index, wide = b.register(32), b.register(64)
        b.op(Op.ADD, D.B32, index, b.linear_thread(), Literal(offset))
        b.op(Op.MUL, D.U32, wide, index, Literal(4), mode=MulMode.WIDE)
        b.op(Op.ADD, D.B64, wide, wide, b.parameter(0))
        b.store(D.B32, wide, index)
        return b.module().functions[0]

    for offset, count in ((0, 0), (1, 1)):
        form = ssa.build(kernel(offset))
        analysis = Analysis(form, Geometry((64, 1, 1), 16, 1), assume_guards=False)
        assert [type(one) for one in analysis.assumptions.values()] == [Extended] * count


def test_canonical_nans_wait_for_the_store() -> None:
    form = ssa.build(example("sgemm"))
    plan = NanPlan(form)
    for node in plan.cleaning:  # no node that only forwards floats to the store
        assert not any(source in plan.dirty for source in ssa.sources_of(node))
    operations = [n for b in form.blocks.values() for n in b.nodes if isinstance(n, ssa.Operation)]
    fmas = [n.results[0] for n in operations if n.instruction.op is Op.FMA]
    assert len(fmas) == 5
    assert all(value in plan.dirty for value in fmas)


@pytest.mark.parametrize(
    ("name", "block", "bits", "width", "vectors"),
    [
        ("vecadd", (256, 1, 1), 512, 16, 2),
        ("saxpy", (96, 1, 1), 512, 16, 2),
        ("vecadd", (256, 1, 1), 256, 8, 2),
        ("vecadd", (12, 1, 1), 512, 16, 1),
        ("sgemm", (32, 8, 1), 512, 16, 16),
        ("sgemm", (7, 1, 1), 512, 8, 1),
    ],
)
def test_chosen_plans(
    name: str, block: tuple[int, int, int], bits: int, width: int, vectors: int
) -> None:
    plan = choose.choose(ssa.build(example(name)), block, bits)
    assert (plan.width, plan.vectors) == (width, vectors)


def test_legal_plans_are_all_the_geometries_and_no_others() -> None:
    function = example("vecadd")
    plans = set(jit.legal_plans(function, (24, 2, 1)))
    assert {plan.width for plan in plans if not plan.padding} == {1, 2, 4, 8}
    assert {plan.width for plan in plans} == {1, 2, 4, 8, 16}
    assert jit.Plan(8, 3) in plans
    assert jit.Plan(8, 2) not in plans
    for shape in ((0, 1, 1), (2048, 1, 1), (1, -1, 1)):
        with pytest.raises(jit.PlanError):
            list(jit.legal_plans(function, shape))


def test_a_loop_without_a_counter_leaves_its_pointer_without_a_root() -> None:
    def kernel(*, counted: bool) -> Function:
        b = KernelBuilder(8)
        pointer, counter, flag = b.parameter(0), b.register(32), b.predicate()
        address = b.register(64)
        b.op(Op.ADD, D.B64, address, pointer, Literal(16))
        b.place("again")
        value = b.load(D.B32, address)
        b.op(Op.ADD, D.B64, address, address, Literal(4))
        b.op(Op.ADD, D.B32, counter, counter, Literal(1))
        compared = counter if counted else value
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (compared, Literal(9)), compare=Compare.NE))
        b.branch("again", Guard(flag))
        return b.module().functions[0]

    geometry = Geometry((32, 1, 1), 16, 1)
    assert [origin for *_, origin in accesses(kernel(counted=True), geometry)] == [0]
    assert [origin for *_, origin in accesses(kernel(counted=False), geometry)] == [None]


def test_importing_the_jit_imports_neither_numpy_nor_llvm() -> None:
    code = "import sys, vgpu_sim.exec.jit; print({'numpy', 'llvmlite'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_no_guard_is_assumed_after_an_effect_or_in_a_loop() -> None:
    """A lane group that starts over must not repeat visible effects."""
    b = KernelBuilder(8)
    lane = b.special(SpecialRegister.TID_X)
    flags = []
    for number in (3, 5, 7):
        flags.append(b.predicate())
        sources = (lane, Literal(number))
        b.add(Instruction(Op.SETP, D.U32, (flags[-1], None), sources, compare=Compare.EQ))
    b.add(Instruction(Op.RET, guard=Guard(flags[0])))
    b.store(D.B32, b.parameter(0), lane)
    b.add(Instruction(Op.RET, guard=Guard(flags[1])))
    b.store(D.B32, b.parameter(0), lane, 4)
    form = ssa.build(b.module().functions[0])
    analysis = Analysis(form, Geometry((64, 1, 1), 16, 2), assume_guards=True)
    first = next(iter(form.blocks))
    assert analysis.assumed == {first}
    alone = Analysis(form, Geometry((32, 1, 1), 16, 2), assume_guards=True)
    assert not alone.assumed, "thread 3 ends in each block, and the block is one group"

    b = KernelBuilder(8)
    lane, flag, more = b.special(SpecialRegister.TID_X), b.predicate(), b.predicate()
    b.place("again")
    b.op(Op.ADD, D.U32, lane, lane, Literal(1))
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (lane, Literal(3)), compare=Compare.EQ))
    b.add(Instruction(Op.RET, guard=Guard(flag)))
    b.add(Instruction(Op.SETP, D.U32, (more, None), (lane, Literal(9)), compare=Compare.NE))
    b.branch("again", Guard(more))
    b.store(D.B32, b.parameter(0), lane)
    form = ssa.build(b.module().functions[0])
    assert not Analysis(form, Geometry((64, 1, 1), 16, 2), assume_guards=True).assumed


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("relation", _RELATIONS)
def test_lanes_on_one_side_of_a_bound_agree(relation: str, mirrored: bool) -> None:
    """In groups of 32 of 128 threads, lanes agree at multiples of 32, and at no bound within a
    group.
    """
    geometry, compare = Geometry((128, 1, 1), 16, 2), _RELATIONS[relation]
    for bound in (0, 1, 31, 32, 33, 63, 64, 80, 95, 96, 127, 128, 1 << 31, (1 << 32) - 1):
        sources = f"{bound}, r1" if mirrored else f"r1, {bound}"
        body = f"SETP.{relation}.U32 p0, {sources}\n@p0 ST.SHARED.U32 [r1], r1"
        form = ssa.build(barrier_kernels.kernel(body, 0).functions[0])
        analysis = Analysis(form, geometry, assume_guards=False)
        (node,) = (n for b in form.blocks.values() for n in b.nodes if _is(n, Op.SETP))
        shape = analysis.shape(node.results[0], form.block_of[node.results[0]], 1)
        agree = all(
            len({compare(bound, t) if mirrored else compare(t, bound) for t in group}) == 1
            for group in (range(first, first + 32) for first in range(0, 128, 32))
        )
        found = isinstance(shape, Affine) and shape.uniform
        assert not found or agree, (relation, bound)
        if relation in ("EQ", "NE") or bound > 96:  # the number of threads is unknown
            continue
        assert found == agree, (relation, bound)


def _is(node: ssa.Node, op: Op) -> TypeGuard[ssa.Operation]:
    return isinstance(node, ssa.Operation) and node.instruction.op is op


@pytest.mark.parametrize("name", ["vecadd", "tiled_sgemm"])
def test_an_analysis_is_cached(name: str) -> None:
    """If nothing can be assumed, both kinds of analysis share one cache entry."""
    form = ssa.build(example(name))
    assuming = analyse(form, _TILE, assume_guards=True)
    exact = analyse(form, _TILE, assume_guards=False)
    assert analyse(form, _TILE, assume_guards=True) is assuming
    assert (assuming is exact) == (not assuming.assumed)
    assert bool(assuming.assumed) == (name == "vecadd")
    fresh = Analysis(form, _TILE, assume_guards=False)
    assert (fresh.shapes, fresh.assumptions) == (exact.shapes, exact.assumptions)
    assert analyse(form, Geometry(_TILE.block, 16, 1), assume_guards=False) is not exact
