"""Follows gpud's events: tells it holders when it wants them, and users what befell their pods."""

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

_RETRY_S = 0.5
_LIST_INTERVAL_S = 0.25  # whoever asks more often gets the reconcile loop's next List
_log = logging.getLogger(__name__)


def describe(event: dict[str, Any]) -> tuple[Reason, str] | None:
    """Return reason and message for a user, or None for an event that is not for users."""
    name = event["event"]
    if name == "fault":
        return Reason.FAULTED, f"{_place(event)}{event.get('message') or 'fault'}"
    if name == "unsupported_ptx":
        return Reason.UNSUPPORTED_PTX, str(event.get("message") or "unsupported PTX")
    if name == "out_of_memory":
        return Reason.OUT_OF_BUDGET, _shortage(event)
    if name == "fenced":
        return Reason.FENCED, str(event.get("reason") or "fenced")
    if name == "refused":
        return Reason.SLICE_IN_USE, f"no context: {event.get('reason') or 'refused'}"
    if name == "worker_failed":
        return Reason.AGENT_ERROR, f"no context: {event.get('message') or 'worker failed'}"
    return None


def _shortage(event: dict[str, Any]) -> str:
    """Return what was free where: a slice can have room that the node has not."""
    asked, of_slice, slice_total, of_node, node_total = (
        f"{int(event.get(key) or 0) >> 20} MiB"
        for key in (
            "requested_bytes",
            *("slice_free_bytes", "slice_total_bytes"),
            *("node_free_bytes", "node_total_bytes"),
        )
    )
    return (
        f"{asked} asked for; free are {of_slice} of the slice's {slice_total} and {of_node} of the"
        f" node's memory budget of {node_total}, which all its slices share"
    )


def _place(event: dict[str, Any]) -> str:
    """Return where a kernel faulted; empty when it was no kernel, or nobody lived to say which."""
    if not event.get("kernel"):
        return ""
    line = f", PTX line {event['ptx_line']}" if event.get("ptx_line") else ""
    return f"kernel {event['kernel']}{line}: "


class EventFollower:
    """One thread; reconnects when gpud restarts."""

    def __init__(
        self, gpud: Gpud, holders: Holders, notices: Notices, poke: Callable[[], None]
    ) -> None:
        self._gpud = gpud
        self._holders = holders
        self._notices = notices
        self._poke = poke

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
        # gpud forgets holders when it restarts; a flood of questions must not become one of Lists.
        if name == SUBSCRIBED or (
            name == "holders_wanted" and self._holders.age_s() >= _LIST_INTERVAL_S
        ):
            self._refresh()
        self._tell_user(event)
        self._poke()

    def _refresh(self) -> None:
        try:
            self._holders.refresh()
        except AgentError as err:
            _log.warning("holders not refreshed: %s", err)

    def _tell_user(self, event: dict[str, Any]) -> None:
        described = describe(event)
        pod = self._holders.pod(str(event.get("pod_uid", "")))
        if described is None or pod is None:
            return
        if not self._notices.post(pod, *described):
            _log.info("%s/%s: too many events, one left out", pod.namespace, pod.name)
