"""How a node's GPUs lie to each other: a name, or a description of one's own (ADR 92)."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Final, Self

from pydantic import Field, model_validator

from gpu_operator.api.v1alpha1.base import Model

_NVSWITCH_BUS: Final = "05"
_MESH: Final = 4


class Topology(StrEnum):
    """How a node's GPUs lie to each other; names of `vgpu_sim.perf.topology`'s presets."""

    FLAT = "flat"  # each below a host bridge of its own, no NVLink
    DGX_A100 = "dgx-a100"
    DGX_H100 = "dgx-h100"
    DGX_B200 = "dgx-b200"
    HGX_4 = "hgx-4"
    PCIE_2_SOCKET = "pcie-2-socket"


class PCIDevice(Model):
    """Where a GPU or an HCA is."""

    bus: str = Field(
        pattern=r"^[0-9a-f]{2}$",
        description="PCI bus, two hexadecimal digits such as 1b; the device is alone on it.",
    )
    numa_node: int = Field(default=0, ge=0, le=15, description="NUMA node that it is nearest to.")
    host_bridge: int = Field(
        ge=0, le=255, description="Number of its host bridge; the same number is the same bridge."
    )
    switch: int = Field(
        ge=0, le=255, description="Number of its PCIe switch; the same number is the same switch."
    )

    def __str__(self) -> str:
        return f"{self.bus}.{self.numa_node}.{self.host_bridge}.{self.switch}"


class CustomTopology(Model):
    """A node that no preset describes."""

    numa_nodes: int = Field(
        default=1, ge=1, le=16, description="NUMA nodes; one without devices may be memory alone."
    )
    gpus: tuple[PCIDevice, ...] = Field(
        min_length=1, max_length=8, description="Places: GPU i of a node has the i-th."
    )
    hcas: tuple[PCIDevice, ...] = Field(
        default=(), max_length=8, description="Places of network adapters, likewise."
    )
    nvlinks: int = Field(default=0, ge=0, le=18, description="NVLinks of each GPU; 0: none.")
    nvswitch: bool = Field(
        default=False,
        description="NVLinks lead to NVSwitches. Else they join four GPUs, each to all others "
        "alike.",
    )

    @model_validator(mode="after")
    def _is_a_machine(self) -> Self:
        problem = next(self._problems(), "")
        if problem:
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        named = [*_named("gpus", self.gpus), *_named("hcas", self.hcas)]
        for where, one in named:
            if one.bus == "00" or (self.nvswitch and one.bus == _NVSWITCH_BUS):
                owner = "the host bridge's" if one.bus == "00" else "the NVSwitches'"
                yield f"{where}: bus {one.bus} is {owner}"
            if one.numa_node >= self.numa_nodes:
                known = f"numaNodes is {self.numa_nodes}, so the last is {self.numa_nodes - 1}"
                yield f"{where}: there is no NUMA node {one.numa_node}: {known}"
        for (first, a), (second, b) in combinations(named, 2):
            both = f"{first} and {second}"
            if a.bus == b.bus:
                yield f"{both} are on one bus, {a.bus}"
            if a.host_bridge == b.host_bridge and a.numa_node != b.numa_node:
                yield f"{both} are below host bridge {a.host_bridge}, but on two NUMA nodes"
            if a.switch == b.switch and a.host_bridge != b.host_bridge:
                yield f"{both} are below PCIe switch {a.switch}, but below two host bridges"
        if self.nvswitch and not self.nvlinks:
            yield "nvswitch: without nvlinks nothing leads to an NVSwitch"
        if self.nvlinks and not self.nvswitch and len(self.gpus) != _MESH:
            yield f"nvlinks: without nvswitch they join {_MESH} GPUs, not {len(self.gpus)}"
        if self.nvlinks and not self.nvswitch and self.nvlinks % (_MESH - 1):
            yield f"nvlinks: {self.nvlinks} cannot be divided evenly among {_MESH - 1} other GPUs"

    @property
    def text(self) -> str:
        """Return it as one line, as `vgpu_sim.perf.topology.custom` reads it."""
        parts = [f"numa={self.numa_nodes}", f"nvlinks={self.nvlinks}"]
        parts += ["switched"] if self.nvswitch else []
        parts.append(f"gpus={','.join(map(str, self.gpus))}")
        parts += [f"hcas={','.join(map(str, self.hcas))}"] if self.hcas else []
        return f"custom:{';'.join(parts)}"


def _named(field: str, devices: Sequence[PCIDevice]) -> Iterator[tuple[str, PCIDevice]]:
    for index, one in enumerate(devices):
        yield f"{field}[{index}]", one
