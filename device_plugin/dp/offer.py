"""What a resource offers at one moment: slices of a GPU, or functions of an HCA."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

from device_plugin.cdi.spec import Mount
from device_plugin.proto import deviceplugin_pb2 as pb

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


class Offer(Protocol):
    """A list for the kubelet, and what it means to give some of it away. Values; picklable."""

    @property
    def noun(self) -> str:
        """Return what one of these is called."""

    @property
    def keep(self) -> bool:
        """Return whether the resource stays registered without devices."""

    def devices(self) -> list[pb.Device]:
        """Return the list that the kubelet gets."""

    def known(self) -> Collection[str]:
        """Return what may be allocated: also what has just been taken off the list."""

    def prefer(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        under_way: Sequence[str],
    ) -> list[str]:
        """Choose ``size`` device ids; ``under_way`` are on their way to pods, the newest first."""

    def problem(self, ids: Sequence[str]) -> str:
        """Say why a container cannot have all of these together; empty: it can."""

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        """Describe how they get into a container."""

    def unhealthy(self, message: str) -> Self:
        """Return the same, none of it healthy."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """An empty list."""

    noun: str = "device"
    keep: bool = False

    def devices(self) -> list[pb.Device]:
        return []

    def known(self) -> Collection[str]:
        return ()

    def prefer(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        under_way: Sequence[str],
    ) -> list[str]:
        del must_include, under_way
        return list(available)[:size]

    def problem(self, ids: Sequence[str]) -> str:
        del ids
        return ""

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        del ids, use_cdi
        return pb.ContainerAllocateResponse()

    def unhealthy(self, message: str) -> "Nothing":
        del message
        return self


KEPT: Final = Nothing(keep=True)
"""What a resource has of which claims serve the devices.

Five minutes after a plugin is gone the kubelet fails every pod of a resource that a DeviceClass
serves now, if it ever had one of the plugin's (Kubernetes 1.36, "endpoint not found in cache").
"""


def device(uuid: str, healthy: bool, root: int, nodes: int) -> pb.Device:
    """Return an entry of the list; ``root`` is the simulated PCIe root that the device is below.

    The kubelet's topology manager aligns what lies on one NUMA node. Roots are dealt out to the
    ``nodes`` NUMA nodes that the machine really has: it refuses nodes that do not exist.
    """
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=root % nodes)]) if nodes > 1 else None
    return pb.Device(ID=uuid, health=HEALTHY if healthy else UNHEALTHY, topology=topology)


def given(
    use_cdi: bool, names: Iterable[str], mounts: Iterable[Mount]
) -> pb.ContainerAllocateResponse:
    """Return the kubelet's answer: CDI devices by name, or the same as mounts."""
    response = pb.ContainerAllocateResponse()
    if use_cdi:
        for name in names:
            response.cdi_devices.add(name=name)
        return response
    for mount in mounts:
        response.mounts.add(
            host_path=mount.host_path, container_path=mount.container_path, read_only=True
        )
    return response
