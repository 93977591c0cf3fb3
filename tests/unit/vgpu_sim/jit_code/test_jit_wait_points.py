"""The lane groups that may wait as one, and the plans of kernels with wait points."""

import pytest

from support.kernels import barrier_kernels
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import choose
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.isa import Module

_BLOCK = (64, 1, 1)
_PARTED = """
    AND.B32 r10, r4, 1
    SETP.EQ.U32 p0, r10, 0
"""


def _widths(body: str, block: tuple[int, int, int] = _BLOCK) -> set[int]:
    """Return the group sizes, in lanes, of the legal plans."""
    function = barrier_kernels.kernel(body, 0, 1).functions[0]
    return {plan.width * plan.vectors for plan in jit.legal_plans(function, block)}


@pytest.mark.parametrize(
    "body",
    [
        "BAR_SYNC 0, 0",
        f"{_PARTED}\n@p0 RET\n BAR_SYNC 0, 0",
        f"{_PARTED}\n@p0 BRA a\n ADD.U32 r11, r4, 1\na:\n BAR_SYNC 0, 0",
        f"{_PARTED}\n@p0 BRA a\n ADD.U32 r11, r4, 1\n@p0 RET\na:\n BAR_SYNC 0, 0",
        # Lanes leave the inner loop one by one, and rejoin after it.
        "MOV.B32 r11, 0\nl:\n ADD.U32 r11, r11, 1\n SETP.LT.U32 p0, r11, r4\n@p0 BRA l\n"
        " BAR_SYNC 0, 0",
        # A uniform branch, and a loop with a uniform trip count.
        "LD.PARAM.U32 r10, [0]\n SETP.EQ.U32 p0, r10, 0\n@p0 BRA a\n BAR_SYNC 0, 0\na:\n NOP",
        "LD.PARAM.U32 r10, [0]\n SETP.EQ.U32 p0, r10, 0\n@p0 BAR_SYNC 0, 0",
        "LD.PARAM.U32 r10, [0]\nl:\n BAR_SYNC 0, 0\n SUB.U32 r10, r10, 1\n"
        " SETP.NE.U32 p0, r10, 0\n@p0 BRA l",
        # Lanes that skip the rest of an iteration are present in the next.
        f"{_PARTED}\n LD.PARAM.U32 r12, [0]\nl:\n BAR_SYNC 0, 0\n SUB.U32 r12, r12, 1\n"
        " SETP.EQ.U32 p1, r12, 0\n@p1 RET\n@p0 BRA l\n ADD.U32 r11, r4, 1\n BRA l",
    ],
)
def test_converged_lanes_wait_together(body: str) -> None:
    assert max(_widths(body)) == 64


@pytest.mark.parametrize(
    "body",
    [
        f"{_PARTED}\n@p0 BAR_SYNC 0, 0",
        f"{_PARTED}\n@p0 BRA a\n BAR_SYNC 0, 0\na:\n ST.SHARED.U8 [r4], r4",
        f"{_PARTED}\n@p0 BRA a\n BAR_SYNC 0, 0\n BRA b\na:\n BAR_SYNC 0, 0\nb:\n NOP",
        "MOV.B32 r11, 0\nl:\n BAR_SYNC 0, 0\n ADD.U32 r11, r11, 1\n SETP.LT.U32 p0, r11, r4\n"
        "@p0 BRA l",
        f"{_PARTED}\n LD.PARAM.U32 r12, [0]\nl:\n SUB.U32 r12, r12, 1\n"
        " SETP.EQ.U32 p1, r12, 0\n@p1 RET\n@p0 BRA l\n BAR_SYNC 0, 0\n BRA l",
        "BAR_SYNC r4, 0",
    ],
)
def test_divergent_lanes_are_groups_of_their_own(body: str) -> None:
    assert _widths(body) == {1}


_ABOVE = "@p1 BRA a\n VOTE.BALLOT.B32 r10, 1, 0xffffffff\na:\n ST.SHARED.U8 [r4], r10"


