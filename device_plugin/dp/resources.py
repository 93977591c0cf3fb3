"""The resources of this node.

Each is served once the node has devices of it, and retired when the node has none. A resource is
retired in two steps: an empty list first, so that the kubelet forgets the devices at once, and
the end of its server only after the kubelet had time to report that.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from device_plugin.dp.allocations import Allocations
from device_plugin.dp.offer import EmptyOffer, Offer
from device_plugin.dp.registration import Endpoint, ResourceServer, remove_stale
from device_plugin.dp.service import DevicePlugin

_RETIRE_AFTER_S = 30.0  # longer than the kubelet's 10 s status tick
_NOTHING = EmptyOffer()
_log = logging.getLogger(__name__)


class Resources:
    """The servers of this node's resources. Owned by the reconcile thread."""

    def __init__(
        self,
        directory: Path,
        pod_name: str,
        own: Collection[str],
        use_cdi: bool,
        allocations: Allocations,
        refresh: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize; ``own`` are the names of resources that this agent may serve.

        In these names, ``*`` stands for any text. ``directory`` is that of the sockets.
        """
        self._directory = directory
        self._pod_name = pod_name
        self._use_cdi = use_cdi
        self._allocations = allocations
        self._refresh = refresh
        self._clock = clock
        self._servers: dict[str, ResourceServer] = {}
        self._emptied: dict[str, float] = {}
        self._own = own
        self._last_answering = ""

    def remove_stale_sockets(self) -> None:
        """Delete the sockets of killed agents. Any thread may call this."""
        for pattern in self._own:
            remove_stale(self._directory, pattern, self._pod_name)

    def names(self) -> tuple[str, ...]:
        """Return the names of the resources that are served, including those without devices."""
        return tuple(sorted(self._servers))

    def connected_resources(self) -> frozenset[str]:
        """Return the resources for which a kubelet has an open ListAndWatch stream."""
        servers = tuple(self._servers.items())
        return frozenset(name for name, server in servers if server.plugin.connected)

    def endpoints(self) -> dict[str, Endpoint]:
        """Return where each resource is served. Any thread may call this."""
        servers = tuple(self._servers.items())
        return {name: server.endpoint for name, server in servers}

    def is_answering(self, within_s: float) -> bool:
        """Call a resource as the kubelet does; return whether it answers in time.

        Each call is to the next resource, until one does not answer: it is then called again. Any
        thread may call this.
        """
        servers = sorted(self._servers.items(), key=lambda item: item[0])
        following = (item for item in servers if item[0] > self._last_answering)
        name, server = next(following, servers[0] if servers else ("", None))
        is_silent = server is not None and not server.is_answering(within_s)
        if is_silent and self._servers.get(name) is server:  # it was not retired meanwhile
            _log.warning("%s: no answer at its own socket for %.0f s", name, within_s)
            return False
        self._last_answering = name
        return True

    def update(self, offers: Mapping[str, Offer]) -> None:
        """Serve exactly these resources.

        Other resources that are still served get an empty list now, and their servers stop
        later.

        Raises:
            OSError: a resource's socket cannot be bound.
        """
        for name in sorted(self._servers.keys() | offers.keys()):
            offer = offers.get(name, _NOTHING)
            listed = bool(offer.devices()) or offer.stays_registered
            if listed:
                self._emptied.pop(name, None)
                if name not in self._servers:
                    self._serve(name, offer)
            if name in self._servers:
                self._servers[name].plugin.offer(offer)
                if not listed:
                    self._retire(name)

    def stop(self) -> None:
        """Stop all servers; running pods keep their slices. Any thread may call this."""
        servers = list(self._servers.values())
        for ended in [server.begin_stop() for server in servers]:
            ended()

    def _retire(self, name: str) -> None:
        emptied = self._emptied.setdefault(name, self._clock())
        if self._clock() - emptied >= _RETIRE_AFTER_S:
            self._servers.pop(name).begin_stop()()
            del self._emptied[name]
            _log.info("%s: retired", name)

    def _serve(self, name: str, offer: Offer) -> None:
        plugin = DevicePlugin(name, self._use_cdi, self._allocations, self._refresh)
        plugin.offer(offer)
        server = ResourceServer(plugin, self._directory, self._pod_name)
        server.start()
        self._servers[name] = server
        _log.info("%s: serving", name)
