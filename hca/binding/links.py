"""Rates that a port may report, to verbs and in sysfs: a number of lanes and a generation's speed.

The numbers are those of PortInfo in the IB specification (LinkWidthActive, LinkSpeedActive),
which verbs report. The texts are the kernel's (``rate_show`` of the RDMA core). Neither limits
traffic.
"""

from typing import Final

from vgpu_sim.records import dataclass

_EDR, _HDR, _NDR = (32, "EDR"), (64, "HDR"), (128, "NDR")


@dataclass(frozen=True, slots=True)
class Link:
    """A port's rate: ``lanes`` lanes at the speed of one InfiniBand generation.

    ``speed`` is the number that stands for the generation in ibv_port_attr (``active_speed``).
    """

    gbps: int
    lanes: int
    speed: int
    generation: str

    @property
    def width(self) -> int:
        """Return the port's number of lanes, encoded as in PortInfo."""
        return {1: 1, 4: 2}[self.lanes]

    @property
    def text(self) -> str:
        """Return the content of the port's sysfs file ``rate``."""
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
