"""Figures from which a board's sensors are modelled: power, temperatures, idle clocks.

Power and clocks are those of the board's record. For all boards, temperature limits are those
that ``nvidia-smi -q -d TEMPERATURE`` prints for an A100. Clocks under load are in
``devices.silicon``. All boards are cooled passively: none has a fan.
"""

from collections.abc import Mapping
from types import MappingProxyType

from boards import RECORDS
from boards.record import Sensors

AMBIENT_C = 30.0
FULL_POWER_C = 65.0  # of a GPU that has been at its power limit for a long time
MEMORY_HOTTER_C = 4.0  # at the power limit
SLOWDOWN_C = 89
SHUTDOWN_C = 92
HEATING_S = 20.0  # time constant: the time for 63 % of a change of temperature

SENSORS: Mapping[str, Sensors] = MappingProxyType(
    {key: one.device.sensors for key, one in RECORDS.items() if one.device is not None}
)
"""The sensor figures of each board with a device record; ``limit_w`` is the power under load."""


def limit_w(key: str) -> int:
    """Return a board's power limit in watts. Raises KeyError for a board without a record."""
    return RECORDS[key].power_limit_w
