"""Pods in which containers of every kind use a GPU."""

import copy
from typing import Any

_ONCE = 'test -e /files/failed || { touch /files/failed; "$@"; exit 1; }; exec "$@"'


def with_containers(pod: dict[str, Any], *kinds: str) -> dict[str, Any]:
    """Return a pod in which one container of each of these kinds runs the pod's program.

    The kinds are ``init``, ``restarted`` (an init container that computes, fails once and is
    started again), ``sidecar`` and ``main``. Without ``main``, the main container has no GPU.
    """
    result = copy.deepcopy(pod)
    spec = result["spec"]
    (program,) = spec["containers"]
    spec["initContainers"] = []
    spec["restartPolicy"] = "OnFailure"
    spec["volumes"] = [{"name": "files", "emptyDir": {}}]
    if "main" not in kinds:
        idle = {key: program[key] for key in ("image", "imagePullPolicy")}
        spec["containers"] = [{**idle, "name": "main", "command": ["true"]}]
    for number, kind in enumerate(one for one in kinds if one != "main"):
        container = {**program, "name": f"{kind}-{number}"}
        if kind == "sidecar":
            container["restartPolicy"] = "Always"
            container["command"] = [*program["command"], "--hold", "600"]
        if kind == "restarted":
            container["command"] = ["sh", "-c", _ONCE, "sh", *program["command"]]
            container["volumeMounts"] = [{"name": "files", "mountPath": "/files"}]
        spec["initContainers"].append(container)
    return result
