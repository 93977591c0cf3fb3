"""The boards as data. A row's figures are those of its data sheet unless they say otherwise."""

import difflib
from collections.abc import Mapping
from typing import Final

from vgpu_sim.perf.boards.board import Board, Figure, Source
from vgpu_sim.perf.errors import UnknownBoard

_SHARED_KB: Final = {(8, 0): 164, (8, 9): 100, (9, 0): 228, (10, 0): 228, (12, 0): 100}
_GUIDE: Final = "CUDA C++ Programming Guide, Technical Specifications per Compute Capability"


def _measured(value: float, how: str) -> Figure:
    return Figure(value, Source.MEASURED, how)


def _derived(value: float, how: str) -> Figure:
    return Figure(value, Source.DERIVED, how)


def _board(
    name: str,
    product: str,
    architecture: tuple[str, int, int],
    sheet: str,
    chip: tuple[float | Figure, float | Figure, float | Figure],
    memory: tuple[float | Figure, float | Figure],
    outside: tuple[float, float, float],
    vector: float,
    tensor: Mapping[str, float | Figure],
) -> Board:
    """Make a board; bare numbers are of the data sheet.

    ``chip``: SMs, boost GHz, L2 MB; ``memory``: GB/s, GB; ``outside``: W, link GB/s, PCIe GB/s.
    """
    words, major, minor = architecture

    def figure(value: float | Figure) -> Figure:
        return value if isinstance(value, Figure) else Figure(value, Source.DATA_SHEET, sheet)

    return Board(
        name,
        product,
        words,
        (major, minor),
        *(figure(chip[0]), figure(chip[1]), figure(chip[2])),
        Figure(_SHARED_KB[major, minor], Source.GUIDE, _GUIDE),
        *(figure(memory[0]), figure(memory[1])),
        *(figure(outside[0]), figure(outside[1]), figure(outside[2])),
        figure(vector),
        {dtype: figure(rate) for dtype, rate in tensor.items()},
    )


_AMPERE: Final = ("Ampere", 8, 0)
_ADA: Final = ("Ada Lovelace", 8, 9)
_HOPPER: Final = ("Hopper", 9, 0)
_BLACKWELL: Final = ("Blackwell", 10, 0)
_BLACKWELL_RTX: Final = ("Blackwell", 12, 0)
_AMPERE_PAPER: Final = "NVIDIA A100 Tensor Core GPU Architecture, table of specifications"
_HOPPER_PAPER: Final = "NVIDIA H100 Tensor Core GPU Architecture, table of specifications"
_REPORTED: Final = "cudaGetDeviceProperties on a board"
_TCGEN05: Final = "bf16 rate / (SMs x 8192 flop a clock)"

