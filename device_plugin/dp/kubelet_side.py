"""Everything that the kubelet talks to, and what the reconcile loop may ask of it.

Lives in a process of its own: while its streams are open the kubelet goes on admitting pods, also
while the agent is started again. What an agent condemned and did not destroy is spared when the
next one comes.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from device_plugin.config import LISTED_WITHIN_S
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.offer import Offer
from device_plugin.dp.resources import Resources

AGENT_LOST_S = 20.0  # longer than a start of the agent takes
_log = logging.getLogger(__name__)


class KubeletSide(Protocol):
    """What the reconcile loop asks; see ``Resources`` and ``Allocations`` for each."""

    def update(self, offers: Mapping[str, Offer]) -> None: ...
    def connected(self) -> frozenset[str]: ...
    def listed(self, uuids: Collection[str]) -> None: ...
    def keep_only(self, uuids: Collection[str]) -> None: ...
    def condemn(self, uuid: str) -> bool: ...
    def spare(self, uuid: str) -> None: ...
    def pending(self) -> bool: ...
    def all_ours(self, held: Collection[str]) -> bool: ...
    def claimed(self, healths: Mapping[str, str]) -> None: ...


class KubeletServer:
    """The real one. ``_lock`` makes its calls one at a time."""

    def __init__(
        self,
        make: Callable[[Allocations], Resources],
        listed_within_s: float = LISTED_WITHIN_S,
        tell_healths: Callable[[Mapping[str, str]], None] = lambda healths: None,
    ) -> None:
        """``tell_healths`` takes the health of claims' devices, by their names."""
        self._tell_healths = tell_healths
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

    def connected(self) -> frozenset[str]:
        with self._lock:
            return self._resources.connected()

    def listed(self, uuids: Collection[str]) -> None:
        self._allocations.listed(uuids)

    def keep_only(self, uuids: Collection[str]) -> None:
        self._allocations.keep_only(uuids)

    def condemn(self, uuid: str) -> bool:
        return self._allocations.condemn(uuid)

    def spare(self, uuid: str) -> None:
        self._allocations.spare(uuid)

    def pending(self) -> bool:
        return self._allocations.pending()

    def all_ours(self, held: Collection[str]) -> bool:
        return self._allocations.all_ours(held)

    def claimed(self, healths: Mapping[str, str]) -> None:
        self._tell_healths(healths)

    def agent_came(self) -> None:
        """Take up work for an agent that knows nothing of what the one before it began."""
        with self._lock:
            self._agents += 1
            if self._lost is not None:
                self._lost.cancel()
                self._lost = None
        self._allocations.spare_all()

    def agent_went(self) -> None:
        """Go on as things stand for a while; then let the scheduler see that nobody is at work."""
        with self._lock:
            self._agents -= 1
            if self._agents:
                return
            self._lost = threading.Timer(AGENT_LOST_S, self._nobody_came)
            self._lost.daemon = True
            self._lost.start()

    def stop(self) -> None:
        """Stop serving; running pods keep their slices."""
        self._resources.stop()

    def _nobody_came(self) -> None:
        with self._lock:
            if self._lost is None:
                return
            message = "Unhealthy: the node agent is gone"
            offers = {name: offer.unhealthy(message) for name, offer in self._offers.items()}
            try:
                self._resources.update(offers)
            except OSError as err:  # nobody calls who could be told
                _log.warning("no agent, and what it served cannot be marked: %s", err)
