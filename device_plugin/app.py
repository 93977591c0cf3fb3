"""Composition root of the node agent: ``tessera-device-plugin``."""

import http.server
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Never

from device_plugin import config
from device_plugin.agent import events, libraries
from device_plugin.agent.holders import Holders
from device_plugin.agent.loop import Agent
from device_plugin.backends.gpud import Gpud
from device_plugin.dp.resources import Resources
from device_plugin.errors import ClusterError
from device_plugin.kube.client import Kube
from device_plugin.podresources.client import PodResources

_STALE_AFTER_S = 120.0
_log = logging.getLogger(__name__)


def main() -> None:
    """Serve this node's slices until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    settings = config.from_environment()
    wake = threading.Event()
    gpud = Gpud(settings.gpud_socket)
    kube = Kube(settings.node_name)
    holders = Holders(
        PodResources(settings.pod_resources_socket, settings.pod_logs_dir),
        gpud,
        settings.resource_prefix,
    )
    resources = Resources(
        settings.registry_dir,
        settings.pod_name,
        settings.resource_prefix,
        settings.use_cdi,
        wake.set,
    )
    directory = libraries.install(settings.libraries_dir)
    agent = Agent(settings, gpud, holders, kube, resources, directory, wake)

    def stop(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        resources.stop()
        os._exit(0)  # threads hold nothing that needs more than this

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    _start("gpu-watch", lambda: _watch(kube, wake))
    _start("gpud-events", lambda: events.follow(gpud, holders, kube, wake.set))
    _start("reconcile", lambda: _reconcile(agent))
    _serve_health(settings.health_port, agent)


def _start(name: str, body: Callable[[], None]) -> None:
    def run() -> None:
        try:
            body()
        finally:
            # A thread that ends leaves a node that looks alive: let the kubelet start us again.
            _log.critical("thread %s ended", name)
            os._exit(1)

    threading.Thread(target=run, name=name, daemon=True).start()


def _reconcile(agent: Agent) -> Never:
    while True:
        try:
            agent.run()
        except OSError as err:
            _log.warning("will retry: %s", err)
            time.sleep(1)


def _watch(kube: Kube, wake: threading.Event) -> Never:
    while True:
        try:
            for _ in kube.changes():
                wake.set()
        except ClusterError as err:
            _log.info("watch ended: %s", err)
        time.sleep(1)


def _serve_health(port: int, agent: Agent) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            alive = time.monotonic() - agent.last_pass < _STALE_AFTER_S
            self.send_response(200 if alive else 503)
            self.end_headers()
            self.wfile.write(b"ok\n" if alive else b"no pass for two minutes\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    http.server.ThreadingHTTPServer(("", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
