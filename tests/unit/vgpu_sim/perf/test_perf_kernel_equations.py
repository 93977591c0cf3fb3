"""Users' kernels by hand: pipes, occupancy, copies, footprints and the timeline."""

from collections.abc import Mapping
from dataclasses import replace
from math import log
from typing import Any

import pytest

from vgpu_sim.isa import DataType, Instruction, Literal, MatrixShape, Op, Register, Rounding, Space
from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.kernels import chip_of, footprint
from vgpu_sim.perf.kernels.chip import Latencies
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.perf.kernels.occupancy import occupancy_of
from vgpu_sim.perf.kernels.pipes import Pipe, flop_of, tensor_type, work_of
from vgpu_sim.perf.kernels.scoreboard import chain_growth
from vgpu_sim.perf.kernels.timeline import Timeline

F16X2, BF16X2, F32X2 = DataType.F16X2, DataType.BF16X2, DataType.F32X2
APPROX, FULL, RN = Rounding.APPROX, Rounding.FULL, Rounding.RN
R0 = Register(0)
HALVES = {Pipe.ALU: 0.5, Pipe.IMAD: 0.5}
DIVISION = {Pipe.ALU: 12, Pipe.FMA: 8, Pipe.XU: 1, Pipe.CVT: 2}
LONG_DIVISION = {Pipe.ALU: 50, Pipe.FMA: 30, Pipe.XU: 1, Pipe.CVT: 2}


def word(op: Op, kind: DataType = DataType.B32, **more: Any) -> Instruction:
    return Instruction(op, kind, **more)


@pytest.mark.parametrize(
    ("one", "work"),
    [
        (word(Op.NOP), {}),
        (word(Op.MOV), {}),
        (word(Op.MMA, DataType.F32), {Pipe.TENSOR: 1}),
        (word(Op.LD, space=Space.PARAM), {}),
        *((word(Op.LD, space=space), {Pipe.LSU: 1}) for space in (Space.SHARED, Space.GLOBAL)),
        (word(Op.ST, space=Space.GENERIC), {Pipe.LSU: 1}),
        (word(Op.ATOM, space=Space.GLOBAL), {Pipe.LSU: 1}),
        (word(Op.LDMATRIX, space=Space.SHARED), {Pipe.LSU: 1}),
        *((word(op), {Pipe.CBU: 1}) for op in (Op.BRA, Op.RET, Op.BAR_SYNC)),
        *((word(op), {Pipe.LSU: 1}) for op in (Op.SHFL, Op.MATCH)),
        (word(Op.VOTE), {Pipe.ALU: 1}),
        (word(Op.REDUX), {Pipe.LSU: 2, Pipe.ALU: 1}),
        (word(Op.CVT), {Pipe.CVT: 1}),
        (word(Op.CVT, DataType.F32, source_type=DataType.S32), {Pipe.CVT: 1}),
        (word(Op.CVT, DataType.S32, source_type=DataType.F32), {Pipe.XU: 1}),
        (word(Op.CVT, DataType.F32, source_type=DataType.F64), {Pipe.XU: 1}),
        *((word(op), {Pipe.XU: 1}) for op in (Op.POPC, Op.CLZ, Op.BREV)),
        (word(Op.SHL, srcs=(R0, Literal(3))), HALVES),
        (word(Op.SHL, srcs=(R0, R0)), {Pipe.ALU: 1}),
        *((word(op, DataType.U32), DIVISION) for op in (Op.DIV, Op.REM)),
        *((word(op, DataType.S64), LONG_DIVISION) for op in (Op.DIV, Op.REM)),
        *((word(op, DataType.U32), {Pipe.IMAD: 1}) for op in (Op.MUL, Op.MAD, Op.DP4A, Op.DP2A)),
        *((word(op, DataType.U64), {Pipe.IMAD: 4}) for op in (Op.MUL, Op.MAD)),
        (word(Op.ADD, DataType.U32), HALVES),
        (word(Op.ADD, DataType.U64), {Pipe.ALU: 1, Pipe.IMAD: 1}),
        (word(Op.SETP, DataType.U32), {Pipe.ALU: 1}),
        (word(Op.SETP, DataType.U64), {Pipe.ALU: 2}),
        (word(Op.SETP, DataType.F32), {Pipe.ALU: 1}),
        (word(Op.SETP, DataType.F64), {Pipe.FP64: 1}),
        (word(Op.SELP, DataType.B64), {Pipe.ALU: 2}),
        (word(Op.SELP, DataType.F64), {Pipe.ALU: 1}),
        *((word(op, DataType.F64), {Pipe.FP64: n}) for op, n in ((Op.FDIV, 12), (Op.FSQRT, 12))),
        *((word(op, DataType.F64), {Pipe.FP64: n}) for op, n in ((Op.FRCP, 8), (Op.FMA, 1))),
        *(
            (word(op, DataType.F32, rounding=how), {Pipe.XU: 1, Pipe.FMA: n})
            for op in (Op.FDIV, Op.FSQRT)
            for how, n in ((APPROX, 2), (FULL, 2), (RN, 8))
        ),
        (word(Op.FRCP, DataType.F32, rounding=RN), {Pipe.XU: 1, Pipe.FMA: 4}),
        (word(Op.FRCP, DataType.F32, rounding=APPROX), {Pipe.XU: 1, Pipe.FMA: 1}),
        *(
            (word(op, DataType.F32), {Pipe.XU: 1, Pipe.FMA: 1})
            for op in (Op.FRSQRT, Op.FEX2, Op.FLG2, Op.FTANH, Op.FSIN, Op.FCOS)
        ),
        *((word(op, DataType.F32), {Pipe.ALU: 1}) for op in (Op.FMIN, Op.FMAX, Op.FNEG, Op.FABS)),
        *((word(Op.FMA, kind), {Pipe.FP16: 1}) for kind in (DataType.F16, F16X2, BF16X2)),
        (word(Op.FMA, DataType.F32), {Pipe.FMA: 1}),
        (word(Op.FADD, F32X2), {Pipe.FMA: 2}),
    ],
    ids=lambda value: (
        f"{value.op.name}-{value.type.name}" if isinstance(value, Instruction) else ""
    ),
)
def test_a_word_takes_its_pipes(one: Instruction, work: Mapping[Pipe, float]) -> None:
    assert dict(work_of(one)) == work


