"""The process that serves the kubelet: extended resources and ResourceClaims."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Final, Never

from device_plugin.agent import libraries
from device_plugin.agent.reporting.notices import Notices
from device_plugin.backends.gpud import Gpud
from device_plugin.cdi import nvidia
from device_plugin.config import Settings
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.kubelet_socket import KubeletSocket
from device_plugin.dp.link import LinkServer
from device_plugin.dp.meeting import Meeting
from device_plugin.dp.registrar import Registrar
from device_plugin.dp.resources import Resources
from device_plugin.dra.health import HealthService
from device_plugin.dra.preparing import Preparer
from device_plugin.dra.service import DraServer, DraService
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.functions import RESOURCE
from device_plugin.kube.claims import Claim, ClaimsKube
from gpu_operator.api.claim_devices import DRIVER
from gpu_operator.api.v1alpha1.base import Reason

_log = logging.getLogger(__name__)
_STANDBY_DIRECTORY: Final = "b"  # short, because a socket's path has at most 107 characters
_FOLLOWED_S: Final = 1.0
_BEAT_S: Final = 1.0
_LOCK_S: Final = 5.0


def run(
    settings: Settings, listener: Listener, meeting: Meeting, beat: Callable[[], None]
) -> Never:
    """Serve this node's resources to the kubelet until SIGTERM, and then end the process.

    While another process serves, this one has all resources served at sockets that the kubelet does
    not know. ``beat`` is called every second.

    Raises OSError if the agent's calls cannot be received.
    """
    # a terminal's Ctrl-C: the supervisor stops this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # blocked in all threads; the main thread waits for it below
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.excepthook = _die
    woken = threading.Event()
    health = HealthService(settings.node_name)

    directory = settings.plugins_dir / DRIVER

    def resources(allocations: Allocations) -> Resources:
        return Resources(
            directory / _STANDBY_DIRECTORY if settings.standby else directory,
            settings.pod_name,
            (*(f"{settings.resource_prefix}/{name}" for name in ("mig-*", "gpu")), RESOURCE),
            settings.use_cdi,
            allocations,
            refresh,
        )

    def refresh() -> None:
        registrar.wake()
        woken.set()

    server = KubeletServer(resources, settings.listed_within_s, health.update)
    kubelet_socket = KubeletSocket(settings.kubelet_socket)
    registrar = Registrar(kubelet_socket, server.endpoints)
    preparer, driver = _dra_driver(settings, health, woken) if settings.dra else (None, None)
    link = LinkServer(listener, server, woken)
    active = threading.Event()

    def take_turn() -> None:
        try:
            server.remove_stale_sockets()
        except OSError as err:
            _log.warning("not all sockets of ended processes are removed: %s", err)
        kubelet_socket.connect()
        meeting.wait_for_turn()
        # First of all: the kubelet fails pods until it follows the lists of this process.
        registrar.take_over()
        _start("registrar", registrar.run)
        # The name of the process, whichever thread writes it.
        Path("/proc/self/comm").write_text("tessera-kubelet", encoding="ascii")
        server.wait_until_followed(_FOLLOWED_S)  # what follows must not delay the lists
        active.set()
        if preparer is not None and driver is not None:
            preparer.refresh_files()
            driver.start()
        woken.set()

    _start("link", link.run)
    _start("turn", take_turn)
    _start("heart", lambda: _give_signs_of_life(server, beat))
    signal.sigwait({signal.SIGTERM})
    stops = driver is not None and active.is_set()
    wait_for_driver = driver.begin_stop() if driver is not None and stops else None
    server.stop()
    if wait_for_driver is not None:
        wait_for_driver()
    os._exit(0)  # no thread needs a larger stack


def _give_signs_of_life(server: KubeletServer, beat: Callable[[], None]) -> Never:
    while True:
        if server.is_responsive(_LOCK_S):
            beat()
        time.sleep(_BEAT_S)


def _start(name: str, body: Callable[[], None]) -> None:
    threading.Thread(target=body, name=name, daemon=True).start()


def _dra_driver(
    settings: Settings, health: HealthService, woken: threading.Event
) -> tuple[Preparer, DraServer]:
    """Make the DRA driver, which has its own connections to gpud and the API server.

    With its own connections, it can prepare claims of pods while the agent is still starting.
    """
    claims = _Claims(settings.node_name)
    directory = str(libraries.install(settings.libraries_dir))
    preparer = Preparer(
        Gpud(settings.gpud_socket),
        claims,
        settings.node_name,
        settings.cdi_dir,
        directory,
        nvidia.optional_mounts(
            directory, nvidia_smi=settings.nvidia_smi, device_files=settings.device_files
        ),
        claims.notify,
        woken.set,
    )
    return preparer, DraServer(
        DraService(preparer),
        health,
        settings.registry_dir,
        settings.plugins_dir / DRIVER,
        settings.pod_name,
    )


class _Claims:
    """Reads claims; it connects to the API server at the first one, as most nodes have none."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._lock = threading.Lock()
        self._made: tuple[ClaimsKube, Notices] | None = None

    def claim(self, namespace: str, name: str) -> Claim | None:
        """Return a claim, as ``ClaimsKube`` does. Raises ClusterError."""
        return self._client()[0].claim(namespace, name)

    def notify(self, claim: ClaimRef, message: str) -> None:
        """Post an event on a claim that states what it waits for, in the background."""
        self._client()[1].post_claim(claim, Reason.CLAIM_BLOCKED, message)

    def _client(self) -> tuple[ClaimsKube, Notices]:
        with self._lock:
            if self._made is None:
                kube = ClaimsKube(self._node_name)
                notices = Notices(kube)
                threading.Thread(target=notices.run, name="claim-events", daemon=True).start()
                self._made = kube, notices
            return self._made


def _die(failure: threading.ExceptHookArgs) -> None:
    """End the process when a thread fails, so that the supervisor restarts it."""
    threading.__excepthook__(failure)
    os._exit(1)
