"""``helm test``: is what was installed there, and does it work?"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from gpu_operator import errors
from gpu_operator.config import Identity
from gpu_operator.kube.port import Kube

_KINDS = ("GPUPool", "GPU", "MIGLayout", "GPUPolicy")
_TIMEOUT_S = 60.0


async def check(kube: Kube, identity: Identity, deployment: str, say: Callable[[str], Any]) -> int:
    """Return 0 when all is well within a minute, 1 otherwise; says what it found."""
    end = time.monotonic() + _TIMEOUT_S
    while True:
        problems = await _problems(kube, identity.namespace, deployment)
        if not problems:
            say(f"{', '.join(_KINDS)} are served; {deployment} is available and holds its lease")
            return 0
        if time.monotonic() >= end:
            for problem in problems:
                say(f"problem: {problem}")
            return 1
        await asyncio.sleep(1)


async def _problems(kube: Kube, namespace: str, deployment: str) -> list[str]:
    problems = []
    for kind in _KINDS:
        try:
            await kube.list(kind)
        except errors.KubeError as err:
            problems.append(f"{kind} is not served: {err}")
    try:
        found = await kube.get("Deployment", deployment, namespace)
        if not (found.get("status") or {}).get("availableReplicas"):
            problems.append(f"Deployment {deployment} has no available replica")
        lease = await kube.get("Lease", deployment, namespace)
        if not lease["spec"].get("holderIdentity"):
            problems.append(f"nobody holds lease {deployment}")
    except errors.KubeError as err:
        problems.append(str(err))
    return problems
