"""Positions of devices in a node, and the nearest point that two of them share."""

from enum import Enum, unique
from typing import Final

from vgpu_sim.records import dataclass

NVSWITCH_BUS: Final = 0x05  # the PCI bus reported for NVSwitches
_CXL_2: Final = 2


@unique
class Level(Enum):
    """The nearest point that two PCI devices share. The names are those of nvidia-smi, and the
    values are those of NVML (nvmlGpuTopologyLevel_t).
    """

    SELF = 0
    PIX = 10  # one PCIe switch
    PXB = 20  # several switches, no host bridge
    PHB = 30  # a host bridge
    NODE = 40  # host bridges of one NUMA node
    SYS = 50  # the link between NUMA nodes


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a PCI device in a node.

    ``bus`` is the device's bus (domain 0, device 0). ``numa``, ``bridge`` and ``switch`` are the
    numbers of the device's NUMA node, host bridge and PCIe switch. ``port`` is the number of the
    switch's port to which the device is connected. Devices with equal numbers are below the same
    NUMA node, bridge, switch or port.
    """

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

    ``generation`` is the major version of CXL. Lanes of generation 2 run at 32 GT/s with the
    128b/130b line code of PCIe 5.0. Lanes of generation 3 run at 64 GT/s and send flits without a
    line code (CXL 2.0 and 3.0 specifications, "Flex Bus Physical Layer").
    """

    numa: int
    bridge: int
    gigabytes: int
    lanes: int
    generation: int

    @property
    def gb_per_s(self) -> float:
        """The rate of the expander's lanes in one direction in GB/s, headers included."""
        rate = 32 * 128 / 130 if self.generation == _CXL_2 else 64
        return rate * self.lanes / 8


@dataclass(frozen=True, slots=True)
class Topology:
    """How the devices of a node are connected.

    ``nvlinks`` holds pairs such as ("Ampere", 12): a GPU architecture, and the number of NVLinks of
    each GPU of that architecture. It is empty without NVLink. If ``switched`` is set, the NVLinks
    lead to NVSwitches. Otherwise they lead to the other GPUs, and each pair of GPUs has the same
    number of NVLinks. ``nvmes`` are the places of NVMe drives, and ``cxls`` are CXL memory
    expanders.
    """

    name: str
    gpus: tuple[Place, ...]
    hcas: tuple[Place, ...] = ()
    numa_nodes: int = 1
    nvlinks: tuple[tuple[str, int], ...] = ()
    switched: bool = False
    nvmes: tuple[Place, ...] = ()
    cxls: tuple[Expander, ...] = ()

    def links_of(self, architecture: str) -> int:
        """Return the number of NVLinks of a GPU of this architecture in this node."""
        return dict(self.nvlinks).get(architecture, 0)

    def links_between(self, architecture: str) -> int:
        """Return the number of NVLinks between any two GPUs of this architecture in this node."""
        links = self.links_of(architecture)
        return links if self.switched else links // max(1, len(self.gpus) - 1)

    def level(self, first: Place, second: Place) -> Level:
        """Return the nearest point that two PCI devices share."""
        if first == second:
            return Level.SELF
        if first.numa != second.numa:
            return Level.SYS
        if first.bridge != second.bridge:
            return Level.NODE
        if first.switch != second.switch:
            return Level.PHB
        return Level.PIX if first.port == second.port else Level.PXB
