"""Shutdown of a node agent, after the scheduler has stopped binding pods to the node's devices.

When the agent ends, the kubelet counts its devices as unhealthy and rejects pods that are bound
to them. So the agent first reports that it admits no pod, then waits until the operator has
lowered the node's ``allocatable``, just after one of the kubelet's own writes (ADR 108), and
then ends. All steps share one deadline, which starts at SIGTERM: the supervisor kills an agent
that misses it.
"""

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol

from device_plugin.agent.leaving.allocatable import LOOK_AGAIN_S, AllocatableWatch
from device_plugin.kube.node_status import NodeStatus

_REPORT_S = 3.0  # the pass that runs at that moment, and the report after it
_log = logging.getLogger(__name__)


class Deadline:
    """The time by which the agent must end: ``within_s`` seconds after SIGTERM.

    A thread of this object waits for SIGTERM. The deadline therefore does not move if another
    thread reacts to SIGTERM late. SIGTERM must be blocked in all threads. It may arrive while
    the agent is still starting.
    """

    def __init__(
        self,
        within_s: float,
        sigwait: Callable[[], object] = lambda: signal.sigwait({signal.SIGTERM}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._within_s = within_s
        self._sigwait = sigwait
        self._clock = clock
        self._at = math.inf
        self._is_set = threading.Event()
        threading.Thread(target=self._set, name="sigterm", daemon=True).start()

    def wait_for_signal(self) -> None:
        """Wait for SIGTERM."""
        self._is_set.wait()

    def left_s(self) -> float:
        """Return the seconds until the deadline; infinite before SIGTERM."""
        return max(0.0, self._at - self._clock())

    def _set(self) -> None:
        self._sigwait()
        self._at = self._clock() + self._within_s
        self._is_set.set()


class Leaver(Protocol):
    """The part of the agent that ``depart`` uses."""

    @property
    def served(self) -> Collection[str]: ...
    def report_leaving(self, within_s: float) -> None: ...
    def stop_writing_cdi(self) -> None: ...


def depart(agent: Leaver, look: Callable[[], NodeStatus], deadline: Deadline) -> None:
    """Shut the agent down.

    This returns when the agent's process may end, at the deadline at the latest.
    """
    agent.report_leaving(
        min(_REPORT_S, deadline.left_s())
    )  # pods that are already bound are still admitted
    served, left_s = agent.served, deadline.left_s
    waits = threading.Thread(
        target=lambda: wait_until_lowered(served, look, left_s()), name="departure", daemon=True
    )
    waits.start()
    waits.join(left_s())  # a request to the API server may take longer than the time that is left
    agent.stop_writing_cdi()


def wait_until_lowered(
    resources: Collection[str],
    look: Callable[[], NodeStatus],
    longest_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until the scheduler sees that the node has no devices of these resources.

    Return False if that takes longer than ``longest_s`` seconds.
    """
    resource_names = frozenset(resources)
    watch = AllocatableWatch(look, clock)
    end = clock() + longest_s
    while late := resource_names - watch.find_lowered(resource_names, {}):
        remaining_s = end - clock()
        if remaining_s <= 0:
            _log.warning(
                "the node's allocatable of %s did not stay lowered within %g s: a pod that is"
                " bound to one of their devices now fails",
                ", ".join(sorted(late)),
                longest_s,
            )
            return False
        pause(min(LOOK_AGAIN_S, remaining_s))
    return True