@pytest.mark.parametrize(
    ("one", "flop"),
    [
        *((word(op, DataType.F32), 1) for op in (Op.FADD, Op.FSUB, Op.FMUL)),
        (word(Op.FMA, DataType.F32), 2),
        (word(Op.FMA, DataType.F64), 2),
        *((word(Op.FADD, kind), 2) for kind in (F16X2, BF16X2, F32X2)),
        (word(Op.FMA, F16X2), 4),
        (word(Op.FDIV, DataType.F32), 0),
        (word(Op.ADD, DataType.U32), 0),
        # A warp's 16 x 8 x 16 products and sums are 4096 operations, 128 per lane.
        (word(Op.MMA, DataType.F32, matrix=MatrixShape.M16N8K16), 128),
        (word(Op.MMA, DataType.F32, matrix=MatrixShape.M16N8K8), 64),
    ],
)
def test_operations_of_a_lane_are_counted(one: Instruction, flop: int) -> None:
    assert flop_of(one) == flop


@pytest.mark.parametrize(
    ("source", "rate"),
    [
        *((DataType.F16, "fp16"), (DataType.BF16, "bf16"), (DataType.TF32, "tf32")),
        *((DataType.S8, "int8"), (DataType.U8, "int8"), (DataType.E4M3, "int8")),
    ],
)
def test_a_product_runs_at_the_rate_of_its_operands(source: DataType, rate: str) -> None:
    assert tensor_type(word(Op.MMA, DataType.F32, source_type=source)) == rate
    assert tensor_type(word(Op.MMA, source)) == rate
    assert tensor_type(word(Op.FMA, source)) == ""


# Programming guide: lanes per clock for fp32, pairs of fp16, fp64, conversions; threads, blocks.
# White papers: KB of the first level. Luo et al.: the share of the peak that one warp's products
# reach.
PER_SM = {
    (8, 0): (64, 128, 32, 16, 2048, 32, 192, 0.95),
    (8, 9): (128, 64, 2, 16, 1536, 24, 128, 0.95),
    (9, 0): (128, 128, 64, 64, 2048, 32, 256, 0.62),
    (10, 0): (128, 128, 64, 64, 2048, 32, 256, 0.62),
    (12, 0): (128, 64, 2, 64, 1536, 24, 128, 0.95),
}


