"""What sensors of a board are modelled from: power, temperatures, clocks at rest.

Power and clocks are those of the board's record. Temperatures: as ``nvidia-smi -q -d TEMPERATURE``
prints them of an A100, for all boards. Clocks under load are in ``devices.silicon``. All boards are
cooled passively: none has a fan.
"""

from collections.abc import Mapping
from types import MappingProxyType

from boards import RECORDS
from boards.record import Sensors

AMBIENT_C = 30.0
FULL_POWER_C = 65.0  # of the GPU at its power limit, when it has drawn that for long
MEMORY_HOTTER_C = 4.0  # at the power limit
SLOWDOWN_C = 89
SHUTDOWN_C = 92
HEATING_S = 20.0  # after which 63 % of a change of temperature is over

SENSORS: Mapping[str, Sensors] = MappingProxyType(
    {key: one.device.sensors for key, one in RECORDS.items() if one.device is not None}
)
"""What simulated boards show at rest; ``limit_w`` is their power under load."""


def limit_w(key: str) -> int:
    """Return a board's power limit in watts. Raises KeyError for a board without a record."""
    return RECORDS[key].limit_w
