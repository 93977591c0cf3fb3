"""The end of a node agent: not before the scheduler has stopped binding pods to the node's devices.

When the agent ends, the kubelet counts its devices as unhealthy and rejects pods that are bound to
them. So the agent first reports that it admits no pod, then waits until the operator has lowered
the node's ``allocatable``, just after one of the kubelet's own writes (ADR 108), and then ends.
"""

import logging
import time
from collections.abc import Callable, Collection

from device_plugin.agent.allocatable import LOOK_AGAIN_S, AllocatableWatch
from device_plugin.kube.node_status import NodeStatus

_log = logging.getLogger(__name__)


def wait_until_lowered(
    resources: Collection[str],
    look: Callable[[], NodeStatus],
    longest_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until the scheduler sees none of these resources; return whether it does in time."""
    wanted = frozenset(resources)
    watch = AllocatableWatch(look, clock)
    end = clock() + longest_s
    while late := wanted - watch.lowered(wanted, {}):
        left = end - clock()
        if left <= 0:
            _log.warning(
                "the node's allocatable of %s did not stay lowered within %g s: a pod that is"
                " bound to one of their devices now fails",
                ", ".join(sorted(late)),
                longest_s,
            )
            return False
        pause(min(LOOK_AGAIN_S, left))
    return True
