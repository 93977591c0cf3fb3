"""What copies and fills take, by the data sheet's rates.

The share of PCIe's rate and a copy engine's start are those of ``vgpu_sim.perf.stream``. Memory
that is not page-locked goes through a buffer of the driver's, which costs about half of the rate:
nobody has measured that here.
"""

from enum import Enum, unique
from typing import Final

from vgpu_sim.perf.kernels.chip import Chip

_START_US: Final = 1.5
_LINK_SHARE: Final = 0.85
_PAGEABLE_SHARE: Final = 0.5


@unique
class Way(Enum):
    """Which way bytes go, as Nsight Systems names it."""

    H2D = "HtoD"
    D2H = "DtoH"
    D2D = "DtoD"
    P2P = "PtoP"
    SET = "memset"


def copy_us(chip: Chip, way: Way, size: int, *, pageable: bool = False) -> float:
    """Return the microseconds of a copy or fill of ``size`` bytes."""
    if way is Way.SET:
        return chip.launch_us + size / chip.dram_rate
    if way is Way.D2D:
        return chip.launch_us + 2 * size / chip.dram_rate
    if way is Way.P2P:
        return _START_US + size / (_LINK_SHARE * chip.board.link_gb_per_s.value * 1e3)
    share = _LINK_SHARE * (_PAGEABLE_SHARE if pageable else 1.0)
    return _START_US + size / (share * chip.pcie_rate)