@pytest.mark.parametrize("name", BOARDS)
def test_a_chip_has_the_units_of_its_compute_capability(name: str) -> None:
    board, chip = BOARDS[name], chip_of(name)
    fp32, fp16, fp64, convert, threads, blocks, l1_kb, share = PER_SM[board.compute_capability]
    assert dict(chip.lanes) == {
        Pipe.ALU: 64,
        Pipe.FMA: fp32,
        Pipe.IMAD: 64,
        Pipe.FP16: fp16,
        Pipe.FP64: fp64,
        Pipe.XU: 16,
        Pipe.CVT: convert,
        Pipe.LSU: 32,
        Pipe.CBU: 32,
    }
    assert (chip.threads, chip.blocks, chip.l1_bytes) == (threads, blocks, l1_kb * 1024)
    assert chip.warps == threads // 32
    assert chip.shared_bytes == board.shared_kb_per_sm.value * 1024
    sms = board.sms.value
    assert chip.ghz == pytest.approx(board.vector_tflops.value * 1e3 / (sms * fp32 * 2))
    a_cycle = board.tensor_tflops["bf16"].value * 1e12 / (sms * chip.ghz * 1e9)
    assert chip.tensor["bf16"] == pytest.approx(share * a_cycle)
    assert chip.us(1e3) == pytest.approx(1 / chip.ghz)
    assert chip.pcie_rate == board.pcie_gb_per_s.value * 1e3
    fitted = parameters.nearest("stream", name, "elementwise", "vllm").values
    assert chip.l2_rate == pytest.approx(fitted["l2_rate"] * board.boost_ghz.value * 1e3 * sms)
    assert chip.dram_peak == board.dram_gb_per_s.value * 1e3
    assert chip.dram_rate == pytest.approx(min(1, fitted["dram"]) * chip.dram_peak)
    assert chip.l2_bytes == pytest.approx(min(1, fitted["l2_usable"]) * board.l2_mb.value * 1e6)


def test_a_slice_has_its_shares_and_no_more_than_the_board() -> None:
    whole, part = chip_of("h200"), chip_of("h200", 16, (1, 8))
    assert part.sms == 16
    for name in ("l2_bytes", "l2_rate", "dram_rate", "dram_peak"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name) / 8)
    for name in ("ghz", "l1_bytes", "shared_bytes", "launch_us", "tensor"):
        assert getattr(part, name) == getattr(whole, name)
    assert chip_of("h200", 1, (8, 8)).sms == 1
    assert chip_of("h200", 132).sms == 132
    for sms, memory in ((0, (1, 1)), (133, (1, 1)), (1, (0, 8)), (1, (9, 8))):
        with pytest.raises(
            BadShape, match=f"^invalid share: {sms} of 132 multi.*{memory[0]}/{memory[1]}"
        ):
            chip_of("h200", sms, memory)


@pytest.mark.parametrize(
    ("one", "chain"),
    # Issues; cycles, and short and long waits, of an instruction that needs the result at once.
    [
        (word(Op.FMA, DataType.F32, dsts=(R0,)), (1, 3, 0, 0, 0)),
        (word(Op.FMA, DataType.F64, dsts=(R0,)), (1, 7, 0, 0, 0)),
        (word(Op.ADD, DataType.U64, dsts=(R0,)), (2, 3, 0, 0, 0)),
        (word(Op.SETP, DataType.F64, dsts=(R0,)), (1, 7, 0, 0, 0)),
        (word(Op.SELP, DataType.F64, dsts=(R0,)), (1, 3, 0, 0, 0)),
        (word(Op.MMA, DataType.F32, dsts=(R0,)), (1, 23, 0, 0, 0)),
        *((word(op, dsts=(R0,)), (1, 0, 1, 0, 0)) for op in (Op.SHFL, Op.MATCH, Op.S2R)),
        (word(Op.REDUX, dsts=(R0,)), (3, 0, 1, 0, 0)),
        (word(Op.VOTE, dsts=(R0,)), (1, 3, 0, 0, 0)),
        (word(Op.FEX2, DataType.F32, dsts=(R0,)), (2, 19, 0, 0, 0)),
        (word(Op.CVT, dsts=(R0,)), (1, 4, 0, 0, 0)),
        (word(Op.LD, dsts=(R0,), space=Space.SHARED), (1, 0, 1, 0, 0)),
        (word(Op.LD, dsts=(R0,), space=Space.GLOBAL), (1, 0, 0, 1, 0)),
        (word(Op.LD, dsts=(R0,), space=Space.LOCAL), (1, 0, 0, 1, 0)),
        (word(Op.LD, dsts=(R0,), space=Space.PARAM), (0, 0, 0, 0, 0)),
        (word(Op.ST, srcs=(R0,), space=Space.GLOBAL), (1, 0, 0, 0, 0)),
        (word(Op.ATOM, dsts=(R0,), space=Space.GLOBAL), (1, 0, 0, 1, 0)),
        (word(Op.MOV, dsts=(R0,)), (0, 0, 0, 0, 0)),
        (word(Op.FADD, DataType.F32, dsts=(None,)), (1, 0, 0, 0, 0)),
    ],
    ids=lambda value: (
        f"{value.op.name}-{value.type.name}-{value.space.name}"
        if isinstance(value, Instruction)
        else ""
    ),
)
def test_a_warp_waits_for_a_word_that_the_next_needs(
    one: Instruction, chain: tuple[int, ...]
) -> None:
    assert chain_growth(one) == chain


