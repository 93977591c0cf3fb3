"""After ``helm upgrade``: has the operator of the new configuration taken over?

Until it has, the conditions of pools, layouts and policies are those that its predecessor wrote, so
``Ready`` may be true of what the upgrade is about to change. Helm waits for this command (a hook of
the chart), so that after ``helm upgrade`` a condition is the new operator's.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import CONFIGURATION
from gpu_operator.kube.port import Kube

_LOOK_AGAIN_S = 0.5
Say = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Takeover:
    """What is waited for, and for how long."""

    namespace: str
    lease: str
    configuration: str
    timeout_s: float


async def await_takeover(
    kube: Kube,
    wanted: Takeover,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Return 0 once the holder of the lease has reconciled everything by it, 1 when time is up."""
    end = clock() + wanted.timeout_s
    while True:
        problem = await _problem(kube, wanted)
        if not problem:
            say("the operator has reconciled everything by the new configuration")
            return 0
        if clock() >= end:
            say(f"problem: {problem}: see the pods of Deployment {wanted.lease}")
            return 1
        await sleep(_LOOK_AGAIN_S)


async def _problem(kube: Kube, wanted: Takeover) -> str:
    try:
        lease = await kube.get("Lease", wanted.lease, wanted.namespace)
    except errors.KubeError as err:
        return str(err)
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    done = (lease["metadata"].get("annotations") or {}).get(CONFIGURATION, "")
    if not holder:
        return f"no operator holds lease {wanted.lease}"
    if done != f"{wanted.configuration} {holder}":
        return f"operator {holder} has not reconciled everything by the new configuration"
    return ""
