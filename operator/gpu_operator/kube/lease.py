"""Leader election on a coordination/v1 Lease, and a fence that stops writes once the Lease is lost.

As in client-go, clocks of different machines are never compared: a holder counts as gone when
its record has not changed for a whole term on the candidate's own clock. That term is the one in
the record: while an upgrade changes the term, the old leader still uses the old one.

The Kubernetes client has an election, too. It uses the wall clock and the candidate's own term,
has neither fence nor release, and sets no timeouts for its requests.

A renewal is one request, as in client-go: the leader replaces the record that it wrote last, and
reads the Lease only if that fails. So the leader keeps the Lease if the API server answers within
half of the deadline.
"""

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import CONFIGURATION
from gpu_operator.kube.port import Document, Kube

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Term:
    """The times of an election in seconds, as in client-go.

    ``duration_s`` is how long a candidate waits after the leader's last renewal. ``deadline_s``
    is how long after its last renewal the leader acts as such: what remains of the duration is
    for a write in progress. ``retry_s`` is the pause between two attempts to get or renew.
    """

    duration_s: float
    deadline_s: float
    retry_s: float


class Elector:
    """A candidate for the Lease. ``identity`` must be unique among concurrent processes."""

    def __init__(
        self,
        kube: Kube,
        name: str,
        namespace: str,
        identity: str,
        term: Term,
        clock: Callable[[], float] = time.monotonic,
        owners: Sequence[Mapping[str, Any]] = (),
        configuration: Callable[[], str] = str,
    ) -> None:
        """Initialize the candidate.

        ``configuration`` returns the configuration with which this process has reconciled all
        objects; an empty string means that its first pass is not complete.
        """
        self._configuration = configuration
        self._kube = kube
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._term = term
        self._clock = clock
        self._owners = [dict(owner) for owner in owners]
        self._renewed_at: float | None = None
        self._own: Document | None = None
        """The record that this process wrote last, while it is certainly the current one."""
        self._seen: tuple[str, float] | None = (
            None  # another holder's record, and when it was first observed
        )

    @property
    def is_leader(self) -> bool:
        """Return whether this process certainly holds the Lease.

        The Lease is then valid for long enough to finish a write in progress.
        """
        return (
            self._renewed_at is not None
            and self._clock() - self._renewed_at < self._term.deadline_s
        )

    def fence(self) -> None:
        """Raise NotLeader unless this process holds the lease."""
        if not self.is_leader:
            raise errors.NotLeader(f"{self._identity} does not hold lease {self._name}")

    async def acquire(self) -> None:
        """Wait until this process holds the lease."""
        logged = False
        while not await self._try():
            if not logged:
                _log.info("waiting for lease %s/%s", self._namespace, self._name)
                logged = True
            await asyncio.sleep(self._term.retry_s)
        _log.info("%s holds lease %s/%s", self._identity, self._namespace, self._name)

    async def keep(self) -> None:
        """Renew the lease regularly. Raises NotLeader when renewal has failed for too long."""
        renewed = True
        while True:
            # After a failed request the next is due at once: the deadline comes closer.
            await asyncio.sleep(self._term.retry_s / (1 if renewed else 8))
            renewed = await self._try()
            self.fence()

    async def release(self) -> None:
        """Release the lease for the next candidate.

        Errors are ignored, because the lease expires anyway.
        """
        if not self.is_leader:
            return
        self._renewed_at = self._own = None
        try:
            lease = await self._kube.get("Lease", self._name, self._namespace)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                await self._kube.replace(lease)
        except errors.KubeError as err:
            _log.info("lease not released: %s", err)

    async def _try(self) -> bool:
        started = self._clock()
        limit_s = self._term.deadline_s / 2  # one lost response must not lose the lease
        try:
            async with asyncio.timeout(limit_s):
                is_held = await self._write()
        except TimeoutError:
            _log.warning("lease %s: no answer in %.1f s", self._name, limit_s)
            return False
        except errors.KubeError as err:
            _log.warning("lease %s: %s", self._name, err)
            return False
        if is_held:
            self._renewed_at = started  # the time of the request, to be safe
        else:
            self._renewed_at = None
        return is_held

    async def _write(self) -> bool:
        own, self._own = self._own, None  # not the current one if this request's answer is lost
        if own is not None:
            try:
                self._own = await self._kube.replace(self._renew(own))
                return True
            except (errors.Conflict, errors.NotFound):
                pass  # another process has changed or deleted the Lease
        try:
            lease = await self._kube.get("Lease", self._name, self._namespace)
        except errors.NotFound:
            self._own = await self._kube.create(self._document(_now(), 0))
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._is_expired(lease):
            return False
        self._own = await self._kube.replace(self._renew(lease))
        return True

    def _renew(self, lease: Document) -> Document:
        """Return the record with which this process takes or keeps a Lease."""
        spec = lease.get("spec") or {}
        renewed = self._document(_now(), spec.get("leaseTransitions") or 0)
        renewed["metadata"] = {**lease["metadata"], "ownerReferences": self._owners}
        notes = lease["metadata"].get("annotations") or {}
        renewed["metadata"]["annotations"] = {**notes, CONFIGURATION: self._configuration_note()}
        if spec.get("holderIdentity") == self._identity:
            renewed["spec"]["acquireTime"] = spec.get("acquireTime") or _now()
        else:
            renewed["spec"]["leaseTransitions"] += 1
        return renewed

    def _configuration_note(self) -> str:
        """Return the text that names the configuration and the holder of the Lease.

        The note must name its writer, because an older operator leaves it unchanged.
        """
        configuration = self._configuration()
        return f"{configuration} {self._identity}" if configuration else ""

    def _is_expired(self, lease: Document) -> bool:
        record = lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen[0] != record:
            self._seen = (record, self._clock())
        spec = lease.get("spec") or {}
        duration_s = spec.get("leaseDurationSeconds") or self._term.duration_s
        return self._clock() - self._seen[1] > duration_s

    def _document(self, timestamp: str, transitions: int) -> Document:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "ownerReferences": self._owners,  # the Lease is deleted with them
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": round(self._term.duration_s),
                "acquireTime": timestamp,
                "renewTime": timestamp,
                "leaseTransitions": transitions,
            },
        }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
