"""The process that serves the kubelet, and nothing else."""

import os
import signal
import threading
from multiprocessing.connection import Listener
from typing import Never

from device_plugin.config import Settings
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.link import LinkServer
from device_plugin.dp.resources import Resources
from device_plugin.inventory.functions import RESOURCE


def run(settings: Settings, listener: Listener) -> Never:
    """Serve until told to stop. Raises OSError when the registry cannot be used."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C: the supervisor stops us
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all threads: waited for below
    threading.excepthook = _die
    woken = threading.Event()

    def resources(allocations: Allocations) -> Resources:
        return Resources(
            settings.registry_dir,
            settings.pod_name,
            (f"{settings.resource_prefix}/mig-*", RESOURCE),
            settings.use_cdi,
            allocations,
            woken.set,
        )

    server = KubeletServer(resources, settings.listed_within_s)

    link = LinkServer(listener, server, woken)
    threading.Thread(target=link.run, name="link", daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    server.stop()
    os._exit(0)  # threads hold nothing that needs more than this


def _die(failure: threading.ExceptHookArgs) -> None:
    """A thread that ends leaves a process that looks alive: let the supervisor start us again."""
    threading.__excepthook__(failure)
    os._exit(1)
