"""Places of devices, and what two of them have in common."""

from dataclasses import dataclass
from enum import Enum, unique
from typing import Final

NVSWITCH_BUS: Final = 0x05  # the PCI bus that NVSwitches are told to be on
_CXL_2: Final = 2


@unique
class Level(Enum):
    """The nearest thing that two PCI devices have in common, by nvidia-smi's names; the values are
    NVML's (nvmlGpuTopologyLevel_t)."""

    SELF = 0
    PIX = 10  # one PCIe switch
    PXB = 20  # several switches, no host bridge
    PHB = 30  # a host bridge
    NODE = 40  # host bridges of one NUMA node
    SYS = 50  # the link between NUMA nodes


@dataclass(frozen=True, slots=True)
class Place:
    """A PCI device: ``bus`` (domain 0, device 0), and the numbers of its NUMA node, host bridge,
    and PCIe switch; equal numbers are the same thing. ``port`` of a switch leads to it: a switch
    below a switch."""

    bus: int
    numa: int
    bridge: int
    switch: int
    port: int = 0

    @property
    def bus_id(self) -> str:
        """The PCI address as NCCL and sysfs write it."""
        return f"0000:{self.bus:02x}:00.0"


@dataclass(frozen=True, slots=True)
class Expander:
    """A CXL memory expander: a memory node of ``gigabytes`` (10^9) below a host bridge.

    ``generation`` 2 has lanes of 32 GT/s with PCIe 5.0's 128/130 line code, 3 of 64 GT/s in flits
    without a line code (CXL 2.0 and 3.0 specifications, "Flex Bus Physical Layer").
    """

    numa: int
    bridge: int
    gigabytes: int
    lanes: int
    generation: int

    @property
    def gb_per_s(self) -> float:
        """Return what its lanes carry one way, GB/s, headers included."""
        rate = 32 * 128 / 130 if self.generation == _CXL_2 else 64
        return rate * self.lanes / 8


@dataclass(frozen=True, slots=True)
class Topology:
    """A node. ``nvlinks`` are those of a GPU by architecture ("Ampere": 12), none: no NVLink;
    ``switched``: they lead to NVSwitches, else to each peer as many. ``nvmes`` are drives."""

    name: str
    gpus: tuple[Place, ...]
    hcas: tuple[Place, ...] = ()
    numa_nodes: int = 1
    nvlinks: tuple[tuple[str, int], ...] = ()
    switched: bool = False
    nvmes: tuple[Place, ...] = ()
    cxls: tuple[Expander, ...] = ()

    def links_of(self, architecture: str) -> int:
        """Return how many NVLinks a GPU of this architecture has here."""
        return dict(self.nvlinks).get(architecture, 0)

    def links_between(self, architecture: str) -> int:
        """Return over how many NVLinks any two GPUs reach each other."""
        links = self.links_of(architecture)
        return links if self.switched else links // max(1, len(self.gpus) - 1)

    def level(self, one: Place, other: Place) -> Level:
        """Return what two devices have in common on PCIe."""
        if one == other:
            return Level.SELF
        if one.numa != other.numa:
            return Level.SYS
        if one.bridge != other.bridge:
            return Level.NODE
        if one.switch != other.switch:
            return Level.PHB
        return Level.PIX if one.port == other.port else Level.PXB
