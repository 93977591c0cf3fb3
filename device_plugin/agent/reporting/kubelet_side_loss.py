"""Reports in the status of GPUs that the node cannot admit pods."""

import logging
from collections.abc import Callable

from device_plugin.agent.reporting.reporter import Reporter
from device_plugin.errors import ClusterError, KubeletSideLost, KubeletSideSilent
from device_plugin.kube.gpu_watch import Gpus

LOST_S = 5.0  # longer than a restart of the process takes
_log = logging.getLogger(__name__)


class KubeletSideLoss:
    """The loss of the processes that serve the kubelet. Used by the reconcile thread only."""

    def __init__(self, reporter: Reporter, gpus: Gpus, clock: Callable[[], float]) -> None:
        self._reporter = reporter
        self._gpus = gpus
        self._clock = clock
        self._since: float | None = None

    def clear(self) -> None:
        """Record that the processes answer; the next status that a pass writes is a full one."""
        self._since = None

    def report(self, err: KubeletSideLost) -> None:
        """Write the status of the node's GPUs: at once if a process hangs, else after a while."""
        now_s = self._clock()
        self._since = now_s if self._since is None else self._since
        if not isinstance(err, KubeletSideSilent) and now_s - self._since < LOST_S:
            return
        try:
            self._reporter.report_not_admitting(self._gpus.gpus(), str(err))
        except ClusterError as failure:
            _log.warning("status not written: %s", failure)
