"""Where a pod exposes metrics: discovered as Prometheus's usual configuration does.

A pod is a candidate if the annotation ``prometheus.io/scrape`` is "true", or without it if a
container's port is named ``metrics`` or ``http-metrics``. A pod's author chooses these values, so
a path that could leave the pod is refused.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_PORT_NAMES: Final = ("metrics", "http-metrics")
_PREFIX: Final = "prometheus.io/"
_PATH: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?|/")
_LONGEST_PATH: Final = 200
_MOST_PORTS: Final = 64
_DEFAULT: Final = "/metrics"


@dataclass(frozen=True, slots=True)
class MetricsPort:
    """A port and path; ``problem`` states why they cannot be read."""

    port: int = 0
    path: str = _DEFAULT
    problem: str = ""


def read_metrics_port(document: Mapping[str, Any]) -> MetricsPort | None:
    """Return where a pod exposes metrics, or None if it does not state that it does."""
    noted = (document.get("metadata") or {}).get("annotations") or {}
    scrape = str(noted.get(f"{_PREFIX}scrape", "")).lower()
    ports = dict(_ports(document.get("spec") or {}))
    named = next((ports[name] for name in _PORT_NAMES if name in ports), None)
    if scrape != "true":
        return MetricsPort(named) if named is not None and not scrape else None
    path = str(noted.get(f"{_PREFIX}path") or _DEFAULT)
    path = path if path.startswith("/") else f"/{path}"
    if len(path) > _LONGEST_PATH or _PATH.fullmatch(path) is None:
        return MetricsPort(problem=f"{_PREFIX}path: not a plain path: {path[:80]!r}")
    scheme = str(noted.get(f"{_PREFIX}scheme") or "http")
    if scheme != "http":
        return MetricsPort(problem=f"{_PREFIX}scheme: only http is read, not {scheme[:20]!r}")
    text = str(noted.get(f"{_PREFIX}port") or "")
    if not text:
        port = named if named is not None else next(iter(ports.values()), None)
    else:
        port = ports[text] if text in ports else _number(text)
    if port is None:
        return MetricsPort(problem=f"{_PREFIX}port: {text[:40]!r} is no port of the pod")
    return MetricsPort(port, path)


def _ports(spec: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the names and numbers of the TCP ports; a number stands for an absent name."""
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    container_ports = (
        container_port
        for container in containers
        for container_port in container.get("ports") or ()
    )
    for _, container_port in zip(range(_MOST_PORTS), container_ports, strict=False):
        port = container_port.get("containerPort")
        if container_port.get("protocol", "TCP") == "TCP" and isinstance(port, int):
            yield str(container_port.get("name") or port), port


def _number(text: str) -> int | None:
    if text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536:
        return int(text)
    return None
