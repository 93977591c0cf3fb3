"""The kubelets of many nodes, as far as an agent and the scheduler use them.

Each accepts its agent's offers, reports which pods hold slices, and writes offered devices to
its node's status, as kubelets do, at most every ten seconds, at different times.
"""

import random
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from device_plugin.dp.offer import Offer
from device_plugin.dp.slices import SliceOffer
from device_plugin.inventory.model import HolderPod
from device_plugin.podresources.client import Listing

STATUS_S = 10.0  # nodeStatusUpdateFrequency
_REPEATED_S = 45.0  # a kubelet compares with the current node: the operator lowers allocatable
OWN_POD = "agent"


class NodeKubelet:
    """The kubelet of one node. ``KubeletSide`` and ``PodResources`` for its agent; thread-safe
    (``_lock``).
    """

    def __init__(self, node: str, pod_lasts_s: float) -> None:
        self.node = node
        self._lasts_s = pod_lasts_s
        self._lock = threading.Lock()
        self._offers: dict[str, SliceOffer] = {}
        self._held: dict[str, tuple[str, HolderPod]] = {}  # by slice: resource, pod
        self._ends_at: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._reported: dict[str, int] = {}
        self._until = float("-inf")
        self._due_at = time.monotonic() + random.uniform(0, STATUS_S)

    def list(self) -> Listing:
        """List pod resources; pods that were ended are removed when their time is up."""
        now_s = time.monotonic()
        with self._lock:
            for uuid in [u for u, at in self._ends_at.items() if at <= now_s]:
                self._held.pop(uuid, None)
                del self._ends_at[uuid]
            return Listing(
                {uuid: (pod,) for uuid, (_, pod) in self._held.items()},
                {uuid: resource for uuid, (resource, _) in self._held.items()},
                frozenset({OWN_POD, *(pod.name for _, pod in self._held.values())}),
            )

    def hold(self, on_each_gpu: int = 1) -> int:
        """Assign the first slices of each GPU to pods; return how many were assigned."""
        with self._lock:
            start_count = len(self._held)
            slices_per_gpu: dict[str, int] = {}
            for resource, offer in self._offers.items():
                for gpu_slice in offer.slices:
                    if (
                        slices_per_gpu.get(gpu_slice.gpu_uuid, 0) < on_each_gpu
                        and gpu_slice.uuid not in self._held
                    ):
                        slices_per_gpu[gpu_slice.gpu_uuid] = (
                            slices_per_gpu.get(gpu_slice.gpu_uuid, 0) + 1
                        )
                        name = f"pod-{gpu_slice.uuid.lower()}"
                        pod = HolderPod("bench", name, f"uid-{name}")
                        self._held[gpu_slice.uuid] = resource, pod
            return len(self._held) - start_count

    def free(self) -> None:
        """End all pods."""
        with self._lock:
            self._held.clear()
            self._ends_at.clear()

    def status(self, now_s: float) -> dict[str, Any] | None:
        """Return the patch of the node's status that is due, or None."""
        with self._lock:
            if self._counts != self._reported:
                self._reported, self._until = dict(self._counts), now_s + _REPEATED_S
            if now_s < self._due_at or now_s > self._until:
                return None
            self._due_at = now_s + STATUS_S
            figures = {name: str(count) for name, count in self._reported.items()}
        return {"status": {"capacity": figures, "allocatable": figures}}

    def update(self, offers: Mapping[str, Offer]) -> None:
        with self._lock:
            self._offers = {n: o for n, o in offers.items() if isinstance(o, SliceOffer)}
            counts = {name: len(offer.devices()) for name, offer in self._offers.items()}
            self._counts = dict.fromkeys(self._counts, 0) | counts
            for offer in self._offers.values():
                for gpu_slice in offer.withdrawn:
                    if gpu_slice.uuid in self._held:
                        self._ends_at.setdefault(gpu_slice.uuid, time.monotonic() + self._lasts_s)

    def connected_resources(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._offers)

    def confirm_listed(self, uuids: Collection[str]) -> None: ...
    def keep_only(self, uuids: Collection[str]) -> None: ...
    def allow(self, uuid: str) -> None: ...
    def report_claim_health(self, healths: Mapping[str, str]) -> None: ...

    def forbid(self, uuid: str) -> bool:
        with self._lock:
            return uuid not in self._held

    def has_pending(self) -> bool:
        return False

    def all_ours(self, held: Collection[str]) -> bool:
        return True