def test_latencies_are_those_that_an_h100_has() -> None:
    """Measured on an H100 80GB HBM3, driver 580.159, 2026-11-27: dependent instructions of a warp."""
    assert Latencies() == Latencies(4, 17, 5, 23, 35, 282, 685)


H100 = chip_of("h100-80gb")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "found"),
    [
        # Warps per block; blocks by the limits of 64 warps, 64 K registers in quarters, 228 KB, 32
        # blocks.
        (1, 1, 0, (1, 64, 256, 228, 32)),
        (32, 8, 0, (1, 64, 256, 228, 32)),  # 8 x 32 registers are one unit of 256
        (32, 9, 0, (1, 64, 128, 228, 32)),
        (33, 8, 0, (2, 32, 128, 228, 32)),
        (96, 40, 127, (3, 21, 16, 202, 32)),  # 51 / 4 = 12 warps per quarter; 127 + 1 KB: 9 x 128
        (96, 40, 128, (3, 21, 16, 202, 32)),
        (96, 40, 129, (3, 21, 16, 182, 32)),
        (1024, 64, 113 * 1024, (32, 2, 1, 2, 32)),
    ],
)
def test_occupancy_by_each_limit(
    threads: int, registers: int, shared: int, found: tuple[int, ...]
) -> None:
    one = occupancy_of(H100, threads, registers, shared)
    limits = (one.by_warps, one.by_registers, one.by_shared, one.by_blocks)
    assert (one.warps_per_block, *limits) == found
    assert one.blocks == min(found[1:])


def test_a_block_that_just_fits_and_one_that_does_not() -> None:
    assert occupancy_of(H100, 32, 1, 227 * 1024).blocks == 1
    with pytest.raises(BadShape, match="h100-80gb: the limit is shared memory"):
        occupancy_of(H100, 32, 1, 227 * 1024 + 1)
    with pytest.raises(BadShape, match="at least one thread"):
        occupancy_of(H100, 0, 1, 0)
    assert occupancy_of(H100, 1024, 64, 0).limiter == "registers"
    with pytest.raises(BadShape, match="h100-80gb: the limit is registers"):
        occupancy_of(H100, 1024, 65, 0)


SLOW = replace(H100, launch_us=3.0)


@pytest.mark.parametrize(
    ("way", "us"),
    [
        (Way.SET, 3 + 1e6 / SLOW.dram_rate),
        (Way.D2D, 3 + 2e6 / SLOW.dram_rate),
        (Way.P2P, 1.5 + 1e6 / (0.85 * 450e3)),
        (Way.H2D, 1.5 + 1e6 / (0.85 * 64e3)),
        (Way.D2H, 1.5 + 1e6 / (0.85 * 64e3)),
    ],
)
def test_a_copy_takes_its_start_and_its_bytes(way: Way, us: float) -> None:
    assert copy_us(SLOW, way, 1_000_000) == pytest.approx(us)
    pageable = copy_us(SLOW, way, 1_000_000, pageable=True)
    host = way in (Way.H2D, Way.D2H)
    assert pageable - 1.5 == pytest.approx((us - 1.5) * (2 if host else 1))
    narrow = copy_us(SLOW, way, 1_000_000, peer_rate=100.0)
    assert narrow == pytest.approx(1.5 + 1e4 if way is Way.P2P else us)


def test_probes_are_at_powers_of_a_distance_on_each_axis_then_corners_then_drawn() -> None:
    """In 8 x 4 x 2 blocks the middle is (4, 2, 1); a step that would leave the grid is reversed."""
    found = footprint.blocks_to_sample((8, 4, 2), 16)
    assert found[0] == (4, 2, 1)
    near = [(5, 2, 1), (4, 3, 1), (4, 2, 0)]  # distance 1; z goes back
    assert found[1:4] == near
    assert found[4:6] == [(6, 2, 1), (4, 0, 1)]  # distance 2; z has no such block
    assert found[6] == (0, 2, 1)  # distance 4
    assert found[7:9] == [(0, 0, 0), (7, 3, 1)]
    assert len(found) == len(set(found)) == 16
    assert footprint.blocks_to_sample((8, 4, 2), 16) == found
    assert footprint.blocks_to_sample((8, 4, 2), 8) == [
        found[0],
        near[0],
        *found[7:9],
        *found[9:13],
    ]
    assert footprint.blocks_to_sample((1, 1, 1), 16) == [(0, 0, 0)]
    assert footprint.blocks_to_sample((40000, 1, 1), 1) == [(20000, 0, 0)]
    far = [place[0] - 20000 for place in footprint.blocks_to_sample((40000, 1, 1), 16)[1:8]]
    assert far == [1, 2, 4, 16, 128, 1024, 16384]


