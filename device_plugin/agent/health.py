"""The agent's probes: ``/healthz`` (the loop runs) and ``/readyz`` (its passes succeed)."""

import http.server
import time
from collections.abc import Callable

from prometheus_client.registry import Collector

from device_plugin import serving
from device_plugin.agent.passes import Pulse
from device_plugin.serving import Answer

STALE_AFTER_S = 120.0
SUPERVISOR_SILENT_S = 30.0  # it writes a heartbeat every second


def evaluate_probe(
    path: str, pulse: Pulse, now_s: float, supervisor_silent_s: float = 0.0
) -> tuple[int, str]:
    """Return the HTTP status and text with which to answer a probe.

    ``supervisor_silent_s`` is the time since the last heartbeat of the container's supervisor,
    without which no process is restarted. A loop that cannot reach gpud or the API server counts
    as alive: a restart would not help it.
    """
    match path:
        case "/healthz" | "/livez":
            moment, milestone = pulse.began, "begun"
        case "/readyz":
            moment, milestone = pulse.succeeded, "succeeded"
        case _:
            return 404, "probes: /healthz, /readyz\n"
    if supervisor_silent_s > SUPERVISOR_SILENT_S:
        return 503, f"the supervisor has done nothing for {supervisor_silent_s:.0f} s\n"
    if moment is None:
        return 503, f"no pass has {milestone} yet\n"
    age_s = now_s - moment
    if age_s > STALE_AFTER_S:
        return 503, f"no pass has {milestone} for {age_s:.0f} s\n"
    return 200, "ok\n"


def server(
    port: int,
    pulse: Pulse,
    clock: Callable[[], float] = time.monotonic,
    metrics: Collector | None = None,
    supervisor_silent_s: Callable[[], float] = lambda: 0.0,
) -> http.server.ThreadingHTTPServer:
    """Return a server for the probes, bound to ``port`` (0: any) on all addresses.

    With ``metrics`` it serves ``/metrics``, too.

    Raises:
        OSError: the port is taken.
    """

    def answer(path: str, accept: str) -> Answer:
        if path == "/metrics" and metrics is not None:
            return serving.exposition(metrics, accept)
        return serving.text(*evaluate_probe(path, pulse, clock(), supervisor_silent_s()))

    return serving.server(port, answer)
