"""Registers resources with the kubelet whenever no kubelet follows their lists.

That is the case after a start of this process or of the kubelet, and when the kubelet has just
noticed the end of this process's predecessor: it then disconnects the newest plugin of the
resource, which may already be this one.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path
from typing import Final, Never

from device_plugin.dp import registration
from device_plugin.errors import RegistrationError

_PERIOD_S: Final = 0.1
_FIRST_PAUSE_S: Final = 0.05
_CONNECTS_WITHIN_S: Final = 0.3  # from Register until the kubelet follows the list
_LONGEST_PAUSE_S: Final = 1.0  # between two attempts for one resource
_log = logging.getLogger(__name__)


class Registrar:
    """Keeps resources registered, in a thread of its own."""

    def __init__(
        self,
        kubelet_socket: Path,
        disconnected: Callable[[], Mapping[str, Path]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize.

        ``disconnected`` returns the sockets of the resources whose lists no kubelet follows.
        """
        self._kubelet_socket = kubelet_socket
        self._disconnected = disconnected
        self._clock = clock
        self._due: dict[str, tuple[float, float]] = {}  # the next attempt, and the pause after it
        self._wake = threading.Event()

    def wake(self) -> None:
        """Look for resources that must be registered at once. Any thread may call this."""
        self._wake.set()

    def run(self) -> Never:
        """Register resources until the process ends."""
        while True:
            self._wake.clear()
            self.register_due()
            self._wake.wait(_PERIOD_S)

    def register_due(self) -> None:
        """Register the resources that are disconnected, unless an attempt was made just now."""
        sockets, now = self._disconnected(), self._clock()
        self._due = {name: due for name, due in self._due.items() if name in sockets}
        due = [name for name in sockets if self._due.get(name, (now, 0.0))[0] <= now]
        if not due or not registration.is_listening(self._kubelet_socket):
            return
        # Together, because the kubelet fails the pods of each resource until it is registered.
        with futures.ThreadPoolExecutor(len(due)) as pool:
            for name, attempt in zip(
                due, pool.map(lambda name: self._attempt(name, sockets[name]), due), strict=True
            ):
                self._due[name] = attempt

    def _attempt(self, name: str, endpoint: Path) -> tuple[float, float]:
        """Register a resource; return the time of the next attempt, and the pause after that."""
        _, pause_s = self._due.get(name, (0.0, _FIRST_PAUSE_S))
        longer_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        try:
            registration.register(self._kubelet_socket, name, endpoint)
            pause_s = max(pause_s, _CONNECTS_WITHIN_S)
        except RegistrationError as err:
            _log.warning("will retry: %s", err)
        return self._clock() + pause_s, longer_s
