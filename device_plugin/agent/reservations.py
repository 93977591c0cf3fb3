"""The pods for which the node's prepared claims are reserved (``status.reservedFor``).

The kubelet does not list claims that only an init container uses. The reservation names by UID
the pods that may use a claim; the scheduler writes it before it binds a pod. A claim that is
already prepared may be reserved for further pods later, so it is read again when gpud reports a
client that no List has.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Never, Protocol

from device_plugin.cdi import claims as cdi
from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.kube.claims import Claim
from device_plugin.podresources.client import Reservation

_PERIOD_S: Final = 1.0
_LEAST_S: Final = 0.2
_log = logging.getLogger(__name__)


class Claims(Protocol):
    """The part of the API server's client that reads claims (``kube.claims.ClaimsKube``)."""

    def claim(self, namespace: str, name: str) -> Claim | None: ...


class Reservations:
    """The reservations of prepared claims. ``_lock`` guards all but the reading of claims."""

    def __init__(self, cdi_dir: Path, kube: Claims, changed: Callable[[], None]) -> None:
        """Initialize; ``changed`` is called when another pod may be a holder of a slice."""
        self._cdi_dir = cdi_dir
        self._kube = kube
        self._changed = changed
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._pod_uids: dict[ClaimRef, frozenset[str]] = {}
        self._outdated: set[str] = set()

    def list_prepared(self) -> tuple[Reservation, ...]:
        """Return every claim that is prepared on this node, without querying the API server."""
        with self._lock:
            pod_uids = dict(self._pod_uids)
        return tuple(
            Reservation(claim.uid, slices, pod_uids.get(claim))
            for claim, slices in cdi.list_slices(self._cdi_dir)
        )

    def read_again(self, slice_uuid: str) -> None:
        """Read the claims of a slice again, because a pod that is not a holder wants to use it."""
        with self._lock:
            self._outdated.add(slice_uuid)
        self._wake.set()

    def run(self) -> Never:
        """Read the reservations of prepared claims until the process ends."""
        while True:
            try:
                self.refresh()
            except (ClusterError, OSError) as err:
                _log.warning("cannot read for which pods claims are reserved: %s", err)
            self._wake.wait(_PERIOD_S)
            time.sleep(_LEAST_S)  # tenants cause events, which must not cause as many requests
            self._wake.clear()

    def refresh(self) -> None:
        """Read new claims and outdated ones, and forget those that are no longer prepared.

        Raises:
            ClusterError: the API server did not answer; known reservations stay.
            OSError: the directory of CDI files cannot be read.
        """
        prepared = dict(cdi.list_slices(self._cdi_dir))
        with self._lock:
            outdated, self._outdated = self._outdated, set()
            self._pod_uids = {c: uids for c, uids in self._pod_uids.items() if c in prepared}
            pod_uids = dict(self._pod_uids)
        for claim, slices in prepared.items():
            if claim not in pod_uids or slices & outdated:
                self._read(claim)

    def _read(self, ref: ClaimRef) -> None:
        claim = self._kube.claim(ref.namespace, ref.name)
        exists = claim is not None and claim.ref.uid == ref.uid
        pod_uids = claim.pod_uids if claim is not None and exists else frozenset()
        with self._lock:
            is_new = self._pod_uids.get(ref) != pod_uids
            self._pod_uids[ref] = pod_uids
        if is_new:
            self._changed()
