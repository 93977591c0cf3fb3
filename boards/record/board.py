"""The record of a board: what its identity is, and the parts that packages read."""

from dataclasses import dataclass

from boards.record.figures import Bare, number
from boards.record.geometry import Geometry
from boards.record.performance import Performance
from boards.record.silicon import Sensors, Silicon


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What simulating a board takes, beside what its predictions take."""

    geometry: Geometry
    silicon: Silicon
    sensors: Sensors


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRecord:
    """One product. A bare number is of ``data_sheet``; a ``Figure`` names another source.

    ``device`` is None where a board can be predicted and not simulated.
    """

    key: str
    """As users write it. The module's name is the same, with underscores."""
    order: int
    """Where listings have the board: they rise by it, then by ``key``."""
    product_name: str
    """As ``nvidia-smi -L`` prints it."""
    architecture: str
    compute_capability: tuple[int, int]
    data_sheet: str
    """The document, or the part of one, that gives the bare numbers."""
    sms: Bare
    """SMs without MIG; the sum of a MIG layout's can be less (98 of 108 on A100)."""
    l2_mb: Bare
    power_w: Bare
    """The default power limit ("max thermal design power")."""
    performance: Performance
    device: Device | None = None

    @property
    def sm_count(self) -> int:
        """Return the number of SMs without MIG."""
        return int(number(self.sms))

    @property
    def l2_bytes(self) -> int:
        """Return the size of the second-level cache, whose data sheets write MB for MiB."""
        return int(number(self.l2_mb)) << 20

    @property
    def limit_w(self) -> int:
        """Return the power limit in whole watts."""
        return int(number(self.power_w))
