"""Composition root of the node agent: ``tessera-device-plugin``."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Never

from device_plugin import config
from device_plugin.agent import health, libraries
from device_plugin.agent.events import EventFollower
from device_plugin.agent.holders import Holders
from device_plugin.agent.loop import Agent
from device_plugin.agent.notices import Notices
from device_plugin.backends.gpud import Gpud
from device_plugin.config import Settings
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.resources import Resources
from device_plugin.errors import AgentError, ClusterError
from device_plugin.kube.client import Kube
from device_plugin.podresources.client import PodResources

_log = logging.getLogger(__name__)


def main() -> None:
    """Serve this node's slices until told to stop. Exits with 1 and one line if it cannot."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    try:
        settings = config.from_environment()
        run(settings, Kube(settings.node_name))
    except (AgentError, OSError, ValueError) as err:
        sys.exit(f"tessera-device-plugin: {err}")


def run(settings: Settings, kube: Kube) -> None:
    """Wire everything and serve. Raises OSError when a file, socket or port cannot be had."""
    wake = threading.Event()
    gpud = Gpud(settings.gpud_socket)
    pods = PodResources(settings.pod_resources_socket, settings.pod_logs_dir)
    holders = Holders(pods, gpud, settings.resource_prefix, settings.pod_name)
    notices = Notices(kube)
    allocations = Allocations()
    directory = libraries.install(settings.libraries_dir)
    resources = Resources(
        settings.registry_dir,
        settings.pod_name,
        settings.resource_prefix,
        settings.use_cdi,
        allocations,
        wake.set,
    )
    agent = Agent(settings, gpud, holders, kube, resources, allocations, directory, wake)
    probes = health.server(settings.health_port, agent.pulse)

    def stop(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        resources.stop()
        os._exit(0)  # threads hold nothing that needs more than this

    threading.excepthook = _die
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    _start("gpud-events", EventFollower(gpud, holders, notices, wake.set).run)
    _start("pod-events", notices.run)
    _start("gpu-watch", lambda: _watch(kube, wake))
    _start("reconcile", agent.run)
    probes.serve_forever()


def _start(name: str, body: Callable[[], Never]) -> None:
    threading.Thread(target=body, name=name, daemon=True).start()


def _die(failure: threading.ExceptHookArgs) -> None:
    """A thread that ends leaves a node that looks alive: let the kubelet start us again."""
    threading.__excepthook__(failure)
    os._exit(1)


def _watch(kube: Kube, wake: threading.Event) -> Never:
    while True:
        try:
            for _ in kube.changes():
                wake.set()
        except ClusterError as err:
            _log.info("watch ended: %s", err)
        time.sleep(1)


if __name__ == "__main__":
    main()
