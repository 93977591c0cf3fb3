"""Registers resources with the kubelet whenever no kubelet follows their lists.

That is the case after a start of this process or of the kubelet, and when the kubelet has just
noticed the end of this process's predecessor: it then disconnects the newest plugin of the
resource, which may already be this one.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Never

from device_plugin.dp.kubelet_socket import KubeletSocket
from device_plugin.dp.registration import Endpoint
from vgpu_sim.records import dataclass

_PERIOD_S: Final = 0.1
_FIRST_PAUSE_S: Final = 0.01
_CONNECTS_WITHIN_S: Final = 0.3  # from Register until the kubelet follows the list
_LONGEST_PAUSE_S: Final = 1.0  # between two attempts for one resource
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt to register a resource, and when the next one is due."""

    ended_streams: int  # at the attempt
    due_at: float
    due_after_end_at: float  # if the kubelet has followed the list since, and then stopped
    next_pause_s: float


class Registrar:
    """Keeps resources registered, in a thread of its own."""

    def __init__(
        self,
        kubelet_socket: KubeletSocket,
        disconnected: Callable[[], Mapping[str, Endpoint]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize.

        ``disconnected`` returns the endpoints of the resources whose lists no kubelet follows.
        """
        self._kubelet_socket = kubelet_socket
        self._disconnected = disconnected
        self._clock = clock
        self._attempts: dict[str, _Attempt] = {}
        self._wake = threading.Event()

    def wake(self) -> None:
        """Look for resources that must be registered at once. Any thread may call this."""
        self._wake.set()

    def run(self) -> Never:
        """Register resources until the process ends."""
        while True:
            self._wake.clear()
            self._wake.wait(self.register_due())

    def register_due(self) -> float:
        """Register the resources that are disconnected, unless an attempt was made just now.

        Return the number of seconds after which the next attempt can be due.
        """
        endpoints, now_s = self._disconnected(), self._clock()
        self._attempts = {n: attempt for n, attempt in self._attempts.items() if n in endpoints}
        due = {
            name: endpoint
            for name, endpoint in endpoints.items()
            if self._due_at(name, endpoint) <= now_s
        }
        if due and self._kubelet_socket.is_listening():
            # Together, because the kubelet fails the pods of each resource until it is registered.
            sockets = {name: endpoint.path for name, endpoint in due.items()}
            for name, failure in self._kubelet_socket.register(sockets).items():
                if failure is not None:
                    _log.warning("will retry: %s", failure)
                self._record(name, due[name], now_s, succeeded=failure is None)
        pauses = (self._due_at(name, endpoint) - now_s for name, endpoint in endpoints.items())
        return min((pause for pause in pauses if 0 < pause < _PERIOD_S), default=_PERIOD_S)

    def _due_at(self, name: str, endpoint: Endpoint) -> float:
        attempt = self._attempts.get(name)
        if attempt is None:
            return float("-inf")
        if endpoint.ended_streams != attempt.ended_streams:
            return attempt.due_after_end_at
        return attempt.due_at

    def _record(self, name: str, endpoint: Endpoint, now_s: float, *, succeeded: bool) -> None:
        earlier = self._attempts.get(name)
        pause_s = _FIRST_PAUSE_S if earlier is None else earlier.next_pause_s
        waits_s = max(pause_s, _CONNECTS_WITHIN_S) if succeeded else pause_s
        longer_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._attempts[name] = _Attempt(
            endpoint.ended_streams, self._clock() + waits_s, now_s + pause_s, longer_s
        )
