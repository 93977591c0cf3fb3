"""The process that serves the kubelet: extended resources and ResourceClaims."""

import os
import signal
import threading
from multiprocessing.connection import Listener
from typing import Never

from device_plugin.agent import libraries
from device_plugin.agent.reporting.notices import Notices
from device_plugin.backends.gpud import Gpud
from device_plugin.cdi import nvidia
from device_plugin.config import Settings
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.link import LinkServer
from device_plugin.dp.resources import Resources
from device_plugin.dra.health import HealthService
from device_plugin.dra.preparing import Preparer
from device_plugin.dra.service import DraServer, DraService
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.functions import RESOURCE
from device_plugin.kube.claims import Claim, ClaimsKube
from gpu_operator.api.claim_devices import DRIVER
from gpu_operator.api.v1alpha1.base import Reason


def run(settings: Settings, listener: Listener) -> Never:
    """Serve this node's resources to the kubelet until SIGTERM, and then end the process.

    Raises OSError if the registry cannot be used.
    """
    # a terminal's Ctrl-C: the supervisor stops this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # blocked in all threads; the main thread waits for it below
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.excepthook = _die
    woken = threading.Event()

    def resources(allocations: Allocations) -> Resources:
        return Resources(
            settings.registry_dir,
            settings.pod_name,
            (*(f"{settings.resource_prefix}/{name}" for name in ("mig-*", "gpu")), RESOURCE),
            settings.use_cdi,
            allocations,
            woken.set,
        )

    health = HealthService(settings.node_name)
    server = KubeletServer(resources, settings.listed_within_s, health.update)
    driver = _dra_driver(settings, health, woken) if settings.dra else None
    if driver is not None:
        driver.start()

    link = LinkServer(listener, server, woken)
    threading.Thread(target=link.run, name="link", daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    left = driver.begin_stop() if driver is not None else None
    server.stop()
    if left is not None:
        left()
    os._exit(0)  # no thread needs a larger stack


def _dra_driver(settings: Settings, health: HealthService, woken: threading.Event) -> DraServer:
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
    preparer.refresh_files()
    return DraServer(
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
