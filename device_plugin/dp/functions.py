"""HCA functions as devices of the kubelet."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from device_plugin.cdi import hca
from device_plugin.dp import offer
from device_plugin.inventory.functions import HcaFunction
from device_plugin.proto import deviceplugin_pb2 as pb
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class FunctionOffer:
    """Offers the node's HCA functions to the kubelet as devices.

    ``roots`` has, by the UUID of each slice, the number of its GPU's PCIe root.
    """

    functions: tuple[HcaFunction, ...]
    libraries_dir: str
    healthy: bool = True
    roots: Mapping[str, int] = field(default_factory=dict)
    numa_nodes: int = 1

    @property
    def noun(self) -> str:
        return "function"

    @property
    def stays_registered(self) -> bool:
        return False

    def devices(self) -> list[pb.Device]:
        """Return the list of functions that is sent to the kubelet."""
        return [
            offer.device(function.id, self.healthy, function.hca, self.numa_nodes)
            for function in self.functions
        ]

    def allocatable_ids(self) -> Collection[str]:
        """Return the ids of the functions that may be allocated."""
        return {function.id for function in self.functions}

    def problem(self, ids: Sequence[str]) -> str:
        """Return why a container cannot have these functions; empty if it can.

        A container can have only one function: libibverbs shows one device, and /sys/class is
        mounted once.
        """
        if len(ids) <= 1:
            return ""
        return f"a container can have one HCA function, and not {len(ids)}"

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        """Return the mounts or CDI devices with which a container gets the function."""
        chosen = [function for function in self.functions if function.id in ids]
        mounts = [m for function in chosen for m in hca.function_mounts(function)]
        mounts += hca.library_mounts(self.libraries_dir)
        return offer.make_response(use_cdi, map(hca.device_name, chosen), mounts)

    def as_unhealthy(self, message: str) -> "FunctionOffer":
        """Return the same offer with all functions unhealthy."""
        del message
        return dataclasses.replace(self, healthy=False)

    def prefer(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        under_way: Sequence[str],
    ) -> list[str]:
        """Choose functions below the PCIe root of the slice that was allocated last.

        The kubelet's request does not name the pod, but the kubelet admits one pod at a time. So
        a slice that is allocated but not listed with a pod yet belongs to this pod. If there are
        several such slices, the newest is used. If there is none, functions of the HCA with the
        most free functions are chosen.
        """
        order = {function.id: place for place, function in enumerate(self.functions)}
        hca_of = {function.id: function.hca for function in self.functions}
        free = Counter(hca_of[name] for name in available if name in hca_of)
        hcas = sorted(set(hca_of.values()))
        pcie_root = next((self.roots[uuid] for uuid in under_way if uuid in self.roots), None)
        near_hca = hcas[pcie_root % len(hcas)] if pcie_root is not None and hcas else None
        fixed = [name for name in must_include if name in order]
        other_ids = sorted(
            (name for name in available if name in order and name not in fixed),
            key=lambda name: (hca_of[name] != near_hca, -free[hca_of[name]], order[name]),
        )
        return [*fixed, *other_ids][:size]
