"""What sensors of a board are modelled from: power, temperatures, clocks at rest.

Power and clocks are those of the board's record. Temperatures: as ``nvidia-smi -q -d TEMPERATURE``
prints them of an A100, for all boards. Clocks under load are in ``devices.silicon``. All boards are
cooled passively: none has a fan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from boards import RECORDS

AMBIENT_C = 30.0
FULL_POWER_C = 65.0  # of the GPU at its power limit, when it has drawn that for long
MEMORY_HOTTER_C = 4.0  # at the power limit
SLOWDOWN_C = 89
SHUTDOWN_C = 92
HEATING_S = 20.0  # after which 63 % of a change of temperature is over


@dataclass(frozen=True, slots=True)
class Sensors:
    """A board's figures: W, MHz; see ``boards.record.Sensors``."""

    limit_w: int
    idle_w: int
    idle_clock_mhz: int
    idle_memory_clock_mhz: int | None = None


SENSORS: Mapping[str, Sensors] = MappingProxyType(
    {
        key: Sensors(
            record.limit_w,
            record.device.sensors.idle_w,
            record.device.sensors.idle_clock_mhz,
            record.device.sensors.idle_memory_clock_mhz,
        )
        for key, record in RECORDS.items()
        if record.device is not None
    }
)
