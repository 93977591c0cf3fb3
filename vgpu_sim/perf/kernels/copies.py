"""Times of copies and fills, computed from the data sheet's rates.

The share of PCIe's rate that a copy reaches is that of ``vgpu_sim.perf.topology.transfers``; the
time to start a copy engine is that of ``vgpu_sim.perf.stream``. Memory that is not page-locked
passes through a buffer of the driver, which costs about half of the rate; this was not measured.
"""

from enum import Enum, unique
from typing import Final

from vgpu_sim.perf.kernels.chip import Chip
from vgpu_sim.perf.topology.transfers import SHARE

_START_US: Final = 1.5
_PAGEABLE_SHARE: Final = 0.5


@unique
class Way(Enum):
    """The direction of a copy, as Nsight Systems names it."""

    H2D = "HtoD"
    D2H = "DtoH"
    D2D = "DtoD"
    P2P = "PtoP"
    SET = "memset"


def copy_us(
    chip: Chip, direction: Way, size: int, *, pageable: bool = False, peer_rate: float | None = None
) -> float:
    """Return the time of a copy or fill of ``size`` bytes, in microseconds.

    ``peer_rate`` is the rate of the links to the other GPU in bytes per microsecond; if it is
    None (unknown), the rate of the board's link is used.
    """
    if direction is Way.SET:
        return chip.launch_us + size / chip.dram_rate
    if direction is Way.D2D:
        return chip.launch_us + 2 * size / chip.dram_rate
    if direction is Way.P2P:
        link = SHARE * chip.board.link_gb_per_s.value * 1e3
        return _START_US + size / (link if peer_rate is None else peer_rate)
    share = SHARE * (_PAGEABLE_SHARE if pageable else 1.0)
    return _START_US + size / (share * chip.pcie_rate)
