"""Sends RDMA tables to linkd, reports how far the second layer enforces them, and reports drops."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from device_plugin.agent.reporting.notices import Notices
from device_plugin.errors import DaemonError, DaemonUnreachable
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.tables import Tables
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.rdma.packing import unpack
from gpu_operator.api.v1alpha1.rdma.tables import SecondLayer
from rdma import codec
from rdma.errors import RdmaError
from vgpu_sim.records import dataclass

DROPS_S: Final = 5.0  # between two reads of the counters
_HANGS_S: Final = 10.0  # before a daemon that timed out is called again
_MESSAGE_LENGTH: Final = 400
_log = logging.getLogger(__name__)


class Daemon(Protocol):
    """The socket of linkd, to which requests are sent."""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request. Raises DaemonError and DaemonUnreachable."""


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """How far linkd enforces the RDMA tables on the pods' links.

    ``message`` is the reason why the tables are not fully enforced.
    """

    state: SecondLayer = SecondLayer.UNKNOWN
    message: str = ""


class LinkCarrier:
    """Sends the RDMA tables to linkd, on the thread that also sends them to hcad.

    A failure of linkd does not delay the tables for hcad's engine.
    """

    def __init__(
        self,
        linkd: Daemon,
        notices: Notices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._linkd = linkd
        self._notices = notices
        self._clock = clock
        self._handed: Tables | None = None
        self._pods: Mapping[str, HolderPod] = {}
        self._last_message = ""
        self._status = LayerStatus()
        self._again_at = float("-inf")
        self._looked_at = float("-inf")
        self._counted: dict[tuple[str, bool, str], int] | None = None

    def sync_tables(self, tables: Tables | None) -> LayerStatus:
        """Send the tables to linkd if linkd lacks them; return how far linkd enforces the
        tables.
        """
        now_s = self._clock()
        if now_s < self._again_at:
            return self._status  # linkd hangs: the engine must not wait each time
        try:
            status = self._follow(tables)
        except (DaemonError, DaemonUnreachable, RdmaError) as err:
            self._handed = None
            if isinstance(err.__cause__, TimeoutError):
                self._again_at = now_s + _HANGS_S
            status = LayerStatus(SecondLayer.ENGINE_ONLY, str(err)[:_MESSAGE_LENGTH])
        except (KeyError, TypeError, ValueError) as err:
            status = LayerStatus(SecondLayer.ENGINE_ONLY, f"linkd is of another version: {err!r}")
        if status.message != self._last_message:
            self._last_message = status.message
            if status.message:
                _log.warning("second layer: %s: %s", status.state.value, status.message)
            else:
                _log.info("second layer: %s", status.state.value)
        self._status = status
        return status

    def _follow(self, tables: Tables | None) -> LayerStatus:
        state = self._linkd.call("state")
        if tables is not None and state["able"]:
            if tables != self._handed or state["generation"] != tables.generation:
                document = unpack(tables.encoding, tables.text)
                state = self._linkd.call("tables", document=document)
                self._handed = tables
                self._pods = _pods(document)
            self._report_drops()
        why = str(state["engine_only"])
        if why:
            return LayerStatus(SecondLayer.ENGINE_ONLY, why[:_MESSAGE_LENGTH])
        return LayerStatus(SecondLayer.ENFORCING)

    def _report_drops(self) -> None:
        """Post an event for new drops on the pods whose links dropped packets."""
        now_s = self._clock()
        if now_s - self._looked_at < DROPS_S:
            return
        self._looked_at = now_s
        counted: dict[tuple[str, bool, str], int] = {}
        for link in self._linkd.call("drops")["links"]:
            pod = next((self._pods[a] for a in link["addresses"] if a in self._pods), None)
            for reason, count in link["dropped"].items():
                key = str(link["link"]), bool(link["leaving"]), str(reason)
                counted[key] = int(count)
                # Drops before this agent started were reported by its predecessor.
                earlier_count = (
                    self._counted.get(key, 0) if self._counted is not None else int(count)
                )
                if (new_drops := int(count) - earlier_count) > 0:
                    _log.info("dropped=%d link=%s leaving=%s reason=%s", new_drops, *key)
                    if pod is not None:
                        self._notices.post(pod, Reason.RDMA_DROPPED, describe(*key[1:]))
        self._counted = counted


def describe(leaving: bool, reason: str) -> str:
    """Describe a dropped packet in one sentence.

    The sentence has no counts, so that Kubernetes merges equal events.
    """
    whose = "this pod sent" if leaving else "were for this pod"
    defect = {
        "spoofed": "from an address that is not the pod's" if leaving else "for another address",
        "fragment": "in fragments",
        "segments": "longer than any of an HCA's",
        "joined": "several in one buffer, that a later hop would cut up",
        "tagged": "in tags of VLANs",
        "denied": "that no policy, partition or function of an HCA lets pass",
    }.get(reason, reason)
    # A Service may map any other port to RoCE's, so sources are checked whatever the port.
    which = "UDP packets" if leaving and reason == "spoofed" else "packets to UDP port 4791"
    return f"dropped at the pod's interface: {which} that {whose}, {defect}"


def _pods(document: str) -> Mapping[str, HolderPod]:
    """Return the pods of this node by their addresses, as the tables in ``document`` have them."""
    return {
        address: HolderPod(pod.name.partition("/")[0], pod.name.partition("/")[2], pod.uid)
        for pod in codec.decode(document).pods
        for address in pod.addresses
    }