_A30 = {"bf16": 165.0, "fp16": 165.0, "tf32": 82.0, "int8": 330.0}
_A100 = {"bf16": 312.0, "fp16": 312.0, "tf32": 156.0, "int8": 624.0}
_H100 = {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp8": 1978.9, "int8": 1978.9}
_H100_NVL = {"bf16": 835.5, "fp16": 835.5, "tf32": 417.5, "fp8": 1670.5, "int8": 1670.5}
_B200 = {"bf16": 2250.0, "fp16": 2250.0, "tf32": 1125.0, "fp8": 4500.0, "nvfp4": 9000.0}
_GB200 = {"bf16": 2500.0, "fp16": 2500.0, "tf32": 1250.0, "fp8": 5000.0, "nvfp4": 10000.0}
_L40S = {"bf16": 362.05, "fp16": 362.05, "tf32": 183.0, "fp8": 733.0, "int8": 733.0}


def _at_clock(flop_a_clock: int) -> Figure:
    return _derived(188 * flop_a_clock * 2.43e-3, f"SMs x {flop_a_clock} flop a clock x clock")


_RTX_PRO = {
    "bf16": _at_clock(1024),
    "fp16": _at_clock(1024),
    "tf32": _at_clock(512),
    "fp8": _at_clock(2048),
    "nvfp4": _at_clock(4096),
}

_ROWS: Final = (
    _board(
        *("a30", "NVIDIA A30", _AMPERE, "NVIDIA A30 data sheet"),
        chip=(56, 1.44, 24),
        memory=(933, 24),
        outside=(165, 32, 32),
        vector=10.3,
        tensor=_A30,
    ),
    _board(
        *("a100-40gb", "NVIDIA A100-SXM4-40GB", _AMPERE, _AMPERE_PAPER),
        chip=(108, 1.41, 40),
        memory=(1555, 40),
        outside=(400, 300, 32),
        vector=19.5,
        tensor=_A100,
    ),
    _board(
        *("a100-80gb", "NVIDIA A100-SXM4-80GB", _AMPERE, _AMPERE_PAPER),
        chip=(108, 1.41, 40),
        memory=(2039, 80),
        outside=(400, 300, 32),
        vector=19.5,
        tensor=_A100,
    ),
    _board(
        *("h100-80gb", "NVIDIA H100 80GB HBM3", _HOPPER, _HOPPER_PAPER),
        chip=(132, 1.83, 50),
        memory=(3350, 80),
        outside=(700, 450, 64),
        vector=66.9,
        tensor=_H100,
    ),
    _board(
        *("h100-nvl", "NVIDIA H100 NVL", _HOPPER, "NVIDIA H100 NVL data sheet and product brief"),
        chip=(132, 1.785, 50),
        memory=(3938, 94),
        outside=(400, 300, 64),
        vector=60.0,
        tensor=_H100_NVL,
    ),
    _board(
        *("h200", "NVIDIA H200", _HOPPER, "NVIDIA H200 data sheet; H100's chip"),
        chip=(132, 1.83, 50),
        memory=(4800, 141),
        outside=(700, 450, 64),
        vector=66.9,
        tensor=_H100,
    ),
    _board(
        *("b200", "NVIDIA B200", _BLACKWELL, "NVIDIA HGX B200 data sheet, an eighth of it"),
        chip=(_measured(148, _REPORTED), _derived(1.856, _TCGEN05), _measured(126, _REPORTED)),
        memory=(7700, 180),
        outside=(1000, 900, 64),
        vector=75.0,
        tensor=_B200,
    ),
    _board(
        *("gb200", "NVIDIA GB200", _BLACKWELL, "NVIDIA GB200 NVL72 data sheet, a 72nd of it"),
        chip=(_measured(152, _REPORTED), _derived(2.008, _TCGEN05), _measured(126, _REPORTED)),
        memory=(8000, 186),
        outside=(1200, 900, 64),
        vector=80.0,
        tensor=_GB200,
    ),
    _board(
        *("l40s", "NVIDIA L40S", _ADA, "NVIDIA L40S data sheet; Ada architecture white paper"),
        chip=(142, 2.52, 96),
        memory=(864, 48),
        outside=(350, 32, 32),
        vector=91.6,
        tensor=_L40S,
    ),
    _board(
        *("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", _BLACKWELL_RTX),
        "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet",
        chip=(188, _measured(2.43, "largest SM clock that nvidia-smi reports"), 128),
        # Not the workstation editions' 1792 GB/s: GDDR7 at 25 Gbit/s a pin, not 28.
        memory=(1597, 96),
        outside=(600, 64, 64),
        vector=120.0,
        tensor=_RTX_PRO,
    ),
)

BOARDS: Final[Mapping[str, Board]] = {row.name: row for row in _ROWS}


def board_named(name: str) -> Board:
    """Return a board. Raises UnknownBoard, which names the nearest."""
    try:
        return BOARDS[name]
    except KeyError:
        near = difflib.get_close_matches(name, BOARDS, 1, 0.4)
        hint = f"; did you mean {near[0]}?" if near else ""
        known = ", ".join(sorted(BOARDS))
        raise UnknownBoard(f"no board {name!r}{hint} (known: {known})") from None
