"""An upgrade to an image that one node cannot pull: its gpud and hcad keep running, and programs
start.

The operator runs that image on the other node, so it renders the daemons' new pods.
"""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster import helm_release
from support.cluster.cluster_restarts import serving, settle
from support.cluster.kubectl import SYSTEM, Cluster, gpu_nodes, in_node, until

pytestmark = pytest.mark.alone
Manifest = Callable[..., dict[str, Any]]
TAG = "on-one-node"
IMAGES = ("ctr", "-n", "k8s.io", "images")
WITHOUT = ("ErrImagePull", "ImagePullBackOff")
# The daemons of which an upgrade starts new pods at once; agents follow gpud.
REPLACED = ("gpud", "hca", "links", "exporter")
STARTED_S = 2.0
BUSY = 2  # the slowest program in twenty may take twice as long
MORE_PROGRAMS = 10
# Each program measures the time until it has a context, which gpud would delay.
PROGRAMS = """
while true; do
  python -c '
import ctypes, time
begin = time.monotonic()
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
status = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
print(status, round(time.monotonic() - begin, 3), flush=True)
'
  sleep 0.5
done
"""
_SYSTEM = Cluster(SYSTEM)


@pytest.fixture
def nodes(whole_cluster: Cluster) -> tuple[str, str]:
    """The node that has the image and the one that lacks it."""
    first, second = gpu_nodes(whole_cluster)
    return first, second


@pytest.fixture
def upgrade(nodes: tuple[str, str]) -> Iterator[Callable[[], None]]:
    """A function that upgrades the release to the image; the previous release is restored at the
    end.
    """
    has_it, _ = nodes
    before = helm_release.values()
    image = before["image"]["repository"]
    in_node(has_it, *IMAGES, "tag", f"{image}:{before['image']['tag']}", f"{image}:{TAG}")
    begun = False

    def upgrade() -> None:
        nonlocal begun
        begun = True
        helm_release.upgrade(
            before,
            f"image.tag={TAG}",
            f"operator.nodeSelector.kubernetes\\.io/hostname={has_it}",
        )

    try:
        yield upgrade
    finally:
        if begun and helm_release.values() != before:
            helm_release.upgrade(before)
        for node in nodes:
            settle(node)
        in_node(has_it, *IMAGES, "rm", f"{image}:{TAG}")


def pods_without_image(component: str, node: str) -> list[str]:
    """Return the names of a component's pods on a node that wait for their image."""
    on_node = f"spec.nodeName={node}"
    label = f"app.kubernetes.io/component={component}"
    pods = _SYSTEM.get("pods", "-l", label, "--field-selector", on_node)["items"]
    return [
        pod["metadata"]["name"]
        for pod in pods
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in pod["status"].get(kind, ())
        if one["state"].get("waiting", {}).get("reason") in WITHOUT
    ]


def daemons(node: str) -> dict[str, tuple[str, int]]:
    """Return the ready pods of the daemons on a node that an upgrade replaces together, by UID, and
    their numbers of restarts.
    """
    return {uid: count for one in REPLACED for uid, count in serving(one, node).items()}


class Programs:
    """A pod that repeatedly starts a program, and prints when each has its context."""

    def __init__(self, cluster: Cluster, sample_pod: Manifest, node: str) -> None:
        self._cluster = cluster
        pod = sample_pod("running", node=node)
        pod["spec"]["containers"][0]["command"] = ["sh", "-c", PROGRAMS]
        cluster.apply(pod)
        cluster.wait_pod("running", "Running")
        self.run(1)

    def started_s(self) -> list[float]:
        """Return how long each program waited; all of them must have got their context."""
        lines = [line.split() for line in self._cluster.logs("running").splitlines()]
        assert {status for status, _ in lines} <= {"0"}, lines
        return [float(seconds) for _, seconds in lines]

    def run(self, more: int) -> None:
        """Return when ``more`` further programs have started."""
        before = len(self.started_s())
        until(lambda: len(self.started_s()) >= before + more, 60)


def test_an_image_that_a_node_lacks_leaves_gpud_and_hcad_running(
    namespace: Cluster, sample_pod: Manifest, nodes: tuple[str, str], upgrade: Callable[[], None]
) -> None:
    _, lacks_it = nodes
    settle(lacks_it)
    before = daemons(lacks_it)
    assert len(before) == 4
    programs = Programs(namespace, sample_pod, lacks_it)
    upgrade()
    until(lambda: all(pods_without_image(one, lacks_it) for one in REPLACED), 120)
    programs.run(MORE_PROGRAMS)
    assert daemons(lacks_it) == before
    namespace.apply(sample_pod("another", "--n", "1024", node=lacks_it, small=True))
    assert namespace.wait_pod("another")["status"]["phase"] == "Succeeded"
    rolled_back = ["helm", "rollback", helm_release.RELEASE, "-n", SYSTEM]
    subprocess.run(rolled_back, check=True, capture_output=True, timeout=helm_release.ENDS_S)
    for node in nodes:
        settle(node)
    until(lambda: not any(pods_without_image(one, lacks_it) for one in REPLACED), 60)
    programs.run(MORE_PROGRAMS)
    assert daemons(lacks_it) == before
    started_s = sorted(programs.started_s())
    print(f"{len(started_s)} programs, the slowest starts {started_s[-3:]} s")
    assert started_s[-1 - len(started_s) // 20] < STARTED_S
    assert started_s[-1] < STARTED_S * BUSY
