"""The offer of a resource at one moment: slices of a GPU, or functions of an HCA."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol, Self

from device_plugin.cdi.spec import Mount
from device_plugin.proto import deviceplugin_pb2 as pb
from vgpu_sim.records import dataclass

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


class Offer(Protocol):
    """What a resource offers to the kubelet: a list of devices, and the rules for allocating them.

    Immutable and picklable.
    """

    @property
    def noun(self) -> str:
        """Return the noun with which messages name one device."""

    @property
    def stays_registered(self) -> bool:
        """Return whether the resource stays registered when it has no devices."""

    def devices(self) -> list[pb.Device]:
        """Return the list of devices that is sent to the kubelet."""

    def allocatable_ids(self) -> Collection[str]:
        """Return the device ids that may be allocated, including ids that have just left the
        list.
        """

    def prefer(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        under_way: Sequence[str],
    ) -> list[str]:
        """Choose ``size`` of the available device ids for the kubelet's next allocation.

        ``under_way`` are the ids of new allocations, the newest first.
        """

    def problem(self, ids: Sequence[str]) -> str:
        """Return why a container cannot have all of these devices together; empty if it can."""

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        """Return the mounts or CDI devices with which a container gets the devices."""

    def as_unhealthy(self, message: str) -> Self:
        """Return the same offer with all devices unhealthy."""


@dataclass(frozen=True, slots=True)
class EmptyOffer:
    """The offer of a resource without devices."""

    noun: str = "device"
    stays_registered: bool = False

    def devices(self) -> list[pb.Device]:
        return []

    def allocatable_ids(self) -> Collection[str]:
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

    def as_unhealthy(self, message: str) -> "EmptyOffer":
        del message
        return self


CLAIM_SERVED: Final = EmptyOffer(stays_registered=True)
"""The offer of a resource whose devices are served to claims.

It stays registered because, five minutes after a plugin is gone, the kubelet fails every pod
with a resource that the plugin ever served and a DeviceClass now serves (Kubernetes 1.36,
"endpoint not found in cache").
"""


def device(uuid: str, healthy: bool, root: int, nodes: int) -> pb.Device:
    """Return a device as an entry of the kubelet's list.

    ``root`` is the device's simulated PCIe root. ``nodes`` is the number of NUMA nodes that the
    machine has. The entry names one of these NUMA nodes, chosen by ``root``, because the kubelet's
    topology manager aligns devices of one NUMA node. The kubelet refuses NUMA nodes that do not
    exist.
    """
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=root % nodes)]) if nodes > 1 else None
    return pb.Device(ID=uuid, health=HEALTHY if healthy else UNHEALTHY, topology=topology)


def make_response(
    use_cdi: bool, names: Iterable[str], mounts: Iterable[Mount]
) -> pb.ContainerAllocateResponse:
    """Return the answer to Allocate: CDI devices by name, or the equivalent mounts."""
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