def test_blocks_that_share_all_or_nothing_touch_each_byte_once_or_each_time() -> None:
    """First on one axis: each block shares half of its bytes with its neighbour, so each adds
    half.
    """
    assert footprint.bytes_touched(100, (3, 1, 1), [{1: 0.5, 2: 0.0}, {}, {}]) == pytest.approx(
        max(100 * 3 / (1 + 2 * (2 / 3 * 0.5)), 100 * (1 + 2 * 0.5))
    )
    # Three blocks: two pairs at distance 1, one at 2. Every byte is in 1 + 2 (2/3 + 1/3) blocks.
    assert footprint.bytes_touched(100, (3, 1, 1), [{1: 1.0, 2: 1.0}, {}, {}]) == pytest.approx(100)
    assert footprint.bytes_touched(100, (2, 1, 5), [{1: 0.25}, {}, {}]) == pytest.approx(5 * 175)
    assert footprint.bytes_touched(7, (1, 1, 1), [{1: 1.0}, {}, {}]) == 7


def test_distances_between_samples_are_interpolated_logarithmically() -> None:
    """5 blocks at distances 1 to 4 share 1, 3/4 (log 2 is half of log 4), less, and 1/2."""
    shares = [1.0, 0.75, 1 - 0.5 * log(3) / log(4), 0.5]
    pairs = [4, 3, 2, 1]
    sharers = 1 + 2 * sum(n / 5 * share for n, share in zip(pairs, shares, strict=True))
    found = footprint.bytes_touched(60, (5, 1, 1), [{1: 1.0, 4: 0.5}, {}, {}])
    assert found == pytest.approx(60 * max(5 / sharers, 1))


def test_random_draws_from_a_common_memory() -> None:
    """In a memory of 1000 bytes, 4 blocks of 100 each touch 1000 (1 - 0.9^4); 40 blocks touch
    more.
    """
    union = 1000 * (1 - 0.9**4)
    assert footprint.bytes_touched_at_random(100, union, 4, 40) == pytest.approx(
        1000 * (1 - 0.9**40), rel=1e-6
    )
    assert footprint.bytes_touched_at_random(100, 400, 4, 40) == 4000
    assert footprint.bytes_touched_at_random(100, 399.6, 4, 40) == 4000
    assert footprint.bytes_touched_at_random(100, 399.5, 4, 40) < 4000
    assert footprint.bytes_touched_at_random(100, 100, 4, 40) == pytest.approx(100)


def test_a_timeline_keeps_the_last_1024_ends_of_a_stream() -> None:
    """There are 1025 values; the first takes so long that the host is far ahead of all later
    ones.
    """
    clock = Timeline()
    ends = {
        value: clock.launch(0, value, [], 1e6 if value == 1 else 10, 1).end
        for value in range(1, 1026)
    }
    for stream, wanted, reached in (
        (1, 1025, 1025),
        (2, 3, 3),
        (3, 2, 2),
        (4, 1, 2),
        (5, 2000, 1025),
    ):
        assert clock.mark(stream, 1, [(0, wanted)]) == ends[reached]


def test_a_launch_waits_for_room_through_all_of_its_time() -> None:
    """Shares of 0.6 at 2..12 and at 12..22 leave no 15 us for a launch with share 0.5 before 22."""
    clock = Timeline()
    first = clock.launch(1, 1, [], 10, 0.6)
    second = clock.launch(2, 1, [(1, 1)], 10, 0.6)
    assert (first.start, second.start) == (2, 12)
    assert clock.launch(3, 1, [], 15, 0.4).start == 6
    assert clock.launch(4, 1, [], 15, 0.5).start == 22
    assert clock.launch(5, 1, [], 1, 0.4).start == 21  # concurrent with the second alone
    assert clock.copy(6, 1, [], 5, "in").start == 11  # the host issued five launches and it
    assert clock.copy(7, 1, [], 5, "in", host_waits=True).end == 21
    assert clock.mark(8, 1, []) == 22
