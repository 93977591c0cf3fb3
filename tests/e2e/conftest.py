"""Fixtures of the end-to-end tests: the real cluster, a namespace for each test, sample pods."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster import interpreter_pool
from support.cluster.cluster_lock import ClusterLock, Scopes, do_once
from support.cluster.control_plane import place
from support.cluster.kubectl import SAMPLE_IMAGE, SMALL, Cluster, gpu_nodes, layout_of, until
from support.cluster.lanes import CONTROL_PLANE, EARLY, FIRST, LATE, alone_on, lane_of, used_by
from support.cluster.rdma_nodes import two_nodes
from support.cluster.restored_cluster import restore_cluster

RESTRICTED_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


_held = ClusterLock()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test with its lane: lanes run in separate processes, some of them concurrently."""
    needs_slices = item.get_closest_marker("slices") is not None
    item.add_marker(lane_of(item.path.name, needs_slices=needs_slices))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files so that the tests wait as little as possible."""

    def place(item: pytest.Item) -> int:
        name = item.path.name
        if name in LATE:
            return 1 + LATE.index(name)
        before = FIRST + EARLY
        return before.index(name) - len(before) if name in before else 0

    items.sort(key=place)


def _alone(item: pytest.Item | None) -> Scopes:
    """Return the parts of the cluster that a test must have alone.

    A test that has failed beside others gets all of them at its second run.
    """
    if item is None:
        return frozenset()
    if item.config.getoption("--failed-alone"):
        return alone_on()
    marker = item.get_closest_marker("alone")
    return alone_on(*marker.args) if marker else frozenset()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # waiting does not count as the test's time
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Run a test marked ``alone`` while no other process runs a test on its part of the cluster.

    Consecutive such tests of one file keep the lock: a fixture of the file may have changed the
    whole cluster for them.
    """
    if not _held.locked:
        used = used_by(one.name for one in item.iter_markers())
        shared = CONTROL_PLANE if interpreter_pool.is_chosen() else used
        _held.lock(shared=shared, alone=_alone(item))
    yield
    keeps = nextitem and nextitem.path == item.path and _alone(item)
    if not (keeps and _alone(item) == _alone(nextitem)):
        _held.unlock()


@pytest.fixture(scope="session")
def whole_cluster() -> Cluster:
    """The cluster as ``deploy/install`` leaves it, without the demo's own pods."""
    cluster = Cluster()
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
    do_once("restored", lambda: restore_cluster(cluster))
    return cluster


@pytest.fixture(scope="session")
def nodes(whole_cluster: Cluster) -> tuple[str, str]:
    """Two nodes with HCAs and wires."""
    return two_nodes(whole_cluster)


@pytest.fixture(scope="session")
def retired_profile(whole_cluster: Cluster) -> str:
    """A profile that was offered and removed; no other test uses it, so that kubelets can forget
    it.
    """
    profile = "1g.20gb"

    def offer_and_remove() -> None:
        whole_cluster.apply(layout_of(profile, 2, "retired"))
        until(lambda: all(node.get(profile) == "2" for node in whole_cluster.offered_slices()), 60)
        whole_cluster.delete("miglayout", "retired")
        until(lambda: all(node.get(profile) == "0" for node in whole_cluster.offered_slices()))

    do_once("retired", offer_and_remove)
    return profile


@contextlib.contextmanager
def passing_namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """Create a namespace; delete it and its pods afterwards."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    whole_cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster = Cluster(name)
    until(lambda: cluster.get("serviceaccounts")["items"], 60)  # without it no pod is admitted
    yield cluster
    cluster.delete("pods", "--all")  # releases their slices
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def module_namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """A namespace for the pods of several tests of a file."""
    with passing_namespace(whole_cluster) as cluster:
        yield cluster


@pytest.fixture
def namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """A namespace that is deleted after the test, with its pods."""
    with passing_namespace(whole_cluster) as cluster:
        yield cluster


@pytest.fixture
def other_namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """Another tenant's namespace; otherwise like ``namespace``."""
    with passing_namespace(whole_cluster) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def compute_node(whole_cluster: Cluster) -> Iterator[str]:
    """The node for tests of what executes kernels: the first one, or the interpreter's."""
    if interpreter_pool.is_chosen():
        with interpreter_pool.interpreter_pool(whole_cluster) as node:
            yield node
    else:
        yield gpu_nodes(whole_cluster)[0]


@pytest.fixture
def sample_pod(
    request: pytest.FixtureRequest, whole_cluster: Cluster
) -> Callable[..., dict[str, Any]]:
    """A function that returns the manifest of a pod that runs vectoradd.py on one slice, with the
    given arguments; ``small``: a program that takes less CPU time (``small_vecadd.py``).

    Tests of the lane ``first_node`` have their pods there, and those on the interpreter on its
    node, unless they name another node.
    """
    in_lane = request.node.get_closest_marker("first_node") is not None

    def default_node() -> str | None:
        if interpreter_pool.is_chosen():
            return str(request.getfixturevalue("compute_node"))
        return gpu_nodes(whole_cluster)[0] if in_lane else None

    def make(
        name: str,
        *arguments: str,
        node: str | None = None,
        files: str | None = None,
        restricted: bool = False,
        small: bool = False,
        profile: str = "1g.10gb",
    ) -> dict[str, Any]:
        container: dict[str, Any] = {
            "name": "vectoradd",
            "image": SAMPLE_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", *(("-c", SMALL) if small else ("vectoradd.py",)), *arguments],
            "resources": {"limits": {f"gpu.tessera.dev/mig-{profile}": 1}},
        }
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        if chosen := node or default_node():
            place(pod, chosen)
        if files:
            spec["volumes"] = [{"name": "files", "configMap": {"name": files}}]
            container["volumeMounts"] = [{"name": "files", "mountPath": "/files"}]
        if restricted:
            container["securityContext"] = RESTRICTED_SECURITY
            spec["securityContext"] = {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        return pod

    return make
