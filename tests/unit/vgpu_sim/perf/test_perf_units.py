"""What asynchronous units perform: products of warp groups, bulk copies, and steps of atomics."""

import numpy as np
import pytest

from vgpu_sim import compiler
from vgpu_sim.isa import Function, Literal, Op
from vgpu_sim.isa.families.sync import WARPGROUP_BARRIER
from vgpu_sim.perf.kernels import unrolling
from vgpu_sim.perf.kernels.scoreboard import Scoreboard
from vgpu_sim.perf.kernels.units import Part, Unit, parts_of
from vgpu_sim.worker.observing.accesses import (
    interleave,
    sectors_of,
    steps_of,
    wavefronts_of,
)


def kernel(body: str) -> Function:
    text = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0)
{{
  .reg .f32 %f<64>; .reg .b32 %r<8>; .reg .b64 %l<8>; .shared .align 128 .b8 room[8192];
  .shared .align 8 .b8 bar[8];
{body}
  ret;
}}
"""
    return compiler.compile_ptx(text, capability=(9, 0)).function("k")


def product(columns: int, left: str) -> str:
    sums = ", ".join(f"%f{i}" for i in range(columns // 2))
    turned = ", 0" if left.startswith("{") else ", 0, 0"
    return f"""  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{sums}}}, {left}, %l1, 1, 1, 1{turned};
  wgmma.commit_group.sync.aligned;"""


@pytest.mark.parametrize(
    ("columns", "left", "cycles"),
    [
        (8, "%l0", 16 + 4),  # shared memory returns A in 16 cycles, and 16 columns of B in 4
        (64, "%l0", 32),  # the tensor cores take 4 cycles for 8 columns
        (64, "{%r0, %r1, %r2, %r3}", 32),
        (128, "%l0", 64),
    ],
)
def test_a_product_of_a_warp_group_takes_its_columns_or_its_matrices(
    columns: int, left: str, cycles: int
) -> None:
    found = parts_of(kernel(product(columns, left)))
    assert {part.unit for part in found.values()} == {Unit.PRODUCT}
    assert sum(part.cycles for part in found.values()) == cycles
    loads = [part.share for part in found.values() if part.share]
    right = [0.25] * -(-columns // 16)  # four warps read B together
    assert loads == ([1.0] if left == "%l0" else []) + right


def test_a_warp_waits_for_its_products_where_it_commits_them() -> None:
    function = kernel(product(64, "%l0"))
    units = parts_of(function)
    board = Scoreboard(function.code, units)
    for word, instruction in enumerate(function.code):
        before = board.fixed_cycles
        board.step(word)
        commits = instruction.op is Op.BAR_SYNC
        assert not commits or instruction.srcs[0] == Literal(WARPGROUP_BARRIER)
        if commits:
            assert board.fixed_cycles - before == 32 + 53
    shares = unrolling.issue_shares(function.code, units)
    assert {shares[word] for word in units} == {0.0}
    assert {share for word, share in enumerate(shares) if word not in units} == {1.0}


def test_a_bulk_copy_from_global_memory_is_one_part_that_ends_once() -> None:
    text = """  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%l0], 4096, [%r1];
  mov.u32 %r2, 0;"""
    function = kernel(text)
    found = parts_of(function)
    assert {part.unit for part in found.values()} == {Unit.COPY}
    assert [word for word, part in found.items() if part.ends] == [max(found)]
    assert function.code[max(found)].op is Op.RED  # what completes transactions


def test_a_warp_issues_a_fetch_and_waits_for_the_first_only() -> None:
    function = kernel(
        "  cp.async.ca.shared.global [%r0], [%l0], 16;\n  cp.async.ca.shared.global [%r1], [%l1], 16;"
    )
    units = parts_of(function)
    assert [part.issued for part in units.values()] == [True, False] * 2
    shares = unrolling.issue_shares(function.code, units)
    assert [shares[word] for word in units] == [1.0, 0.0] * 2
    board = Scoreboard(function.code, units)
    for word in range(len(function.code)):
        board.step(word)
    assert board.long_waits == 1


def test_a_product_of_one_warp_and_a_loop_of_the_program_are_no_units() -> None:
    text = """  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};
