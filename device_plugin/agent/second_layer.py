"""Has the second layer follow the tables, tells how far it does, and whose packets it drops."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

DROPS_S: Final = 5.0  # between two looks at the counters
_HANGS_S: Final = 10.0  # until a daemon that did not answer in time is asked again
_MESSAGE_LENGTH: Final = 400
_log = logging.getLogger(__name__)


class Daemon(Protocol):
    """linkd's socket."""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request. Raises DaemonError and DaemonUnreachable."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the second layer enforces the tables; ``message`` is why not all of it."""

    state: SecondLayer = SecondLayer.UNKNOWN
    message: str = ""


class LinkCarrier:
    """Used by the thread that carries tables. Nothing here keeps the engine from its tables."""

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
        self._said = ""
        self._standing = Standing()
        self._again_at = float("-inf")
        self._looked_at = float("-inf")
        self._counted: dict[tuple[str, bool, str], int] | None = None

    def follow(self, wanted: Tables | None) -> Standing:
        """Have the rules be those of ``wanted``, and return how far they are."""
        now = self._clock()
        if now < self._again_at:
            return self._standing  # it hangs: the engine must not wait each time
        try:
            standing = self._follow(wanted)
        except (DaemonError, DaemonUnreachable, RdmaError) as err:
            self._handed = None
            if isinstance(err.__cause__, TimeoutError):
                self._again_at = now + _HANGS_S
            standing = Standing(SecondLayer.ENGINE_ONLY, str(err)[:_MESSAGE_LENGTH])
        except (KeyError, TypeError, ValueError) as err:
            standing = Standing(SecondLayer.ENGINE_ONLY, f"linkd is of another version: {err!r}")
        if standing.message != self._said:
            self._said = standing.message
            if standing.message:
                _log.warning("second layer: %s: %s", standing.state.value, standing.message)
            else:
                _log.info("second layer: %s", standing.state.value)
        self._standing = standing
        return standing

    def _follow(self, wanted: Tables | None) -> Standing:
        said = self._linkd.call("state")
        if wanted is not None and said["able"]:
            if wanted != self._handed or said["generation"] != wanted.generation:
                document = unpack(wanted.encoding, wanted.text)
                said = self._linkd.call("tables", document=document)
                self._handed = wanted
                self._pods = _pods(document)
            self._tell_drops()
        why = str(said["engine_only"])
        if why:
            return Standing(SecondLayer.ENGINE_ONLY, why[:_MESSAGE_LENGTH])
        return Standing(SecondLayer.ENFORCING)

    def _tell_drops(self) -> None:
        """Put what was dropped since the last time on the pods whose links it befell."""
        now = self._clock()
        if now - self._looked_at < DROPS_S:
            return
        self._looked_at = now
        counted: dict[tuple[str, bool, str], int] = {}
        for link in self._linkd.call("drops")["links"]:
            pod = next((self._pods[a] for a in link["addresses"] if a in self._pods), None)
            for reason, count in link["dropped"].items():
                key = str(link["link"]), bool(link["leaving"]), str(reason)
                counted[key] = int(count)
                # What was counted before this agent was there, another has told.
                known = self._counted.get(key, 0) if self._counted is not None else int(count)
                if (new := int(count) - known) > 0:
                    _log.info("dropped=%d link=%s leaving=%s reason=%s", new, *key)
                    if pod is not None:
                        self._notices.post(pod, Reason.RDMA_DROPPED, describe(*key[1:]))
        self._counted = counted


def describe(leaving: bool, reason: str) -> str:
    """Return a drop in one sentence; counts are left out, so that equal ones are one event."""
    whose = "this pod sent" if leaving else "were for this pod"
    what = {
        "spoofed": "from an address that is not the pod's" if leaving else "for another address",
        "fragment": "in fragments",
        "segments": "longer than any of an HCA's",
        "joined": "several in one buffer, that a later hop would cut up",
        "tagged": "in tags of VLANs",
        "denied": "that no policy, partition or function of an HCA lets pass",
    }.get(reason, reason)
    # A Service may map any other port to RoCE's, so sources are checked whatever the port.
    which = "UDP packets" if leaving and reason == "spoofed" else "packets to UDP port 4791"
    return f"dropped at the pod's interface: {which} that {whose}, {what}"


def _pods(document: str) -> Mapping[str, HolderPod]:
    """Return the pods of this node by address."""
    return {
        address: HolderPod(pod.name.partition("/")[0], pod.name.partition("/")[2], pod.uid)
        for pod in codec.decode(document).pods
        for address in pod.addresses
    }