@pytest.mark.parametrize(
    ("limit", "widest"),
    [
        ("LT.U32 p1, r1, 32", 32),
        ("GE.S32 p1, r1, 32", 32),
        ("GT.U32 p1, r1, 31", 32),
        ("LE.U32 p1, r1, 32", 1),
        ("LT.U32 p1, r1, 31", 1),
        ("EQ.U32 p1, r1, 32", 1),
        ("LT.AND.U32 p1, r1, 32, p0", 1),
    ],
)
def test_a_limit_between_warps_does_not_split_groups(limit: str, widest: int) -> None:
    body = f"{_PARTED}\n SETP.{limit}\n{_ABOVE}"
    assert max(_widths(body)) == widest
    module = barrier_kernels.kernel(body, 0, 1)
    jit.Compiler().emit_llvm(module, module.functions[0], _BLOCK)


def test_counted_barriers_need_groups_within_a_warp() -> None:
    body = "BAR_SYNC 1, 64\n BAR_SYNC 0, 0"
    assert max(_widths(body)) == 32
    assert _widths(body, (33, 2, 1)) == {1, 2, 4, 8, 16, 32}  # of a line of 66
    assert {32 % lanes for lanes in _widths(body, (24, 4, 1))} == {0}


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ("BAR_SYNC 3, 0\n BAR_SYNC 3, 0", False),
        ("BAR_SYNC 3, 0\n BAR_SYNC 4, 0", True),
        ("BAR_SYNC 3, 64", True),
        ("BAR_ARRIVE 3, 64", True),
        ("LD.PARAM.U32 r10, [0]\n BAR_SYNC r10, 0", True),
        ("BAR_SYNC 16, 0", False),
        ("BAR_SYNC 3, 0\n BAR_SYNC 16, 0", False),
        ("BAR_SYNC 17, 0", True),
        ("BAR_SYNC 16, 32", True),
    ],
)
def test_a_single_barrier_of_all_threads_needs_no_counts(body: str, counted: bool) -> None:
    form = ssa.build(barrier_kernels.kernel(body, 0, 1).functions[0])
    assert wait_points.needs_counting(form, Geometry(_BLOCK, 16, 2)) is counted


def test_barriers_of_warpgroups_are_counted_where_several_groups_pass_them() -> None:
    form = ssa.build(barrier_kernels.kernel("BAR_SYNC 0, 0\n BAR_SYNC 16, 0", 0, 1).functions[0])
    assert wait_points.needs_counting(form, Geometry((256, 1, 1), 16, 2))
    assert not wait_points.needs_counting(form, Geometry((256, 1, 1), 16, 16))
    assert not wait_points.needs_counting(form, Geometry((128, 1, 1), 16, 2))


def test_a_plan_that_separates_waiting_lanes_is_rejected() -> None:
    module = barrier_kernels.diverging_kernel()
    with pytest.raises(jit.PlanError, match="separates lanes that wait for each other"):
        jit.Compiler().compile(module, module.functions[0], _BLOCK, jit.Plan(16, 2))


def _choose_plan(module: Module, block: tuple[int, int, int]) -> Geometry:
    return choose.choose(ssa.build(module.functions[0]), block, 512).geometry(block)


def test_a_block_in_one_group_needs_no_switch() -> None:
    assert _choose_plan(barrier_kernels.guarded_kernel(), (64, 1, 1)).groups == 1
    assert _choose_plan(barrier_kernels.guarded_kernel(), (1024, 1, 1)).groups == 1
    assert _choose_plan(barrier_kernels.guarded_kernel(), (8, 128, 1)).groups > 1


def test_a_loop_with_a_wait_point_has_groups_of_eight_vectors() -> None:
    assert _choose_plan(barrier_kernels.tiled_sgemm(32), (32, 32, 1)).vectors >= 8


def test_lanes_that_cannot_wait_together_run_lane_by_lane() -> None:
    assert _choose_plan(barrier_kernels.diverging_kernel(), (64, 1, 1)).span == 1
