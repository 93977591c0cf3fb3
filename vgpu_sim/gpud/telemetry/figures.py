"""What sensors of a board are modelled from: power, temperatures, clocks at rest.

``limit_w``: the default power limit, from the vendor's data sheets ("max thermal design power").
``idle_w`` and ``idle_clock_mhz``: as nvidia-smi shows them of boards at rest; no data sheet has
them. Temperatures: as ``nvidia-smi -q -d TEMPERATURE`` prints them of an A100, for all boards.
Clocks under load are in ``devices.silicon``. All boards are cooled passively: none has a fan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

AMBIENT_C = 30.0
FULL_POWER_C = 65.0  # of the GPU at its power limit, when it has drawn that for long
MEMORY_HOTTER_C = 4.0  # at the power limit
SLOWDOWN_C = 89
SHUTDOWN_C = 92
HEATING_S = 20.0  # after which 63 % of a change of temperature is over


@dataclass(frozen=True, slots=True)
class Sensors:
    """A board's figures: W, MHz.

    ``idle_memory_clock_mhz`` is None where the memory keeps its clock, and the board its
    performance state P0, as those with HBM do.
    """

    limit_w: int
    idle_w: int
    idle_clock_mhz: int
    idle_memory_clock_mhz: int | None = None


SENSORS: Mapping[str, Sensors] = MappingProxyType(
    {
        "a30": Sensors(165, 30, 210),
        "a100-40gb": Sensors(400, 45, 210),
        "a100-80gb": Sensors(400, 60, 210),
        "h100-80gb": Sensors(700, 70, 345),
        "h100-nvl": Sensors(400, 60, 345),
        "h200": Sensors(700, 75, 345),
        "b200": Sensors(1000, 140, 120),
        "rtx-pro-6000": Sensors(600, 30, 180, 405),
    }
)
