"""Slices of GPUs as devices of the kubelet."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from device_plugin.cdi import nvidia, spec
from device_plugin.cdi.spec import Mount
from device_plugin.dp import offer
from device_plugin.inventory.model import (
    Gpu,
    MigSlice,
    is_share,
    replica,
    slice_uuid_of,
)
from device_plugin.proto import deviceplugin_pb2 as pb
from facts.health import is_in_service
from gpu_operator.api.v1alpha1.sharing import Shared
from mig import planner
from mig.errors import MigError
from vgpu_sim.records import dataclass

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SliceOffer:
    """A resource's slices at one moment, and their GPUs.

    ``withdrawn`` are slices that are no longer listed; an allocation in progress may still name
    them. ``leaving`` has the UUIDs of slices that will be withdrawn soon. They are allocated only
    if the other slices do not suffice. ``shared`` has, by UUID, the slices that are listed several
    times, once for each container that may share them.

    After the number of a slice's shares was reduced, a pod may hold an id beyond the new number.
    ``left_over`` then has all ids of this slice that pods hold. On the list, these ids replace free
    ids, so the list never has more ids of the slice than the slice has shares.
    """

    slices: tuple[MigSlice, ...]
    gpus: tuple[Gpu, ...]
    libraries_dir: str
    withdrawn: tuple[MigSlice, ...] = ()
    prefix: str = "gpu.tessera.dev"
    numa_nodes: int = 1
    programs: tuple[Mount, ...] = ()
    shared: Mapping[str, Shared] = field(default_factory=dict)
    stays_registered: bool = False
    leaving: frozenset[str] = frozenset()
    left_over: frozenset[str] = frozenset()
    pytorch: bool = False

    @property
    def noun(self) -> str:
        return "slice"

    def devices(self) -> list[pb.Device]:
        """Return the list of slices that is sent to the kubelet."""
        healthy = {gpu.uuid: is_in_service(gpu.health) for gpu in self.gpus}
        roots = {gpu.uuid: gpu.root for gpu in self.gpus}
        return [
            offer.device(
                device,
                healthy.get(s.gpu_uuid, False) and is_in_service(s.health),
                roots.get(s.gpu_uuid, 0),
                self.numa_nodes,
            )
            for s in self.slices
            for device in self._ids(s)
        ]

    def _ids(self, s: MigSlice) -> list[str]:
        sharing = self.shared.get(s.uuid)
        if sharing is None:
            return [s.uuid]
        held_ids = sorted(device for device in self.left_over if slice_uuid_of(device) == s.uuid)
        free = (device for device in replicas(s.uuid, sharing) if device not in self.left_over)
        return sorted([*held_ids, *free][: sharing.replicas])

    def allocatable_ids(self) -> Collection[str]:
        """Return the ids that may be allocated.

        They include free ids that are not on the list because left-over ids took their places.
        """
        all_slices = (*self.slices, *self.withdrawn)
        spare = (replicas(s.uuid, self.shared[s.uuid]) for s in all_slices if s.uuid in self.shared)
        return {device for s in all_slices for device in self._ids(s)}.union(*spare)

    def problem(self, ids: Sequence[str]) -> str:
        """Return why a container cannot have these devices; empty if it can.

        A pool may limit each container to one share. If a container requests more, the result is
        the message that NVIDIA's device plugin uses.
        """
        shared = [self.shared.get(slice_uuid_of(device)) for device in ids]
        if len(ids) > 1 and any(
            sharing is not None and sharing.fail_greater_than_one for sharing in shared
        ):
            return (
                f"invalid request: maximum request size for shared resources is 1; found {len(ids)}"
            )
        return ""

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        """Return the mounts or CDI devices with which a container gets the slices."""
        slices_by_uuid = {s.uuid: s for s in (*self.slices, *self.withdrawn)}
        slices = [slices_by_uuid[uuid] for uuid in dict.fromkeys(map(slice_uuid_of, ids))]
        mounts = [*(spec.slice_mount(s) for s in slices), *spec.library_mounts(self.libraries_dir)]
        mounts += self.programs
        names = (spec.device_name(self.prefix, s) for s in slices)
        response = offer.make_response(use_cdi, names, mounts)
        response.envs.update(spec.environment(pytorch=self.pytorch))
        if self.prefix == nvidia.PREFIX:
            response.envs.update(nvidia.environment(slices))
        return response

    def as_unhealthy(self, message: str) -> "SliceOffer":
        """Return the same offer with all GPUs unhealthy."""
        gpus = tuple(dataclasses.replace(gpu, health=message) for gpu in self.gpus)
        return dataclasses.replace(self, gpus=gpus)

    def prefer(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        under_way: Sequence[str],
    ) -> list[str]:
        """Choose ``size`` device ids so that the largest placements stay free.

        GPUs that are already in use are filled first. Within a GPU, the planner chooses the
        slices. The kubelet's list may be newer than the planner's data, so that the planner
        cannot choose; then the first ids in the kubelet's order are used.
        """
        del under_way
        needed = set(must_include)
        lasting = [d for d in available if slice_uuid_of(d) not in self.leaving or d in needed]
        if len(lasting) >= size:
            available = lasting
        if self.shared:
            return self._spread(available, must_include, size)
        by_uuid = {s.uuid: s for s in self.slices}
        chosen = [device for device in must_include if device in by_uuid]
        for gpu in self._fullest_first(available):
            missing = size - len(chosen)
            if missing <= 0:
                break
            free = [
                by_uuid[d] for d in available if d in by_uuid and by_uuid[d].gpu_uuid == gpu.uuid
            ]
            fixed = [s for s in free if s.uuid in chosen]
            preferred_count = min(len(fixed) + missing, len(free))
            names = {s.instance: s.uuid for s in free}
            try:
                picked = planner.choose_preferred(
                    gpu.board,
                    [s.instance for s in gpu.slices],
                    [s.instance for s in free],
                    [s.instance for s in fixed],
                    preferred_count,
                )
            except MigError as err:
                _log.warning("no preference on %s: %s", gpu.uuid, err)
                return list(available)[:size]
            chosen += [names[i] for i in picked if names[i] not in chosen]
        return chosen[:size]

    def _spread(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> list[str]:
        """Choose shares of the slices that have the most shares left.

        NVIDIA's plugin calls this "distributed". A slice that more pods hold than it has shares
        gets no new pod until enough of them have ended. Free ids are chosen before ids whose pod
        may still exist.
        """
        chosen = list(must_include)
        remaining_shares = self._left(available)
        remaining_shares.subtract(map(slice_uuid_of, chosen))
        free = [device for device in available if device not in chosen]
        while free and len(chosen) < size:
            best = max(
                free, key=lambda d: (remaining_shares[slice_uuid_of(d)], d not in self.left_over)
            )
            free.remove(best)
            chosen.append(best)
            remaining_shares[slice_uuid_of(best)] -= 1
        return chosen[:size]

    def _left(self, available: Sequence[str]) -> Counter[str]:
        """Return how many more containers each slice may have, given the available ids."""
        free, remaining_shares = set(available), Counter(map(slice_uuid_of, available))
        for s in self.slices:
            held_ids = {device for device in self.left_over if slice_uuid_of(device) == s.uuid}
            if held_ids and (shared := self.shared.get(s.uuid)) is not None:
                remaining_shares[s.uuid] = shared.replicas - len(
                    (held_ids | set(self._ids(s))) - free
                )
        return remaining_shares

    def _fullest_first(self, available: Sequence[str]) -> list[Gpu]:
        free = set(available)
        return sorted(
            self.gpus, key=lambda gpu: (-sum(s.uuid not in free for s in gpu.slices), gpu.index)
        )


def replicas(uuid: str, shared: Shared) -> list[str]:
    """Return the device ids of all shares of a slice."""
    return [replica(uuid, number) for number in range(shared.replicas)]


def left_over_ids(shared: Mapping[str, Shared], held_ids: Collection[str]) -> frozenset[str]:
    """Return the held ids of all slices that have a held id beyond their number of shares.

    The result has all ids of such a slice that pods hold, including those within the number of
    shares.
    """
    ids = {device: slice_uuid_of(device) for device in held_ids if is_share(device)}
    ids = {device: uuid for device, uuid in ids.items() if uuid in shared}
    fewer = {uuid for device, uuid in ids.items() if device not in replicas(uuid, shared[uuid])}
    return frozenset(device for device, uuid in ids.items() if uuid in fewer)
