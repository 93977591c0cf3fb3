"""Waits after ``helm upgrade`` until the operator with the new configuration has taken over.

Until then the conditions of pools, layouts and policies are those of the previous operator, so
``Ready`` may describe the state before the upgrade. Helm waits for this command (a hook of the
chart); after ``helm upgrade`` every condition is the new operator's.
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
    """What ``await_takeover`` waits for.

    It waits until the holder of the Lease ``lease`` has applied ``configuration``, at most
    ``timeout_s`` seconds.
    """

    namespace: str
    lease: str
    configuration: str
    timeout_s: float


async def await_takeover(
    kube: Kube,
    expected_takeover: Takeover,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Wait until the lease's holder has reconciled every object with the wanted configuration.

    Return 0 when that is done, and 1 on timeout.
    """
    end = clock() + expected_takeover.timeout_s
    while True:
        problem = await _find_problem(kube, expected_takeover)
        if not problem:
            say("the operator has reconciled every object with the new configuration")
            return 0
        if clock() >= end:
            say(f"problem: {problem}; see the pods of Deployment {expected_takeover.lease}")
            return 1
        await sleep(_LOOK_AGAIN_S)


async def _find_problem(kube: Kube, expected_takeover: Takeover) -> str:
    try:
        lease = await kube.get("Lease", expected_takeover.lease, expected_takeover.namespace)
    except errors.KubeError as err:
        return str(err)
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    annotation = (lease["metadata"].get("annotations") or {}).get(CONFIGURATION, "")
    if not holder:
        return f"no operator holds lease {expected_takeover.lease}"
    if annotation != f"{expected_takeover.configuration} {holder}":
        return f"operator {holder} has not reconciled every object with the new configuration yet"
    return ""
