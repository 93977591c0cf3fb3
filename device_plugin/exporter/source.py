"""Reads the exporter's figures from gpud's read-only socket."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from device_plugin.backends.administration import Administration
from device_plugin.errors import AgentError, GpudError, GpudUnreachable
from vgpu_sim.hal.management.admin import Inventory
from vgpu_sim.hal.management.documents import DocumentError

FRESH_S = 1.0  # gpud's sample period: more frequent queries return nothing new


class _Gpud(Administration):
    daemon = "gpud"
    refused = GpudError
    unreachable = GpudUnreachable


class Source:
    """Queries gpud at most once in each period, however many scrapes there are.

    Thread-safe (``_lock``).
    """

    def __init__(
        self, socket: Path, timeout_s: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gpud = _Gpud(socket, timeout_s)
        self._clock = clock
        self._lock = threading.Lock()
        self._queried_at = float("-inf")
        self._last: Inventory | AgentError = GpudUnreachable("not queried yet")

    def inventory(self) -> Inventory:
        """Return gpud's inventory, at most one period old.

        Raises:
            GpudUnreachable: gpud does not answer.
            GpudError: gpud refuses the query, or has another version.
        """
        with self._lock:
            if self._clock() - self._queried_at >= FRESH_S:
                self._last = self._ask()
                self._queried_at = self._clock()
            if isinstance(self._last, AgentError):
                raise self._last
            return self._last

    def _ask(self) -> Inventory | AgentError:
        try:
            return Inventory.from_json(self._gpud.call("inventory"))
        except DocumentError as err:
            return GpudError("mismatch", f"inventory of another version: {err}")
        except AgentError as err:
            return err
