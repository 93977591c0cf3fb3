"""Registers resources with the kubelet whenever no kubelet follows their lists.

That is the case after a start of this process or of the kubelet, and when the kubelet has just
noticed the end of this process's predecessor: it then disconnects the newest plugin of the
resource, which may already be this one.
"""

import dataclasses
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
_CONFIRM_AFTER_S: Final = 0.3  # longer than a busy kubelet needs to notice the end of a plugin
_AT_ONCE: Final = float("-inf")
_NEVER: Final = float("inf")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt to register a resource, and when the next one is due."""

    ended_streams: int  # at the attempt
    due_at: float
    due_after_end_at: float  # if the kubelet has followed the list since, and then stopped
    next_pause_s: float

    def begin_anew(self) -> "_Attempt":
        """Return the attempt without the pauses that it and earlier failures have caused."""
        return dataclasses.replace(self, due_after_end_at=_AT_ONCE, next_pause_s=_FIRST_PAUSE_S)


class Registrar:
    """Keeps resources registered, in a thread of its own."""

    def __init__(
        self,
        kubelet_socket: KubeletSocket,
        endpoints: Callable[[], Mapping[str, Endpoint]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize; ``endpoints`` returns where each resource is served."""
        self._kubelet_socket = kubelet_socket
        self._endpoints = endpoints
        self._clock = clock
        self._attempts: dict[str, _Attempt] = {}
        self._confirms_at = _NEVER
        self._wake = threading.Event()

    def wake(self) -> None:
        """Look for resources that must be registered at once. Any thread may call this."""
        self._wake.set()

    def run(self) -> Never:
        """Register resources until the process ends."""
        while True:
            self._wake.clear()
            self._wake.wait(self.register_due())

    def take_over(self) -> None:
        """Register all resources when a process that served them may just have ended.

        Call this before ``run``. They are registered once more later: between the two steps of a
        registration, the kubelet (1.36) can mark the new plugin as stopped upon the end of the
        earlier one without hanging up on it. It would then fail all pods, although it follows the
        lists.
        """
        self._confirms_at = self._clock() + _CONFIRM_AFTER_S
        self.register_due()

    def register_due(self) -> float:
        """Register the resources that are disconnected, unless an attempt was made just now.

        Return the number of seconds after which the next attempt can be due.
        """
        endpoints, now_s = self._endpoints(), self._clock()
        self._attempts = {
            name: attempt.begin_anew() if endpoints[name].connected else attempt
            for name, attempt in self._attempts.items()
            if name in endpoints
        }
        if any(self._has_ended(name, endpoint) for name, endpoint in endpoints.items()):
            self._confirms_at = now_s + _CONFIRM_AFTER_S
        confirms = self._confirms_at <= now_s
        due = {
            name: endpoint
            for name, endpoint in endpoints.items()
            if confirms or self._due_at(name, endpoint) <= now_s
        }
        if due and self._kubelet_socket.is_listening():
            if confirms:
                self._confirms_at = _NEVER
            # Together, because the kubelet fails the pods of each resource until it is registered.
            sockets = {name: endpoint.path for name, endpoint in due.items()}
            for name, failure in self._kubelet_socket.register(sockets).items():
                if failure is not None:
                    _log.warning("will retry: %s", failure)
                self._record(name, due[name], now_s, succeeded=failure is None)
        due_times = (self._due_at(name, endpoint) for name, endpoint in endpoints.items())
        pauses = (due_at - now_s for due_at in (*due_times, self._confirms_at))
        return min((pause for pause in pauses if 0 < pause < _PERIOD_S), default=_PERIOD_S)

    def _has_ended(self, name: str, endpoint: Endpoint) -> bool:
        """Return whether a kubelet has stopped to follow the list since the last attempt.

        It may have followed it twice, and follow it still. But it has disconnected the newest
        plugin of the name, whichever stream has ended.
        """
        attempt = self._attempts.get(name)
        return attempt is not None and endpoint.ended_streams != attempt.ended_streams

    def _due_at(self, name: str, endpoint: Endpoint) -> float:
        if self._has_ended(name, endpoint):
            return self._attempts[name].due_after_end_at
        if endpoint.connected:
            return _NEVER
        return self._attempts[name].due_at if name in self._attempts else _AT_ONCE

    def _record(self, name: str, endpoint: Endpoint, now_s: float, *, succeeded: bool) -> None:
        earlier = self._attempts.get(name)
        pause_s = _FIRST_PAUSE_S if earlier is None else earlier.next_pause_s
        waits_s = max(pause_s, _CONNECTS_WITHIN_S) if succeeded else pause_s
        longer_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._attempts[name] = _Attempt(
            endpoint.ended_streams, self._clock() + waits_s, now_s + pause_s, longer_s
        )
