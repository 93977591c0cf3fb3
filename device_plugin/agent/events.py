"""Turns gpud's events into Kubernetes events on the user's own pod."""

import logging
import time
from collections.abc import Callable
from typing import Any

from device_plugin.agent.holders import Holders
from device_plugin.backends.gpud import Gpud
from device_plugin.errors import ClusterError, GpudUnreachable
from device_plugin.kube.client import Kube
from gpu_operator.api.v1alpha1.base import Reason

_RETRY_S = 1.0
_log = logging.getLogger(__name__)


def describe(event: dict[str, Any]) -> tuple[Reason, str] | None:
    """Return reason and message for a user, or None for an event that is not for users."""
    name = event["event"]
    if name == "fault":
        where = f"kernel {event.get('kernel') or '?'}"
        if event.get("ptx_line"):
            where += f", PTX line {event['ptx_line']}"
        return Reason.FAULTED, f"{where}: {event.get('message') or 'fault'}"
    if name == "unsupported_ptx":
        return Reason.UNSUPPORTED_PTX, str(event.get("message", ""))
    if name == "out_of_memory":
        return Reason.OUT_OF_BUDGET, (
            f"{event.get('requested_bytes')} bytes asked for, {event.get('free_bytes')} free"
        )
    if name == "fenced":
        return Reason.FENCED, str(event.get("reason", ""))
    return None


def follow(gpud: Gpud, holders: Holders, kube: Kube, poke: Callable[[], None]) -> None:
    """Handle gpud's events for ever; reconnects when gpud restarts."""
    while True:
        try:
            for event in gpud.events():
                if event["event"] == "holders_wanted":
                    holders.try_refresh()
                _post(event, holders, kube)
                poke()
        except GpudUnreachable as err:
            _log.info("waiting for gpud: %s", err)
        time.sleep(_RETRY_S)


def _post(event: dict[str, Any], holders: Holders, kube: Kube) -> None:
    described = describe(event)
    pod = holders.pod(str(event.get("pod_uid", "")))
    if described is None or pod is None:
        return
    reason, message = described
    try:
        kube.pod_event(pod, reason.value, message)
    except ClusterError as err:
        _log.warning("event on %s/%s not written: %s", pod.namespace, pod.name, err)
