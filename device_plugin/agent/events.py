"""Follows gpud's events: refreshes the holders when gpud requests it, and posts events on pods."""

import logging
import time
from collections.abc import Callable
from typing import Any, Never

from device_plugin.agent.holders import Holders
from device_plugin.agent.reporting.notices import Notices
from device_plugin.backends.administration import SUBSCRIBED
from device_plugin.backends.gpud import Gpud
from device_plugin.errors import AgentError, GpudUnreachable
from gpu_operator.api.v1alpha1.base import Reason
from vgpu_sim.hal.management import shortage

_RETRY_S = 0.5
_LIST_INTERVAL_S = 0.25  # more frequent requests are served by the reconcile loop's next List
_log = logging.getLogger(__name__)


def describe(event: dict[str, Any]) -> tuple[Reason, str] | None:
    """Return the reason and the message with which users are notified of an event of gpud.

    The result is None if users need not be notified of the event.
    """
    name = event["event"]
    if name == "fault":
        return Reason.FAULTED, f"{_place(event)}{event.get('message') or 'fault'}"
    if name == "unsupported_ptx":
        return Reason.UNSUPPORTED_PTX, str(event.get("message") or "unsupported PTX")
    if name == "out_of_memory":
        return Reason.OUT_OF_BUDGET, shortage.describe(event, "node")
    if name == "fenced":
        return Reason.FENCED, str(event.get("reason") or "fenced")
    if name == "refused":
        return Reason.SLICE_IN_USE, f"no context: {event.get('reason') or 'refused'}"
    if name == "worker_failed":
        return Reason.AGENT_ERROR, f"no context: {event.get('message') or 'worker failed'}"
    return None


def _place(event: dict[str, Any]) -> str:
    """Return the kernel and source line of a fault; empty if the event names no kernel."""
    if not event.get("kernel"):
        return ""
    line = f", PTX line {event['ptx_line']}" if event.get("ptx_line") else ""
    return f"kernel {event['kernel']}{line}: "


class EventFollower:
    """Handles gpud's events in one thread; reconnects when gpud restarts."""

    def __init__(
        self,
        gpud: Gpud,
        holders: Holders,
        notices: Notices,
        wake: Callable[[], None],
        on_unlisted: Callable[[str], None] = lambda slice_uuid: None,
    ) -> None:
        """Initialize; ``on_unlisted`` is called if a pod that no List has wants to use a slice."""
        self._gpud = gpud
        self._holders = holders
        self._notices = notices
        self._wake = wake
        self._on_unlisted = on_unlisted

    def run(self) -> Never:
        """Handle events until the process ends."""
        waiting = False
        while True:
            try:
                for event in self._gpud.events():
                    waiting = False
                    self._handle(event)
            except GpudUnreachable as err:
                if not waiting:
                    _log.warning("waiting for gpud: %s", err)
                waiting = True
            time.sleep(_RETRY_S)

    def _handle(self, event: dict[str, Any]) -> None:
        name = event["event"]
        # gpud forgets holders when it restarts. Its requests are limited, so that many of them do
        # not cause as many Lists.
        if name == SUBSCRIBED or (
            name == "holders_wanted" and self._holders.age_s() >= _LIST_INTERVAL_S
        ):
            self._refresh()
        if name == "holders_wanted":
            slice_uuid, pod_uid = str(event.get("instance", "")), str(event.get("pod_uid", ""))
            listed = self._holders.last_view().holders.get(slice_uuid, ())
            if pod_uid not in {pod.uid for pod in listed}:
                self._on_unlisted(slice_uuid)
        self._notify_pod(event)
        self._wake()

    def _refresh(self) -> None:
        try:
            self._holders.refresh()
        except AgentError as err:
            _log.warning("holders not refreshed: %s", err)

    def _notify_pod(self, event: dict[str, Any]) -> None:
        described = describe(event)
        pod = self._holders.pod(str(event.get("pod_uid", "")))
        if described is None or pod is None:
            return
        if not self._notices.post(pod, *described):
            _log.info("%s/%s: too many events, one dropped", pod.namespace, pod.name)
