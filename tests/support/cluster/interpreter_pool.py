"""A pool on the control plane's node whose kernels the interpreter executes.

The tests marked ``backend`` run a second time there, beside all other lanes: the environment
variable names that run, and its pods go to that node.
"""

import contextlib
import os
from collections.abc import Iterator

from support.cluster.control_plane import control_plane_pool
from support.cluster.kubectl import Cluster, layout_of, until

POOL = "e2e-interpreter"
VARIABLE = "TESSERA_E2E_BACKEND"
INTERPRETER = "Interpreter"
_GPUS = ("gpu.tessera.dev/mig-1g.10gb", "7"), ("gpu.tessera.dev/gpu", "1")


def is_chosen() -> bool:
    """Return whether this process runs the tests on the interpreter."""
    backend = os.environ.get(VARIABLE, "")
    assert backend in ("", INTERPRETER), f"{VARIABLE}={backend}: the value may be {INTERPRETER}"
    return backend == INTERPRETER


@contextlib.contextmanager
def interpreter_pool(cluster: Cluster) -> Iterator[str]:
    """Make the pool and its layout, those of the demo with another backend; yield its node."""
    layout = layout_of("1g.10gb", 7, POOL, pool=POOL, indices=[0])
    settings = {"board": "h100-80gb", "count": 2, "backend": INTERPRETER, "nodeBudget": "2Gi"}
    with control_plane_pool(cluster, POOL, **settings) as node:

        def is_offered() -> bool:
            offered = cluster.get("node", node)["status"]["allocatable"]
            return all(offered.get(resource) == count for resource, count in _GPUS)

        try:
            cluster.apply(layout)
            wait = ("wait", "--for=condition=Ready", f"miglayout/{POOL}", "--timeout=180s")
            cluster.kubectl(*wait)
            until(is_offered, 60)
            yield node
        finally:
            cluster.delete("miglayout", POOL)
