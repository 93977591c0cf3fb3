"""``tessera-exporter``: serves ``/metrics`` and ``/health`` until SIGTERM."""

import logging
import os
import signal
import sys
import threading

from prometheus_client.registry import Collector

from device_plugin import config, serving
from device_plugin.errors import SettingsError
from device_plugin.exporter.collector import InventoryCollector, NodeCollector, exposition
from device_plugin.exporter.rdma_collector import TrafficCollector
from device_plugin.exporter.source import Source
from device_plugin.exporter.traffic import TrafficSource
from device_plugin.serving import Answer

_PAGE = (
    b"<html><head><title>Tessera exporter</title></head>"
    b'<body><a href="/metrics">Metrics</a></body></html>\n'
)


def answer(collector: Collector, path: str, accept: str) -> Answer:
    """Return the answer to a GET request for ``path``."""
    match path:
        case "/metrics":
            return exposition(collector, accept)
        case "/health" | "/healthz":
            return serving.text(200, "ok\n")
        case "/":
            return Answer(200, _PAGE, "text/html; charset=utf-8")
        case _:
            return serving.text(404, "/metrics, /health\n")


def main() -> None:
    """Serve metrics until SIGTERM; on an error, print one line and exit with 1."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = {signal.SIGTERM, signal.SIGINT}
    # blocked in all threads; the main thread waits for it below
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    try:
        settings = config.exporter_from_environment()
        node = settings.node_name
        collector = NodeCollector(
            InventoryCollector(Source(settings.socket), node),
            TrafficCollector(TrafficSource(settings.rdma_socket), node),
        )
        server = serving.server(settings.port, lambda path, accept: answer(collector, path, accept))
    except (SettingsError, OSError) as err:
        sys.exit(f"tessera-exporter: {err}")
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    logging.getLogger(__name__).info("listening on port %d", server.server_address[1])
    signal.sigwait(stop)
    os._exit(0)  # no thread needs a larger stack


if __name__ == "__main__":
    main()
