"""Reads the metrics of inference pods on request, and keeps what rates need.

A pod is read through the API server's proxy, at most every five seconds however many viewers there
are. Pods are hostile: an answer has a bound, one that is expensive to parse is read less often, and
a page does not wait for a pod that is slow.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from console.model.exporters import Proxy
from console.model.metrics_port import MetricsPort
from console.model.serving_metrics import NAMES, Totals, read_totals
from gpu_operator import errors

MOST_BYTES: Final = 1 << 19
WITHIN_S: Final = 2.0  # for which a page waits
PAUSE_S: Final = 5.0
_REFUSED_S: Final = 60.0
_WINDOW_S: Final = 60.0
_STALE_S: Final = 600.0  # an older reading does not begin a rate
_COST: Final = 50  # times the CPU time of parsing: the shortest pause before the next reading
_AT_ONCE: Final = 8
_MOST_WAITING: Final = 128
_MOST_KEPT: Final = 512


@dataclass(frozen=True, slots=True)
class Target:
    """A pod and where it exposes metrics. A pod with another UID has other counters."""

    namespace: str
    name: str
    uid: str
    where: MetricsPort


@dataclass(slots=True)
class History:
    """The readings of one pod, the oldest first; ``problem`` states why the last one failed."""

    readings: list[tuple[float, Totals]] = field(default_factory=list)
    problem: str = ""
    due: float = 0.0

    def add(self, now_s: float, totals: Totals) -> None:
        """Add a reading; a server that has started again begins a new history."""
        self.problem = ""
        if self.readings:
            at, last = self.readings[-1]
            if _is_restarted(last, totals) or now_s - at > _STALE_S:
                self.readings.clear()
        self.readings.append((now_s, totals))
        while len(self.readings) > 2 and now_s - self.readings[1][0] >= _WINDOW_S:
            del self.readings[0]


@dataclass(slots=True)
class Inference:
    """Reads pods. ``proxy`` is None if the console has no connection that can."""

    proxy: Proxy | None
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[Target, History] = field(default_factory=OrderedDict)
    _running: dict[Target, asyncio.Task[None]] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def refresh(
        self, targets: Iterable[Target], within_s: float = WITHIN_S, *, all_due: bool = False
    ) -> None:
        """Read the pods that are due, or all, and wait for their answers for a while at most."""
        waiting = [task for target in targets if (task := self._begin(target, all_due)) is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=within_s)

    def history(self, target: Target) -> History:
        """Return what is known of a pod."""
        return self._kept.get(target) or History()

    def _begin(self, target: Target, is_due: bool) -> asyncio.Task[None] | None:
        """Return the running or a new task that reads a pod; None if none is due or possible."""
        history = self._kept.setdefault(target, History())
        self._kept.move_to_end(target)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        if target in self._running:
            return self._running[target]
        if target.where.problem or self.proxy is None:
            history.problem = target.where.problem or "no connection to an API server"
            return None
        is_due = is_due or self.clock() >= history.due
        if not is_due or len(self._running) >= _MOST_WAITING:
            return None
        task = asyncio.create_task(self._read(self.proxy, target, history))
        self._running[target] = task
        task.add_done_callback(lambda _: self._running.pop(target, None))
        return task

    async def _read(self, proxy: Proxy, target: Target, history: History) -> None:
        pause_s = PAUSE_S
        async with self._slots:
            try:
                body = await proxy.read_port(
                    target.namespace,
                    target.name,
                    target.where.port,
                    target.where.path,
                    MOST_BYTES,
                )
                now_s = self.clock()
                totals, cost_s = await asyncio.to_thread(_parse, body)
                pause_s = max(PAUSE_S, _COST * cost_s)
                if totals is None:
                    history.problem = f"the pod exposes none of {', '.join(NAMES)}"
                else:
                    history.add(now_s, totals)
            except errors.Refused as err:
                history.problem, pause_s = str(err), _REFUSED_S  # the message names the cause
            except errors.KubeError as err:
                history.problem = str(err)
        history.due = self.clock() + pause_s


def _is_restarted(last: Totals, new: Totals) -> bool:
    """Return whether a counter has decreased, or another server answers."""
    earlier_latency, later_latency = last.latency, new.latency
    has_shrunk = (
        earlier_latency is not None
        and later_latency is not None
        and later_latency.sum_s < earlier_latency.sum_s
    )
    return has_shrunk or new.server != last.server or new.requests < last.requests


def _parse(body: bytes) -> tuple[Totals | None, float]:
    """Return a server's counters, and the CPU time that parsing has taken."""
    began = time.thread_time()
    totals = read_totals(body.decode(errors="replace"))
    return totals, time.thread_time() - began
