"""Slices of GPUs as the kubelet gets them."""

import dataclasses
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from device_plugin.cdi import spec
from device_plugin.dp import offer
from device_plugin.inventory.model import Gpu, MigSlice
from device_plugin.proto import deviceplugin_pb2 as pb
from mig import planner
from mig.errors import MigError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SliceOffer:
    """A resource's slices at one moment, with the GPUs they lie on.

    ``withdrawn`` are not listed any more, but an allocation that is under way may still have them.
    """

    slices: tuple[MigSlice, ...]
    gpus: tuple[Gpu, ...]
    libraries_dir: str
    withdrawn: tuple[MigSlice, ...] = ()
    prefix: str = "gpu.tessera.dev"
    numa_nodes: int = 1

    @property
    def noun(self) -> str:
        return "slice"

    def devices(self) -> list[pb.Device]:
        """Return the list that the kubelet gets."""
        healthy = {gpu.uuid: gpu.health == offer.HEALTHY for gpu in self.gpus}
        roots = {gpu.uuid: gpu.index for gpu in self.gpus}
        return [
            offer.device(
                s.uuid, healthy.get(s.gpu_uuid, False), roots.get(s.gpu_uuid, 0), self.numa_nodes
            )
            for s in self.slices
        ]

    def known(self) -> Collection[str]:
        """Return what may be allocated."""
        return {s.uuid for s in (*self.slices, *self.withdrawn)}

    def problem(self, ids: Sequence[str]) -> str:
        """A container may have as many as it likes."""
        del ids
        return ""

    def container(self, ids: Sequence[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        """Describe how slices get into a container."""
        known = {s.uuid: s for s in (*self.slices, *self.withdrawn)}
        slices = [known[uuid] for uuid in ids]
        mounts = [*(spec.slice_mount(s) for s in slices), *spec.library_mounts(self.libraries_dir)]
        return offer.given(use_cdi, (spec.device_name(self.prefix, s) for s in slices), mounts)

    def unhealthy(self, message: str) -> "SliceOffer":
        """Return the same on GPUs that are all unhealthy."""
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

        GPUs that are already in use are filled first; within a GPU the planner decides. An answer
        that cannot be given (the kubelet's view is newer than ours) is the kubelet's own order.
        """
        del under_way
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
            wanted = min(len(fixed) + missing, len(free))
            names = {s.instance: s.uuid for s in free}
            try:
                picked = planner.preferred(
                    gpu.board,
                    [s.instance for s in gpu.slices],
                    [s.instance for s in free],
                    [s.instance for s in fixed],
                    wanted,
                )
            except MigError as err:
                _log.warning("no preference on %s: %s", gpu.uuid, err)
                return list(available)[:size]
            chosen += [names[i] for i in picked if names[i] not in chosen]
        return chosen[:size]

    def _fullest_first(self, available: Sequence[str]) -> list[Gpu]:
        free = set(available)
        return sorted(
            self.gpus, key=lambda gpu: (-sum(s.uuid not in free for s in gpu.slices), gpu.index)
        )
