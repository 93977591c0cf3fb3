"""How a node's GPUs are connected: a preset's name, or a custom description (ADR 92)."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Final, Self

from pydantic import Field, model_validator

from gpu_operator.api.v1alpha1.base import Model

_NVSWITCH_BUS: Final = "05"


class Topology(StrEnum):
    """Presets of `vgpu_sim.perf.topology`."""

    FLAT = "flat"  # each GPU on its own host bridge, no NVLink
    DGX_A100 = "dgx-a100"
    DGX_H100 = "dgx-h100"
    DGX_B200 = "dgx-b200"
    HGX_4 = "hgx-4"
    PCIE_2_SOCKET = "pcie-2-socket"


class PCIDevice(Model):
    """Position of a GPU or an HCA in the node's PCI hierarchy."""

    bus: str = Field(
        pattern=r"^[0-9a-f]{2}$",
        description="PCI bus, two hexadecimal digits such as 1b; it has no other device.",
    )
    numa_node: int = Field(default=0, ge=0, le=15, description="Nearest NUMA node.")
    host_bridge: int = Field(
        ge=0,
        le=255,
        description="Number of its host bridge; devices with the same number share the bridge.",
    )
    switch: int = Field(
        ge=0,
        le=255,
        description="Number of its PCIe switch; devices with the same number share the switch.",
    )

    def __str__(self) -> str:
        return f"{self.bus}.{self.numa_node}.{self.host_bridge}.{self.switch}"


class CXLMemory(Model):
    """A CXL memory expander on a host bridge."""

    numa_node: int = Field(default=0, ge=0, le=15, description="NUMA node of its host bridge.")
    host_bridge: int = Field(
        ge=0, le=255, description="Number of its host bridge, as for a device."
    )
    gigabytes: int = Field(ge=1, le=65536, description="Size in 10^9 bytes.")
    lanes: int = Field(default=8, ge=8, le=16, multiple_of=8, description="8 or 16.")
    generation: int = Field(
        default=2,
        ge=2,
        le=3,
        description="CXL generation: lanes have 32 GT/s in 2 and 64 GT/s in 3.",
    )

    def __str__(self) -> str:
        its = self.numa_node, self.host_bridge, self.gigabytes, self.lanes, self.generation
        return ".".join(map(str, its))


class CustomTopology(Model):
    """Connections of a node that no preset describes."""

    numa_nodes: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Number of NUMA nodes; a node without devices is memory only.",
    )
    gpus: tuple[PCIDevice, ...] = Field(
        min_length=1,
        max_length=8,
        description="Positions of the GPUs: GPU i of a node has the i-th.",
    )
    hcas: tuple[PCIDevice, ...] = Field(
        default=(), max_length=8, description="Positions of the network adapters."
    )
    nvmes: tuple[PCIDevice, ...] = Field(
        default=(), max_length=8, description="Positions of the NVMe drives."
    )
    cxls: tuple[CXLMemory, ...] = Field(
        default=(), max_length=4, description="CXL memory expanders."
    )
    nvlinks: int = Field(default=0, ge=0, le=18, description="NVLinks of each GPU; 0: none.")
    nvswitch: bool = Field(
        default=False,
        description="Whether the NVLinks lead to NVSwitches. Otherwise they connect 2 to 8 GPUs, "
        "each to all others alike.",
    )

    @model_validator(mode="after")
    def _is_a_machine(self) -> Self:
        problem = next(self._problems(), "")
        if problem:
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        fields = (("gpus", self.gpus), ("hcas", self.hcas), ("nvmes", self.nvmes))
        named = [pair for field, devices in fields for pair in _name_devices(field, devices)]
        for where, device in named:
            if device.bus == "00" or (self.nvswitch and device.bus == _NVSWITCH_BUS):
                owner = "the host bridge's" if device.bus == "00" else "the NVSwitches'"
                yield f"{where}: bus {device.bus} is {owner}"
            if device.numa_node >= self.numa_nodes:
                limit_text = f"numaNodes is {self.numa_nodes}, so the last is {self.numa_nodes - 1}"
                yield f"{where}: there is no NUMA node {device.numa_node}: {limit_text}"
        for (first, a), (second, b) in combinations(named, 2):
            pair_label = f"{first} and {second}"
            if a.bus == b.bus:
                yield f"{pair_label} have the same bus {a.bus}"
            if a.host_bridge == b.host_bridge and a.numa_node != b.numa_node:
                yield (
                    f"{pair_label} are on host bridge {a.host_bridge}, but on different NUMA nodes"
                )
            if a.switch == b.switch and a.host_bridge != b.host_bridge:
                yield f"{pair_label} are on PCIe switch {a.switch}, but on different host bridges"
        if self.nvswitch and not self.nvlinks:
            yield "nvswitch requires nvlinks"
        peers = len(self.gpus) - 1
        if self.nvlinks and not self.nvswitch and not peers:
            yield "nvlinks without nvswitch require 2 to 8 GPUs, not 1"
        if self.nvlinks and not self.nvswitch and peers and self.nvlinks % peers:
            yield f"nvlinks: {self.nvlinks} cannot be divided evenly among {peers} other GPUs"
        yield from self._problems_of_expanders(named)

    def _problems_of_expanders(self, devices: Sequence[tuple[str, PCIDevice]]) -> Iterator[str]:
        earlier_devices: list[tuple[str, PCIDevice | CXLMemory]] = list(devices)
        for index, expander in enumerate(self.cxls):
            where = f"cxls[{index}]"
            if expander.numa_node >= self.numa_nodes:
                limit_text = f"numaNodes is {self.numa_nodes}, so the last is {self.numa_nodes - 1}"
                yield f"{where}: there is no NUMA node {expander.numa_node}: {limit_text}"
            for label, device in earlier_devices:
                if (
                    device.host_bridge == expander.host_bridge
                    and device.numa_node != expander.numa_node
                ):
                    pair_label, bridge = f"{label} and {where}", expander.host_bridge
                    yield f"{pair_label} are on host bridge {bridge}, but on different NUMA nodes"
            earlier_devices.append((where, expander))

    @property
    def text(self) -> str:
        """Return the topology as one line, for `vgpu_sim.perf.topology.custom`."""
        parts = [f"numa={self.numa_nodes}", f"nvlinks={self.nvlinks}"]
        parts += ["switched"] if self.nvswitch else []
        parts.append(f"gpus={','.join(map(str, self.gpus))}")
        for field, devices in (("hcas", self.hcas), ("nvmes", self.nvmes), ("cxls", self.cxls)):
            parts += [f"{field}={','.join(map(str, devices))}"] if devices else []
        return f"custom:{';'.join(parts)}"


def _name_devices(field: str, devices: Sequence[PCIDevice]) -> Iterator[tuple[str, PCIDevice]]:
    for index, device in enumerate(devices):
        yield f"{field}[{index}]", device
