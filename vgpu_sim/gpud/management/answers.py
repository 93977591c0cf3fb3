"""Answers NVML requests: a slice's socket shows the holder's view, and gpud's own socket shows
everything.

A process that can open a slice's socket need not be the slice's holder, because any pod can name
a CDI device. Strangers, and holders that have not been reported to gpud yet, see a device
without processes. A slice's holder cannot change anything: instances are created and destroyed
on the management socket alone, by the rules of the administration socket
(``devices.inventory``).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol

from vgpu_sim.gpud.management import processes, records
from vgpu_sim.gpud.management.records import Process, View
from vgpu_sim.gpud.model import Gpu, InstanceUuid, MigInstance
from vgpu_sim.gpud.slices.management import Ask, encode
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import ManagementOperation as Operation, NvmlReturn, ReportFlag
from vgpu_sim.system.admin_socket.errors import (
    Conflict,
    InUse,
    InvalidRequest,
    NotFound,
    RequestError,
)
from vgpu_sim.system.peers import Peer, PodUid

logger = logging.getLogger("tessera.gpud")

_NS_PER_US: Final = 1000
_STATUSES: Final = {
    InUse: NvmlReturn.IN_USE,
    Conflict: NvmlReturn.INSUFFICIENT_RESOURCES,
    InvalidRequest: NvmlReturn.INVALID_ARGUMENT,
    NotFound: NvmlReturn.INVALID_ARGUMENT,
}


class Node(Protocol):
    """The interface through which NVML requests read the node's GPUs and change instances and MIG
    modes.
    """

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the node's GPUs, ordered by index."""

    def describe_gpu(self, gpu: Gpu, only: MigInstance | None = None) -> admin.Gpu:
        """Return a GPU as the inventory shows it, with all its instances or only with ``only``."""

    def reserved_bytes(self, uuid: str) -> int:
        """Return the memory that an instance neither uses nor can allocate now."""

    async def change(self, ask: Ask) -> MigInstance | None:
        """Perform the requested change: create or destroy an instance, or set a GPU's MIG mode.
        Return the created instance, if any. Raises RequestError.
        """

    def remaining(self, ask: Ask) -> int:
        """Return how many more instances of the requested profile fit. Raises RequestError."""


class Management:
    """Answers NVML requests. ``pod_of`` returns the pod of a process, None for a process in no pod.

    ``holds`` returns whether a pod holds an instance.
    """

    def __init__(
        self,
        node: Node,
        standalone: bool,
        pod_of: Callable[[int], PodUid | None],
        holds: Callable[[InstanceUuid, PodUid], bool],
    ) -> None:
        self._node = node
        self._standalone = standalone
        self._pod_of = pod_of
        self._holds = holds

    async def answer_slice_request(
        self, instance: MigInstance, ask: Ask, peer: Peer, sender: Peer | None
    ) -> bytes:
        """Return the reply to a request from a program that uses a slice's socket. The reply
        describes only that slice, and only the requesting program's own processes.
        """
        if not ask.speaks:
            return encode(ask, NvmlReturn.ARGUMENT_VERSION_MISMATCH)
        if ask.operation != Operation.REPORT:
            return encode(ask, NvmlReturn.NO_PERMISSION)
        pod: PodUid | None = PodUid("")
        if not self._standalone:
            # Off the loop: the kernel locks these files while it moves processes between control
            # groups.
            pod = await asyncio.to_thread(self._requesting_pod, peer, sender)
        # Without ``only``, the contexts of other slices would be listed too, which takes time.
        gpu = self._node.describe_gpu(instance.gpu, only=instance)
        mine = tuple(
            listed_instance
            for listed_instance in gpu.instances
            if listed_instance.uuid == instance.uuid
        )
        if pod is None or not (self._standalone or self._holds(instance.uuid, pod)):
            mine = tuple(
                replace(listed_instance, memory_used_bytes=0, shared_used_bytes=0, contexts=())
                for listed_instance in mine
            )
            return self._report(ask, View((replace(gpu, instances=mine, xids=()),), stranger=True))
        own_processes: dict[str, list[Process]] = {}
        if any(listed_instance.contexts for listed_instance in mine):
            own_processes = await asyncio.to_thread(self._own_processes, mine, peer, pod)
        return self._report(ask, View((replace(gpu, instances=mine),), processes=own_processes))

    async def answer_node_request(self, ask: Ask) -> bytes:
        """Return the reply to a request from the node's administrator. The reply describes all
        devices and processes of the node.
        """
        if not ask.speaks:
            return encode(ask, NvmlReturn.ARGUMENT_VERSION_MISMATCH)
        try:
            return await _OPERATIONS[ask.operation](self, ask)
        except RequestError as err:
            status = _STATUSES.get(type(err), NvmlReturn.UNKNOWN)
            logger.info("management_refused operation=%s reason=%r", ask.operation.name, str(err))
            return encode(ask, status)

    async def _everything(self, ask: Ask) -> bytes:
        gpus = tuple(self._node.describe_gpu(gpu) for gpu in self._node.gpus())
        processes_by_uuid = {
            instance.uuid: processes.as_seen_on_node(instance.contexts)
            for g in gpus
            for instance in g.instances
        }
        return self._report(ask, View(gpus, node=True, processes=processes_by_uuid))

    async def _change(self, ask: Ask) -> bytes:
        instance = await self._node.change(ask)
        head = records.new_report(True)
        if instance is not None:
            head.uuid[:] = records.uuid_bytes(instance.uuid)
        return encode(ask, NvmlReturn.SUCCESS, bytes(head))

    async def _remaining(self, ask: Ask) -> bytes:
        head = records.new_report(True)
        head.remaining = self._node.remaining(ask)
        return encode(ask, NvmlReturn.SUCCESS, bytes(head))

    def _report(self, ask: Ask, view: View) -> bytes:
        sampled_us = time.time_ns() // _NS_PER_US
        with_profiles = bool(ask.mode & ReportFlag.PROFILES)
        if ask.mode & ReportFlag.RESERVED:
            visible_instances = (
                ()
                if view.stranger
                else (instance for gpu in view.gpus for instance in gpu.instances)
            )
            reserved = {
                instance.uuid: self._node.reserved_bytes(instance.uuid)
                for instance in visible_instances
            }
            view = replace(view, reserved=reserved)
        return encode(ask, NvmlReturn.SUCCESS, records.report(view, with_profiles, sampled_us))

    def _requesting_pod(self, peer: Peer, sender: Peer | None) -> PodUid | None:
        """Return the pod that sent a request, or None. Both the connecting and the sending process
        are checked, because a connected socket keeps the credentials of its connector.
        """
        pod = self._pod_of(peer.pid)
        return pod if sender is not None and self._pod_of(sender.pid) == pod else None

    @staticmethod
    def _own_processes(
        instances: tuple[admin.Instance, ...], peer: Peer, pod: PodUid
    ) -> dict[str, list[Process]]:
        return {
            instance.uuid: processes.as_seen_in_container(instance.contexts, peer, pod)
            for instance in instances
        }


_OPERATIONS: Final[dict[Operation, Callable[[Management, Ask], Awaitable[bytes]]]] = {
    Operation.REPORT: Management._everything,
    Operation.CREATE_GPU_INSTANCE: Management._change,
    Operation.DESTROY_GPU_INSTANCE: Management._change,
    Operation.CREATE_COMPUTE_INSTANCE: Management._change,
    Operation.DESTROY_COMPUTE_INSTANCE: Management._change,
    Operation.REMAINING_CAPACITY: Management._remaining,
    Operation.SET_MIG_MODE: Management._change,
}
