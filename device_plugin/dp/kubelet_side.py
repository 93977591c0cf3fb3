"""All services for the kubelet, and the calls with which the reconcile loop controls them.

The services run in a separate process; another process stands by. It receives the same calls and
serves the same resources at sockets of its own, which it registers when the first process ends.
While the streams of a process are open the kubelet continues to admit
pods, also while the agent restarts. Slices for which an agent forbade allocation, and which it
did not destroy, may be allocated again when the next agent connects.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from device_plugin.config import LISTED_WITHIN_S
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.offer import Offer
from device_plugin.dp.registration import Endpoint
from device_plugin.dp.resources import Resources

AGENT_LOST_S = 20.0  # longer than a start of the agent takes
_FOLLOWED_PERIOD_S = 0.01
_log = logging.getLogger(__name__)


class KubeletSide(Protocol):
    """The calls that the reconcile loop makes to the process that serves the kubelet.

    See ``Resources`` and ``Allocations`` for the effect of each call.
    """

    def update(self, offers: Mapping[str, Offer]) -> None: ...
    def connected_resources(self) -> frozenset[str]: ...
    def confirm_listed(self, uuids: Collection[str]) -> None: ...
    def keep_only(self, uuids: Collection[str]) -> None: ...
    def forbid(self, uuid: str) -> bool: ...
    def allow(self, uuid: str) -> None: ...
    def has_pending(self) -> bool: ...
    def all_ours(self, held_uuids: Collection[str]) -> bool: ...
    def report_claim_health(self, healths: Mapping[str, str]) -> None: ...


class KubeletServer:
    """Implements the calls of ``KubeletSide``. ``_lock`` serializes calls that change resources."""

    def __init__(
        self,
        make: Callable[[Allocations], Resources],
        listed_within_s: float = LISTED_WITHIN_S,
        report_healths: Callable[[Mapping[str, str]], None] = lambda healths: None,
    ) -> None:
        """Initialize the server.

        ``report_healths`` is called with the health of claims' devices, by their names.
        """
        self._report_healths = report_healths
        self._allocations = Allocations(listed_within_s=listed_within_s)
        self._resources = make(self._allocations)
        self._lock = threading.Lock()
        self._offers: Mapping[str, Offer] = {}
        self._agents = 0
        self._lost: threading.Timer | None = None

    def update(self, offers: Mapping[str, Offer]) -> None:
        with self._lock:
            self._offers = offers
            self._resources.update(offers)

    def remove_stale_sockets(self) -> None:
        """Delete the sockets of killed agents."""
        self._resources.remove_stale_sockets()

    def endpoints(self) -> Mapping[str, Endpoint]:
        """Return where each resource is served."""
        return self._resources.endpoints()

    def wait_until_followed(self, within_s: float) -> None:
        """Wait, at most ``within_s`` seconds, until the kubelet follows all lists."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if all(endpoint.connected for endpoint in self.endpoints().values()):
                return
            time.sleep(_FOLLOWED_PERIOD_S)

    def is_responsive(self, within_s: float) -> bool:
        """Return whether calls that change resources can begin within some seconds, and a call of
        the kubelet was answered.
        """
        deadline = time.monotonic() + within_s
        if not self._lock.acquire(timeout=within_s):
            _log.warning("calls that change resources have waited for %.0f s", within_s)
            return False
        self._lock.release()
        return self._resources.is_answering(deadline - time.monotonic())

    def connected_resources(self) -> frozenset[str]:
        with self._lock:
            return self._resources.connected_resources()

    def confirm_listed(self, uuids: Collection[str]) -> None:
        self._allocations.confirm_listed(uuids)

    def keep_only(self, uuids: Collection[str]) -> None:
        self._allocations.keep_only(uuids)

    def forbid(self, uuid: str) -> bool:
        return self._allocations.forbid(uuid)

    def allow(self, uuid: str) -> None:
        self._allocations.allow(uuid)

    def has_pending(self) -> bool:
        return self._allocations.has_pending()

    def all_ours(self, held_uuids: Collection[str]) -> bool:
        return self._allocations.all_ours(held_uuids)

    def report_claim_health(self, healths: Mapping[str, str]) -> None:
        self._report_healths(healths)

    def on_agent_connect(self) -> None:
        """Prepare for a new agent, which does not know what its predecessor began."""
        with self._lock:
            self._agents += 1
            if self._lost is not None:
                self._lost.cancel()
                self._lost = None
        self._allocations.allow_all()

    def on_agent_disconnect(self) -> None:
        """Change nothing for a while after the agent has disconnected; then mark all devices
        unhealthy.

        The scheduler then binds no further pod to the devices.
        """
        with self._lock:
            self._agents -= 1
            if self._agents:
                return
            self._lost = threading.Timer(AGENT_LOST_S, self._mark_unhealthy)
            self._lost.daemon = True
            self._lost.start()

    def stop(self) -> None:
        """Stop all services; running pods keep their slices."""
        self._resources.stop()

    def _mark_unhealthy(self) -> None:
        with self._lock:
            if self._lost is None:
                return
            message = "Unhealthy: the node agent is gone"
            offers = {name: offer.as_unhealthy(message) for name, offer in self._offers.items()}
            self._offers = offers
            try:
                self._resources.update(offers)
            except OSError as err:  # a timer calls this, so the error can only be logged
                _log.warning("no agent, and what it served cannot be marked: %s", err)
