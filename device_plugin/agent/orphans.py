"""Health of slices made for ResourceClaims, and removal of those whose claims are gone.

The DRA driver (``dra.preparing``) creates and destroys a claim's slices when the kubelet calls
it. The kubelet does not always call it: it forgets claims when it loses its checkpoint, and does
not unprepare a claim that was never prepared completely. So a slice whose claim is deleted, or
allocated elsewhere, and which no pod has held for a while, is destroyed here, and an event
reports it.
"""

import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Never

from device_plugin.agent.holders import Holders
from device_plugin.agent.reporting.notices import Notices
from device_plugin.backends.gpud import Gpud
from device_plugin.cdi import claims as cdi
from device_plugin.errors import AgentError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.model import CLAIM, Gpu, Inventory, MigSlice
from device_plugin.kube.claims import Claim, ClaimsKube
from gpu_operator.api import claim_devices as names
from gpu_operator.api.v1alpha1.base import Reason

UNHELD_S = 30.0  # a slice is made before its pod is listed
ASK_AGAIN_S = 60.0  # while the claim still exists
_PERIOD_S = 5.0
_log = logging.getLogger(__name__)


def health_by_device(inventory: Inventory) -> dict[str, str]:
    """Return the health of each GPU, and of each slice that a claim has, by device name in DRA."""
    healths: dict[str, str] = {}
    for gpu in inventory.gpus:
        healths[names.Device(gpu.index).name] = gpu.health
        for s in gpu.claimed:
            sick = gpu.health if gpu.health != "Healthy" else s.health
            healths[_device(gpu, s)] = sick
    return healths


def _device(gpu: Gpu, s: MigSlice) -> str:
    if s.instance.profile.is_whole:
        return names.Device(gpu.index).name
    return names.Device(gpu.index, s.instance.profile.name, s.instance.start).name


class Orphans:
    """Removes slices whose claims no longer need them.

    The removal runs in a thread of its own, because the API server may be slow.
    """

    def __init__(
        self,
        gpud: Gpud,
        holders: Holders,
        kube: ClaimsKube,
        notices: Notices,
        pool: str,
        cdi_dir: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize; ``pool`` is the node's name."""
        self._pool = pool
        self._gpud = gpud
        self._holders = holders
        self._kube = kube
        self._notices = notices
        self._cdi_dir = cdi_dir
        self._clock = clock
        self._idle_since: dict[str, float] = {}
        self._queried_at: dict[str, float] = {}

    def run(self) -> Never:
        """Remove orphaned slices periodically, until the process ends."""
        while True:
            try:
                self.sweep()
            except (AgentError, OSError) as err:
                _log.warning("cannot remove slices of deleted claims: %s", err)
            time.sleep(_PERIOD_S)

    def sweep(self) -> None:
        """Destroy slices that their claims no longer need, and delete these claims' CDI files.

        Raises:
            AgentError: gpud or the API server did not answer.
            OSError: a CDI file cannot be removed.
        """
        inventory = self._gpud.inventory()
        view = self._holders.last_view()
        if not view.complete:  # the holders are not known yet
            self._idle_since.clear()
            return
        idle: dict[str, tuple[ClaimRef, str, Callable[[], str]]] = {}
        owners = {claim.owner for s in inventory.claimed_slices() for claim in s.claims}
        for ref in cdi.list_claims(self._cdi_dir):
            if CLAIM + ref.uid not in owners:  # a claim with admin access, or only its file is left
                idle[ref.uid] = ref, "", partial(self._remove_file, ref)
        for gpu in inventory.gpus:
            for s in gpu.claimed:
                pods = view.holders.get(s.uuid, ())
                for claim in s.claims:
                    is_held = any(not s.shares or pod.claim == claim.owner for pod in pods)
                    if not claim.contexts and not is_held:
                        namespace, _, name = claim.owner_name.partition("/")
                        ref = ClaimRef(namespace, name, claim.claim_uid)
                        key, device = f"{s.uuid}/{ref.uid}", _device(gpu, s)
                        idle[key] = ref, device, partial(self._take, gpu, s, ref)
        for ref, device, take in [idle[key] for key in self._due(idle)]:
            if why := _why_orphaned(self._claim(ref), ref, device, self._pool):
                message = f"{take()}: {why}"
                _log.warning("claim %s: %s", ref, message)
                self._notices.post_claim(ref, Reason.CLAIM_ORPHANED, message)

    def _due(self, idle: Collection[str]) -> list[str]:
        """Return the entries that have been idle for so long that their claim must be read now."""
        now_s = self._clock()
        self._idle_since = {key: self._idle_since.get(key, now_s) for key in idle}
        self._queried_at = {key: at for key, at in self._queried_at.items() if key in idle}
        long = [key for key, since in self._idle_since.items() if now_s - since >= UNHELD_S]
        due = [k for k in long if now_s - self._queried_at.get(k, float("-inf")) >= ASK_AGAIN_S]
        self._queried_at |= dict.fromkeys(due, now_s)
        return due

    def _claim(self, ref: ClaimRef) -> Claim | None:
        claim = self._kube.claim(ref.namespace, ref.name)
        return claim if claim is not None and claim.ref.uid == ref.uid else None

    def _take(self, gpu: Gpu, s: MigSlice, ref: ClaimRef) -> str:
        self._gpud.destroy_instance(s.uuid, CLAIM + ref.uid)
        cdi.remove(self._cdi_dir, ref.uid)
        subject = "its share of slice" if s.shares else "slice"
        return f"{subject} {s.instance} of GPU {gpu.index} was left behind and is free again"

    def _remove_file(self, ref: ClaimRef) -> str:
        cdi.remove(self._cdi_dir, ref.uid)
        return "its CDI file was left behind and is removed"


def _why_orphaned(claim: Claim | None, ref: ClaimRef, device: str, pool: str) -> str:
    """Return why a claim does not need a device (``""``: any device); empty if it does."""
    if claim is None:
        return f"there is no claim {ref} with UID {ref.uid} any more"
    if claim.allocated is None:
        return f"claim {ref} is not allocated any more"
    allocated_devices = {
        allocated_device.device
        for allocated_device in claim.allocated
        if (allocated_device.driver, allocated_device.pool) == (names.DRIVER, pool)
    }
    is_needed = device in allocated_devices if device else bool(allocated_devices)
    return "" if is_needed else f"claim {ref} was allocated elsewhere"
