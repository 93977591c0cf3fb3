"""Assumptions of the fast version about edges and tiles, and unrolled loops."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.analysis.assumptions import Chosen, Fallback, Summed
from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import full_unrolling
from vgpu_sim.exec.jit.shapes import linear_algebra
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import PerVector, Vector
from vgpu_sim.exec.jit.shapes.linear import Base, Linear
from vgpu_sim.isa import Function, Module, Op, Space

_KERNELS = Path(__file__).parents[4] / "benchmarks/exec/kernels"
_BLOCK = (32, 8, 1)


def kernel(name: str) -> tuple[Module, Function]:
    module = compile_ptx((_KERNELS / f"{name}.ptx").read_text(), capability=(9, 0))
    return module, module.functions[0]


def global_loads(analysis: Analysis) -> list[tuple[ssa.Operation, object]]:
    return [
        (node, analysis.shape(node.sources[0], block.index, 64))
        for block in analysis.ssa.blocks.values()
        for node in block.nodes
        if isinstance(node, ssa.Operation)
        and node.instruction.op is Op.LD
        and node.instruction.space is Space.GLOBAL
    ]


def kinds(analysis: Analysis) -> Mapping[type, int]:
    return Counter(map(type, analysis.assumptions.values()))


def test_wrapped_columns_are_contiguous_away_from_edges() -> None:
    _, function = kernel("life")
    form = ssa.build(function)
    geometry = Geometry(_BLOCK, 16, 16)
    fast = Analysis(form, geometry, assume_guards=True)
    assert kinds(fast)[Chosen] == 4  # the columns to the left and right, the rows above and below
    assert all(isinstance(s, PerVector) and s.stride == 1 for _, s in global_loads(fast))
    exact = Analysis(form, geometry, assume_guards=False)
    assert not exact.falls_back(Fallback.MASKS)
    assert sum(isinstance(s, Vector) for _, s in global_loads(exact)) == 6


def test_rows_of_a_tile_are_found_in_vectors() -> None:
    module, function = kernel("halo_stencil")
    form = full_unrolling.build(function, _BLOCK)
    assert not form.graph.loops
    fast = Analysis(form, Geometry(_BLOCK, 16, 16), assume_guards=True)
    assert (kinds(fast)[Chosen], kinds(fast)[Summed]) == (8, 2)
    for _, shape in global_loads(fast):
        assert isinstance(shape, Vector)
        assert shape.linear is not None
    first = global_loads(fast)[0][1]
    assert isinstance(first, Vector)
    assert first.linear is not None
    found = [linear_algebra.runs(first.linear, 16 * s, 16, list(range(16)), 4) for s in range(16)]
    ends = [[run[1] + 1 for run in part] for part in found]
    assert ends[:5] == [[16], [16], [2, 16], [16], [4, 16]]  # rows of 34 begin at 34 and 68
    text = jit.Compiler().emit_llvm(module, function, _BLOCK, jit.Plan(16, 16))
    entry = text[text.index("@entry") : text.index("@exact_version(ptr noalias")]
    assert "masked.gather" not in entry
    assert "masked.gather" in text


@pytest.mark.parametrize(
    ("block", "turns"), [((32, 8, 1), 2), ((32, 4, 1), 2), ((8, 8, 1), 2), ((16, 4, 1), 2)]
)
def test_a_loop_is_unrolled_by_its_trip_count(block: tuple[int, int, int], turns: int) -> None:
    """The kernel steps by 256 for every block shape: thread 0 iterates twice, and no thread more
    often.
    """
    _, function = kernel("halo_stencil")
    form = full_unrolling.build(function, block)
    loads = global_loads(Analysis(form, Geometry(block, 1, 1), assume_guards=False))
    assert (len(loads), len(form.graph.loops)) == (turns, 0)


def test_a_loop_with_an_unknown_trip_count_is_not_unrolled() -> None:
    _, function = kernel("softmax")
    form = full_unrolling.build(function, (256, 1, 1))
    assert len(form.graph.loops) == len(ssa.build(function).graph.loops)


def _sum(bits: int, own: list[int], *factors: list[int]) -> Linear:
    terms = tuple((Base(value), tuple(f)) for value, f in zip(_SHARED, factors, strict=False))
    return Linear(bits, terms, tuple(own))


_SHARED = (ssa.Value(1, 32), ssa.Value(2, 32))


def test_products_of_sums() -> None:
    """(a + q) * b + c, for known q and c of each lane, and products that are not linear sums."""
    row = _sum(32, [0, 1, 2], [1, 1, 1])
    width = linear_algebra.affine(_SHARED[1], (0, 0, 0))
    column = linear_algebra.from_constants(32, (5, 6, 7))
    found = linear_algebra.add(linear_algebra.multiply(row, width), column)
    assert found is not None
    assert found.own == (5, 6, 7)
    assert {factors for _, factors in found.terms} == {(1, 1, 1), (0, 1, 2)}
    assert not found.alike
    assert linear_algebra.multiply(row, row) is None
    assert linear_algebra.add(row, linear_algebra.from_constants(64, (1, 2, 3))) is None
    nothing = linear_algebra.add(row, row, -1)
    assert nothing is not None
    assert (nothing.terms, nothing.own) == ((), (0, 0, 0))


def test_runs_end_where_factors_or_distances_do() -> None:
    lanes = [0, 1, 2, 3, 5, 6]
    found = _sum(64, [0, 4, 8, 16, 20, 24, 28], [1, 1, 2, 2, 2, 2, 2])
    assert linear_algebra.runs(found, 0, 7, lanes, 4) == [(0, 1), (2, 2), (3, 3), (5, 6)]
