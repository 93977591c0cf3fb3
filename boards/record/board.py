"""The record of a board: its identity, and the parts that other packages read."""

from dataclasses import dataclass

from boards.record.figures import Bare, number_of
from boards.record.geometry import Geometry
from boards.record.performance import Performance
from boards.record.silicon import Sensors, Silicon


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The data without which a board cannot be simulated.

    Predictions of the board's performance do not need these data.
    """

    geometry: Geometry
    silicon: Silicon
    sensors: Sensors


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRecord:
    """The record of one product.

    A bare number comes from ``data_sheet``. A ``Figure`` is a number that names another source.
    ``device`` is None for a board that cannot be simulated; only its performance can be predicted.
    """

    key: str
    """The key that users write. The module's name is the key with underscores."""
    order: int
    """Position in listings; boards with the same position are sorted by ``key``."""
    product_name: str
    """The name that ``nvidia-smi -L`` prints."""
    architecture: str
    compute_capability: tuple[int, int]
    data_sheet: str
    """The document, or the part of one, that gives the bare numbers."""
    sms: Bare
    """Number of SMs without MIG; a full MIG layout can have fewer (98 of 108 on A100)."""
    l2_mb: Bare
    power_w: Bare
    """The default power limit ("max thermal design power")."""
    performance: Performance
    device: Device | None = None

    @property
    def sm_count(self) -> int:
        """Return the number of SMs without MIG."""
        return int(number_of(self.sms))

    @property
    def l2_bytes(self) -> int:
        """Return the size of the L2 cache in bytes.

        One MB of a data sheet is counted as one MiB, because data sheets mean MiB.
        """
        return int(number_of(self.l2_mb)) << 20

    @property
    def power_limit_w(self) -> int:
        """Return the power limit in whole watts."""
        return int(number_of(self.power_w))
