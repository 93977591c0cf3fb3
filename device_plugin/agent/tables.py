"""Sends the tables of RDMA policies to hcad, and reports in their status what hcad enforces.

hcad's answer is the acknowledgement: its engine has switched to the tables and has revoked the
queue pairs that they deny. A restarted hcad has no tables and admits no connection; the tables
are sent to it before anything else. While the API server is away the last tables stay in force.
"""

import datetime
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Never, Protocol

from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.second_layer import LayerStatus, LinkCarrier
from device_plugin.errors import ClusterError, DaemonError, DaemonUnreachable
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.tables import Tables, TablesKube
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.rdma.packing import unpack
from gpu_operator.api.v1alpha1.rdma.tables import HcadState, RDMANodeTablesStatus
from rdma.errors import TablesError

TICK_S = 1.0  # between two calls to hcad, which check that it answers and read its denials
HEARTBEAT_S = 4.0  # two may be lost before the operator reports the node as silent
_RETRY_S = 0.2
_REPORT_AGAIN_S = 60.0  # a denial that continues is reported again after this
_MAX_REPORTED = 4096
_log = logging.getLogger(__name__)


class Daemon(Protocol):
    """The administration socket of hcad, to which requests are sent."""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request. Raises DaemonError and DaemonUnreachable."""


class TableCarrier:
    """Sends RDMA tables to hcad, and writes the tables' status and this node's heartbeat.

    Three threads run ``follow``, ``run`` and ``renew_heartbeat``. Values that the threads share
    are never modified, only replaced.
    """

    def __init__(
        self,
        kube: TablesKube,
        hcad: Daemon,
        notices: Notices,
        clock: Callable[[], float] = time.monotonic,
        links: LinkCarrier | None = None,
    ) -> None:
        self._links = links
        self._kube = kube
        self._hcad = hcad
        self._notices = notices
        self._clock = clock
        self._wake = threading.Event()
        self._wanted: Tables | None = None
        self._enforced = RDMANodeTablesStatus()
        self._handed: Tables | None = None
        self._written: tuple[str, RDMANodeTablesStatus] | None = None
        self._alive_at = float("-inf")
        self._reported: dict[tuple[str, ...], float] = {}

    @property
    def is_alive(self) -> bool:
        """Return whether hcad has answered recently."""
        return self._clock() - self._alive_at < HEARTBEAT_S

    def follow(self) -> Never:
        """Watch this node's tables until the process ends."""
        while True:
            try:
                for tables in self._kube.tables():
                    self.set_tables(tables)
            except ClusterError as err:
                _log.info("watch of tables ended: %s", err)
                time.sleep(_RETRY_S)
            time.sleep(_RETRY_S)

    def set_tables(self, tables: Tables | None) -> None:
        """Set the tables to enforce.

        None means that the object with the tables was deleted; the previous tables stay in
        force.
        """
        if tables is not None and tables != self._wanted:
            self._wanted = tables
            self._wake.set()

    def run(self) -> Never:
        """Send new tables to hcad at once, and check every second that hcad answers."""
        while True:
            self._wake.wait(TICK_S if self.attempt() else _RETRY_S)
            self._wake.clear()

    def attempt(self) -> bool:
        """Make one pass: send tables and report their status; return whether all work is done."""
        tables = self._wanted
        try:
            status = self._hand_over(tables)
            self._alive_at = self._clock()
        except DaemonUnreachable as err:
            status = RDMANodeTablesStatus(hcad=HcadState.UNREACHABLE, message=str(err)[:400])
            self._handed = None
        # After the engine: it reports a denial to the peers, while a dropped packet only causes a
        # timeout.
        layer = self._links.sync_tables(tables) if self._links is not None else LayerStatus()
        if tables is None:
            return True
        second = {"second_layer": layer.state, "second_layer_message": layer.message}
        status = status.model_copy(update=second)
        return self._write_status(tables, status) and status.hcad is HcadState.ENFORCING

    def renew_heartbeat(self) -> Never:
        """Renew the heartbeat for as long as hcad answers."""
        while True:
            began, tables = self._clock(), self._wanted
            if tables is not None and self.is_alive:
                try:
                    self._kube.renew_lease(tables.owners)
                except ClusterError as err:
                    _log.warning("heartbeat not written: %s", err)
            time.sleep(max(0.0, began + HEARTBEAT_S - self._clock()))

    def _hand_over(self, tables: Tables | None) -> RDMANodeTablesStatus:
        """Make hcad enforce the wanted tables; return the status of what hcad enforces.

        Raises DaemonUnreachable.
        """
        in_force: int | None = None
        try:
            policy = self._hcad.call("policy-generation")
            in_force, path_mtu = policy.get("generation"), policy.get("path_mtu")
            if tables is not None and (tables != self._handed or in_force != tables.generation):
                reply = self._hcad.call("tables", document=unpack(tables.encoding, tables.text))
                self._handed = tables
                self._enforced = RDMANodeTablesStatus(
                    generation=int(reply["generation"]), hcad=HcadState.ENFORCING
                )
                _log.info(
                    "tables %s are enforced: %s queue pairs revoked, %s narrowed",
                    reply["generation"],
                    reply.get("revoked"),
                    reply.get("narrowed"),
                )
            self._report_denials()
        except (DaemonError, TablesError) as err:
            _log.warning("%s", err)
            self._handed = None
            return RDMANodeTablesStatus(
                generation=in_force or 0, hcad=HcadState.REFUSED, message=str(err)[:400]
            )
        return self._enforced.model_copy(update={"path_mtu": path_mtu})

    def _write_status(self, tables: Tables, status: RDMANodeTablesStatus) -> bool:
        """Write the status if it changed; return whether the object has it."""
        if self._written == (tables.uid, status):
            return True
        timestamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        try:
            is_acknowledged = self._kube.acknowledge(
                tables.uid, status.model_copy(update={"time": timestamp})
            )
        except ClusterError as err:
            _log.warning("status of tables not written: %s", err)
            return False
        self._written = (tables.uid, status) if is_acknowledged else None
        return is_acknowledged

    def _report_denials(self) -> None:
        """Post an event for each new denial on the pod whose function hcad denied."""
        denials = self._hcad.call("denials")["denials"]
        if not denials:
            return
        pods = {
            function["function"]: function for function in self._hcad.call("status")["functions"]
        }
        now_s = self._clock()
        for denial in denials:
            function = pods.get(denial["function"])
            if function is None or not function["pod_uid"]:
                continue
            kind = (function["pod_uid"], denial["verb"], denial["source"], denial["destination"])
            if now_s - self._reported.get(kind, float("-inf")) < _REPORT_AGAIN_S:
                continue
            self._reported.pop(kind, None)
            self._reported[kind] = now_s
            if len(self._reported) > _MAX_REPORTED:
                del self._reported[next(iter(self._reported))]
            namespace, _, name = function["pod"].partition("/")
            pod = HolderPod(namespace, name, function["pod_uid"])
            self._notices.post(pod, Reason.RDMA_DENIED, describe(denial))


def describe(denial: dict[str, Any]) -> str:
    """Describe a denied packet or connection in one sentence.

    The sentence has no counts, so that Kubernetes merges equal events.
    """
    source, destination = (
        f"{denial[f'{end}_pod']} ({denial[end]})" if denial[f"{end}_pod"] else denial[end]
        for end in ("source", "destination")
    )
    verdict = "would be denied" if denial["audited"] else "denied"
    by = f" by {', '.join(denial['policies'])}" if denial["policies"] else ""
    why = f": {'; '.join(denial['reasons'])}" if denial["reasons"] else ""
    return f"{denial['verb']} of {source} to {destination} {verdict}{by}{why}"
