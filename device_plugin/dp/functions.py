"""Functions of HCAs as the kubelet gets them."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.cdi import hca
from device_plugin.dp import offer
from device_plugin.inventory.functions import HcaFunction
from device_plugin.proto import deviceplugin_pb2 as pb


@dataclass(frozen=True, slots=True)
class FunctionOffer:
    """The node's functions. ``roots`` has the simulated PCIe root of each slice, by its UUID."""

    functions: tuple[HcaFunction, ...]
    libraries_dir: str
    healthy: bool = True
    roots: Mapping[str, int] = field(default_factory=dict)
    numa_nodes: int = 1

    @property
    def noun(self) -> str:
        return "function"

    @property
    def keep(self) -> bool:
        return False

    def devices(self) -> list[pb.Device]:
        """Return the list that the kubelet gets."""
        return [
            offer.device(one.id, self.healthy, one.hca, self.numa_nodes) for one in self.functions
        ]

    def known(self) -> Collection[str]:
        """Return what may be allocated."""
        return {one.id for one in self.functions}

    def problem(self, ids: Sequence[str]) -> str:
        """A container has one: libibverbs shows one device, and /sys/class is mounted once."""
        if len(ids) <= 1:
            return ""
        return f"a container can have one HCA function, and not {len(ids)}"

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        """Describe how a function gets into a container."""
        chosen = [one for one in self.functions if one.id in ids]
        mounts = [m for one in chosen for m in hca.function_mounts(one)]
        mounts += hca.library_mounts(self.libraries_dir)
        return offer.given(use_cdi, map(hca.device_name, chosen), mounts)

    def unhealthy(self, message: str) -> "FunctionOffer":
        """Return the same, unhealthy."""
        del message
        return dataclasses.replace(self, healthy=False)

    def prefer(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        under_way: Sequence[str],
    ) -> list[str]:
        """Choose functions below the PCIe root of the slice that was given away last.

        The kubelet does not say for which pod it asks. It admits one pod at a time, so a slice that
        is on its way to a pod which is not listed yet is, newest first, this pod's. Without one
        the HCA with the most free functions is preferred.
        """
        order = {one.id: place for place, one in enumerate(self.functions)}
        hca_of = {one.id: one.hca for one in self.functions}
        free = Counter(hca_of[name] for name in available if name in hca_of)
        hcas = sorted(set(hca_of.values()))
        wanted = next((self.roots[uuid] for uuid in under_way if uuid in self.roots), None)
        near = hcas[wanted % len(hcas)] if wanted is not None and hcas else None
        fixed = [name for name in must_include if name in order]
        others = sorted(
            (name for name in available if name in order and name not in fixed),
            key=lambda name: (hca_of[name] != near, -free[hca_of[name]], order[name]),
        )
        return [*fixed, *others][:size]
