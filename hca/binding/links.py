"""Rates that a port may report, as verbs and sysfs have them: lanes, and a generation's speed.

Numbers are those of the IB specification, PortInfo (LinkWidthActive, LinkSpeedActive), which verbs
passes on; texts are the kernel's (``rate_show`` of the RDMA core). Nothing is limited by them.
"""

from dataclasses import dataclass
from typing import Final

_EDR, _HDR, _NDR = (32, "EDR"), (64, "HDR"), (128, "NDR")


@dataclass(frozen=True, slots=True)
class Link:
    """A port's rate."""

    gbps: int
    lanes: int
    speed: int
    generation: str

    @property
    def width(self) -> int:
        """Return the number of lanes as PortInfo codes it."""
        return {1: 1, 4: 2}[self.lanes]

    @property
    def text(self) -> str:
        """Return what ``rate`` in sysfs says."""
        return f"{self.gbps} Gb/sec ({self.lanes}X {self.generation})"


LINKS: Final = {
    gbps: Link(gbps, lanes, *kind)
    for gbps, lanes, kind in (
        (25, 1, _EDR),
        (50, 1, _HDR),
        (100, 4, _EDR),
        (200, 4, _HDR),
        (400, 4, _NDR),
    )
}
DEFAULT_LINK: Final = LINKS[100]
