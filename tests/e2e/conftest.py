"""Fixtures of the end-to-end tests: the real cluster, a namespace for each test, sample pods."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.cluster_lock import ClusterLock, do_once
from support.cluster.kubectl import SAMPLE_IMAGE, Cluster, layout_of, until
from support.cluster.rdma_nodes import two_nodes
from support.cluster.restored_cluster import restore_cluster

RESTRICTED_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


# What the kubelet forgets five minutes later comes early and is looked at late; a kubelet or an
# operator that restarts counts these minutes again, so these tests come early, too. After the very
# last nothing is left to test.
EARLY = ("test_resources.py", "test_restarts.py", "test_operator_restarts.py")
LATE = ("test_retirement.py", "test_uninstall.py")
_held = ClusterLock()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of RDMA, which run in a process of their own, beside all others.

    Those that need slices of GPUs are not among them, as others count and change all slices.
    """
    if item.path.name.startswith("test_rdma") and not item.get_closest_marker("slices"):
        item.add_marker(pytest.mark.rdma)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files in the order in which they cost least waiting."""

    def place(item: pytest.Item) -> int:
        name = item.path.name
        if name in LATE:
            return 1 + LATE.index(name)
        return EARLY.index(name) - len(EARLY) if name in EARLY else 0

    items.sort(key=place)


def _alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # waiting does not count as the test's time
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Run a test that needs the cluster alone while no other process runs one.

    Such tests of one file that follow each other keep the lock: a fixture of the file may have changed
    the whole cluster for them.
    """
    if not _held.locked:
        _held.lock(alone=_alone(item))
    yield
    if not (_alone(item) and _alone(nextitem) and nextitem and nextitem.path == item.path):
        _held.unlock()


@pytest.fixture(scope="session")
def whole_cluster() -> Cluster:
    """The cluster as ``deploy/install`` leaves it, with the demo's own pods out of the way."""
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
    """A profile that came and went; no other test has one, so that kubelets forget it meanwhile."""
    profile = "1g.20gb"
    whole_cluster.apply(layout_of(profile, 2, "retired"))
    until(lambda: all(node.get(profile) == "2" for node in whole_cluster.offered_slices()), 60)
    whole_cluster.delete("miglayout", "retired")
    until(lambda: all(node.get(profile) == "0" for node in whole_cluster.offered_slices()), 15)
    return profile


@contextlib.contextmanager
def passing_namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """Make a namespace that is deleted afterwards, and the pods in it with it."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    whole_cluster.kubectl("create", "namespace", name)
    cluster = Cluster(name)
    until(lambda: cluster.get("serviceaccounts")["items"], 60)  # or no pod is admitted
    yield cluster
    cluster.delete("pods", "--all")  # gives their slices back
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """A namespace that is deleted after the test, and the pods in it with it."""
    with passing_namespace(whole_cluster) as cluster:
        yield cluster


@pytest.fixture
def other_namespace(whole_cluster: Cluster) -> Iterator[Cluster]:
    """As ``namespace``: another tenant's."""
    with passing_namespace(whole_cluster) as cluster:
        yield cluster


@pytest.fixture
def sample_pod() -> Callable[..., dict[str, Any]]:
    """Make the manifest of a pod that runs vectoradd.py with the given arguments on one slice."""

    def make(
        name: str,
        *arguments: str,
        node: str | None = None,
        files: str | None = None,
        restricted: bool = False,
        profile: str = "1g.10gb",
    ) -> dict[str, Any]:
        container: dict[str, Any] = {
            "name": "vectoradd",
            "image": SAMPLE_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "vectoradd.py", *arguments],
            "resources": {"limits": {f"gpu.tessera.dev/mig-{profile}": 1}},
        }
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
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
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    return make