L:
  ld.global.u32 %r0, [%l0];
  st.shared.u32 [%r1], %r0;
  bra L;"""
    assert parts_of(kernel(text)) == {}
    assert Part(Unit.COPY).share == 0


@pytest.mark.parametrize(("type_", "name"), [("u32", "%r0"), ("f32", "%f0")])
def test_a_load_and_a_store_on_one_line_are_no_fetch(type_: str, name: str) -> None:
    text = f"  ld.global.{type_} {name}, [%l0]; st.shared.{type_} [%r1], {name};"
    assert parts_of(kernel(text)) == {}


def steps(lanes: list[tuple[int, int]], *, together: int = 1) -> list[tuple[int, int]]:
    """Return sectors and steps of (warp, address)."""
    warps, addresses = (np.array(part, dtype=np.int64) for part in zip(*lanes, strict=True))
    _, sectors, counts = steps_of(warps, addresses, warps_together=together)
    return list(zip(sectors.tolist(), counts.tolist(), strict=True))


def test_a_sector_takes_a_step_for_each_lane_of_its_most_updated_word() -> None:
    assert steps([(0, 4 * lane) for lane in range(32)]) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert steps([(0, 64)] * 32) == [(2, 32)]
    assert steps([(0, 0), (0, 0), (0, 4), (0, 32)]) == [(0, 2), (1, 1)]
    assert steps([(0, 64), (1, 64), (1, 64)]) == [(2, 1), (2, 2)]


def test_warps_add_up_an_address_that_all_of_them_update() -> None:
    several = [(warp, 64) for warp in (0, 1) for _ in range(32)]
    assert steps(several, together=2) == [(2, 1), (2, 1)]
    assert steps(several) == [(2, 32), (2, 32)]
    different = [(warp, 64 * (warp + 1)) for warp in (0, 1) for _ in range(32)]
    assert steps(different, together=2) == [(2, 32), (4, 32)]
    of_blocks = [(warp, 64 * (warp // 2 + 1)) for warp in range(4) for _ in range(32)]
    assert steps(of_blocks, together=2) == [(2, 1), (2, 1), (4, 1), (4, 1)]


def test_a_product_of_doubles_keeps_the_pipe_busy_at_twice_its_rate() -> None:
    body = """  .reg .f64 %d<8>;
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d2}, {%d3}, {%d0, %d1};
  fma.rn.f64 %d4, %d4, %d5, %d6;"""
    function = kernel(body)
    units = parts_of(function)
    assert {part.unit for part in units.values()} == {Unit.DOUBLES}
    shares = unrolling.issue_shares(function.code, units)
    of_sums = [shares[n] for n, one in enumerate(function.code) if one.op is Op.FMA]
    assert of_sums == [0.5] * 8 + [1.0]
    assert all(shares[n] == 0 for n, one in enumerate(function.code) if one.op is Op.SHFL)


def test_a_program_that_shuffles_and_sums_doubles_is_no_product() -> None:
    lines = [
        f"shfl.sync.bfly.b32 %r{n % 8}, %r{n % 8}, 1, 31, -1; fma.rn.f64 %d1, %d1, %d2, %d3;"
        for n in range(8)
    ]
    assert parts_of(kernel("  .reg .f64 %d<8>;\n" + "\n".join(lines))) == {}


@pytest.mark.parametrize(
    ("place", "width", "wavefronts"),
    [
        (lambda lane: 0, 4, 1),  # one line of 32 adjacent words
        (lambda lane: 8, 8, 2),
        (lambda lane: 8, 16, 4),
        (lambda lane: 4 * (lane % 4), 4, 4),
        (lambda lane: 4 * lane, 4, 32),  # each lane's word in a line of its own
        (lambda lane: lane % 4, 1, 1),  # bytes of one word
    ],
)
def test_lanes_with_different_local_addresses_access_different_lines(
    place, width: int, wavefronts: int
) -> None:
    lanes = np.arange(32)
    addresses = np.array([place(int(lane)) for lane in lanes], np.int64)
    places, which = interleave(addresses, lanes, width)
    assert wavefronts_of(*sectors_of(np.zeros(len(which), np.int64), places)) == wavefronts
