"""Boards of the performance model: every figure has its source, and figures agree."""

import math

import pytest

from boards.record import ARCHITECTURES
from mig.geometry import BOARDS as CUT
from vgpu_sim.gpud.devices.silicon import BOARDS as REPORTED
from vgpu_sim.perf.boards import BOARDS, Source, board_named
from vgpu_sim.perf.errors import UnknownBoard

EACH = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


@EACH
def test_every_figure_has_a_source_and_says_which(board) -> None:
    assert len(board.figures) >= 13
    for name, figure in board.figures.items():
        assert figure.value > 0, name
        assert isinstance(figure.source, Source), name
        assert figure.note, name


@EACH
def test_rates_of_types_follow_from_the_size_of_their_operands(board) -> None:
    rates = {name: figure.value for name, figure in board.tensor_tflops.items()}
    assert rates["fp16"] == rates["bf16"]
    for name, times in (("tf32", 0.5), ("fp8", 2), ("int8", 2), ("nvfp4", 4)):
        if name in rates:
            assert math.isclose(rates[name], times * rates["bf16"], rel_tol=0.02), name


@EACH
def test_only_later_generations_have_smaller_types(board) -> None:
    assert ("fp8" in board.tensor_tflops) == (board.compute_capability >= (8, 9))
    assert ("nvfp4" in board.tensor_tflops) == (board.compute_capability >= (10, 0))


@EACH
def test_the_device_reports_the_same_board(board) -> None:
    """The device that programs observe and the board of the predictions agree."""
    limits = ARCHITECTURES[board.compute_capability]
    assert board.shared_kb_per_sm.value == limits.shared_bytes / 1024
    if board.name in REPORTED:
        notes = REPORTED[board.name]
        assert board.l2_mb.value == notes.l2_bytes / 2**20
        assert math.isclose(board.boost_ghz.value, notes.max_clock_khz / 1e6, rel_tol=0.08)
        # Twice the memory clock times the width of the bus.
        peak = 2 * notes.memory_clock_khz * notes.bus_bits / 8 / 1e6
        near = {"h200": 0.03, "b200": 0.07}.get(board.name, 0.005)  # imprecise sheets
        assert math.isclose(board.dram_gb_per_s.value, peak, rel_tol=near)


# Operations in bf16 per clock and SM, by the architecture's white paper.
A_CLOCK = {(8, 0): 2048, (8, 9): 1024, (9, 0): 4096, (10, 0): 8192, (12, 0): 1024}
LANES = {(8, 0): 64}  # fp32 lanes of an SM; 128 for others


@EACH
def test_rates_follow_from_clocks_and_units(board) -> None:
    """A figure copied from another product does not match the others of its row."""
    sms, clock = board.sms.value, board.boost_ghz.value
    # The NVL's data sheet states tensor rates at a clock below the stated one.
    near = 0.16 if board.name == "h100-nvl" else 0.015
    bf16 = sms * A_CLOCK[board.compute_capability] * clock / 1e3
    assert math.isclose(board.tensor_tflops["bf16"].value, bf16, rel_tol=near)
    # fp32 is stated at the largest clock, tensor rates at one that the power limit allows.
    fp32 = 2 * sms * LANES.get(board.compute_capability, 128) * clock / 1e3
    assert 0.98 * fp32 <= board.vector_tflops.value <= 1.1 * fp32


def test_the_server_edition_has_the_slower_memory() -> None:
    """Workstation editions have 28 Gbit/s per pin, that is 1792 GB/s; this one has 25."""
    board = board_named("rtx-pro-6000")
    assert "Server Edition" in board.product
    assert (board.dram_gb_per_s.value, board.dram_gb_per_s.source) == (1597, Source.DATA_SHEET)
    assert "Server Edition" in board.dram_gb_per_s.note


@pytest.mark.parametrize(
    ("name", "figure", "value"),
    [
        ("b200", "boost clock (GHz)", 2250e3 / (148 * 8192)),
        ("gb200", "boost clock (GHz)", 2500e3 / (152 * 8192)),
        ("rtx-pro-6000", "bf16 (Tflop/s)", 188 * 1024 * 2.43e-3),
        ("rtx-pro-6000", "nvfp4 (Tflop/s)", 188 * 4096 * 2.43e-3),
    ],
)
def test_what_is_derived_is_what_its_note_says(name: str, figure: str, value: float) -> None:
    found = board_named(name).figures[figure]
    assert found.source is Source.DERIVED
    assert math.isclose(found.value, value, rel_tol=1e-3)


@EACH
def test_mig_cuts_the_same_board(board) -> None:
    if board.name not in CUT:
        assert board.name in {"gb200", "l40s"}
        return
    cut = CUT[board.name]
    assert (cut.product_name, cut.architecture) == (board.product, board.architecture)
    assert (cut.sm_count, cut.compute_capability) == (board.sms.value, board.compute_capability)
    assert board.dram_gb.value == pytest.approx(cut.memory_bytes / 1e9, rel=0.08)


def test_an_unknown_board_is_named_with_its_nearest() -> None:
    with pytest.raises(UnknownBoard, match=r"'h20'; did you mean h200\?"):
        board_named("h20")
