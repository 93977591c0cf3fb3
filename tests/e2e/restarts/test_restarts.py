"""Parts of the node and of Tessera are restarted or fail: pods keep running, and new ones start.

Pods fail only by their own faults, or by failures of the platform that the table of restarts
names (tests/support/cluster/cluster_restarts.py).
"""

import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from support.cluster.cluster_restarts import RESTARTS, Over, Restart, refresh, settle
from support.cluster.kubectl import DONE, EXAMPLES, Cluster, gpu_nodes, in_node, until
from support.cluster.process_faults import KILLED, STOPPED, in_rotation

Manifest = Callable[..., dict[str, Any]]
RUNNING_S = 12
ENDED_S = 240
ROWS = RESTARTS | KILLED | STOPPED
# Programs in sequence: during any restart one is running, and soon the next one starts.
PROGRAMS = """
while true; do
  "$@" --seconds 1 --hold 1 >/tmp/out 2>&1 && echo ok || cat /tmp/out
done
"""


def short_restarts() -> list[Any]:
    """Return the kinds of restart as parameters; those that nothing runs beside come first, so
    that the lock is taken once for them.
    """
    kinds = sorted(RESTARTS, key=lambda kind: RESTARTS[kind].disturbs, reverse=True)
    return [pytest.param(kind, marks=_marks(RESTARTS[kind])) for kind in kinds]


def _marks(row: Restart) -> list[pytest.MarkDecorator]:
    alone = [pytest.mark.alone(*row.disturbs)] if row.disturbs else []
    return [*alone, pytest.mark.soak] if row.soak_only else alone


def start(cluster: Cluster, sample_pod: Manifest, name: str, node: str, seconds: int) -> None:
    """Start a pod on a node that computes for some seconds; return once kernels are running."""
    arguments = ("--n", "65536", "--seconds", str(seconds))
    cluster.apply(sample_pod(name, *arguments, node=node, small=True))
    cluster.wait_pod(name, "Running")
    until(lambda: "running" in cluster.logs(name), 60)


def worker_pid(node: str, pod_uid: str) -> str:
    """Return the PID, on the node, of the worker of a pod, from gpud's own log."""
    system = Cluster("tessera-system")
    agents = system.get("pods", "--field-selector", f"spec.nodeName={node}")["items"]
    (agent,) = (p for p in agents if "gpud" in [c["name"] for c in p["spec"]["containers"]])
    logs = system.kubectl("logs", agent["metadata"]["name"], "-c", "gpud")
    lines = (line for line in logs.splitlines() if "context_started" in line and pod_uid in line)
    (started,) = (json.loads(line[line.index("{") :]) for line in lines)
    return str(started["pid"])


@pytest.mark.backend
def test_a_kernel_that_faults_ends_alone(
    namespace: Cluster, sample_pod: Manifest, compute_node: str
) -> None:
    """A store through a null pointer: error 700 and an event for its own pod, no effect on
    others.
    """
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    bad = ptx.replace("add.s64 \t%rd1, %rd6, %rd10;", "mov.u64 \t%rd1, 64;")
    assert bad != ptx
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ptx"},
        "data": {"vecadd.ptx": bad},
    }
    start(namespace, sample_pod, "neighbour", compute_node, RUNNING_S)
    arguments = ("--n", "1024", "--ptx", "/files/vecadd.ptx")
    namespace.apply(config, sample_pod("faulty", *arguments, files="ptx", node=compute_node))
    assert namespace.wait_pod("faulty")["status"]["phase"] == "Failed"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in namespace.logs("faulty")

    def faulted() -> list[str]:
        events = namespace.get("events", "--field-selector", "involvedObject.name=faulty")["items"]
        return [e["message"] for e in events if e["reason"] == "Faulted"]

    assert any("vecadd" in message for message in until(faulted))
    ended = namespace.wait_pod("neighbour", timeout_s=RUNNING_S + 60)
    assert ended["status"]["phase"] == "Succeeded", namespace.logs("neighbour")


@pytest.mark.backend
def test_nothing_is_computed_without_the_worker(
    namespace: Cluster, sample_pod: Manifest, compute_node: str
) -> None:
    """While its worker is stopped a program waits, however long; it continues when the worker
    does.
    """
    start(namespace, sample_pod, "waiting", compute_node, RUNNING_S)
    worker = worker_pid(compute_node, namespace.get("pod", "waiting")["metadata"]["uid"])
    in_node(compute_node, "kill", "-STOP", worker)
    time.sleep(RUNNING_S + 2)
    assert namespace.get("pod", "waiting")["status"]["phase"] == "Running"
    assert "kernels" not in namespace.logs("waiting")
    in_node(compute_node, "kill", "-CONT", worker)
    assert namespace.wait_pod("waiting")["status"]["phase"] == "Succeeded"
    assert "65536 results verified" in namespace.logs("waiting")


class Programs:
    """A pod on a node that runs programs all the time; all of them must succeed."""

    def __init__(self, cluster: Cluster, manifest: Manifest, node: str) -> None:
        self._cluster = cluster
        self._name = f"running-{node}-{uuid.uuid4().hex[:4]}"
        running = manifest(self._name, node=node, small=True)
        (container,) = running["spec"]["containers"]
        container["command"] = ["sh", "-c", PROGRAMS, "sh", *container["command"]]
        cluster.apply(running)
        cluster.wait_pod(self._name, "Running")
        until(self.count, 60)

    def is_running(self) -> bool:
        phase: str = self._cluster.get("pod", self._name)["status"]["phase"]
        return phase == "Running"

    def count(self) -> int:
        """Return how many programs have ended; all of them must have succeeded."""
        said = self._cluster.logs(self._name).splitlines()
        assert set(said) <= {"ok"}, said
        return len(said)


@dataclass(frozen=True)
class Background:
    """The programs of each node, which keep running from one kind of restart to the next."""

    cluster: Cluster
    by_node: dict[str, Programs] = field(default_factory=dict)

    def on(self, node: str, manifest: Manifest) -> Programs:
        """Return the programs of a node; start them first if they do not run."""
        found = self.by_node.get(node)
        if found is None or not found.is_running():
            found = self.by_node[node] = Programs(self.cluster, manifest, node)
        return found


@pytest.fixture(scope="module")
def background(module_namespace: Cluster) -> Background:
    return Background(module_namespace)


MANY = 20  # pods


class Moments:
    """Restarts of one kind, and pods that are created around them on a node."""

    def __init__(
        self,
        cluster: Cluster,
        background: Background,
        manifest: Manifest,
        row: Restart,
        node: str,
    ) -> None:
        self._cluster = cluster
        self._background = background
        self._manifest = manifest
        self._row = row
        self._node = node
        self._made = 0

    def check(self, begin: Callable[[], Over], *, restarts: int, pods: int) -> None:
        """Perform ``restarts`` restarts, each with ``pods`` pods; only failures of the platform are
        allowed.
        """
        settle(self._node)
        programs = self._background.on(self._node, self._manifest)
        ended: Counter[str] = Counter()
        for _ in range(restarts):
            if self._row.kills:
                refresh(self._row.kills, self._node)
            before = programs.count()
            self._restart_once(begin, pods)
            ended += self._outcomes(pods)
            until(lambda least=before: programs.count() > least + 1, 60)
        print(self._node, dict(ended))
        assert ended["Failed"] == 0
        # The last pod of each restart is created when that is over. The random moments of a few
        # others may all be in the gap; of many, at most half.
        is_many = ended.total() >= MANY
        assert ended["Succeeded"] >= (ended.total() / 2 if is_many else restarts)

    def _restart_once(self, begin: Callable[[], Over], pods: int) -> None:
        """Create pods at random moments around a restart, and the last one when it is over."""
        lasts_s = self._row.lasts_s
        moments = sorted(random.uniform(-lasts_s / 4, lasts_s) for _ in range(pods - 1))
        begins_at = time.monotonic() + lasts_s / 4
        earlier = sum(moment < 0 for moment in moments)
        for moment in moments[:earlier]:
            self._make_pod(begins_at + moment)
        time.sleep(max(0.0, begins_at - time.monotonic()))
        over = begin()
        for moment in moments[earlier:]:
            self._make_pod(begins_at + moment)
        until(over, ENDED_S, every_s=0.5)
        settle(self._node)
        self._make_pod(time.monotonic())

    def _make_pod(self, at: float) -> None:
        time.sleep(max(0.0, at - time.monotonic()))
        name = f"moment-{self._node}-{self._made}"
        pod = self._manifest(name, "--n", "1024", node=self._node, small=True)
        pod["metadata"]["labels"] = {"moment": self._node}
        self._made += 1
        self._cluster.apply(pod)

    def _outcomes(self, count: int) -> Counter[str]:
        """Return how pods ended: their phase, or the name of a failure of the platform."""
        mine = ("-l", f"moment={self._node}")

        def ended() -> list[dict[str, Any]]:
            pods: list[dict[str, Any]] = self._cluster.get("pods", *mine)["items"]
            done = all(pod["status"].get("phase") in DONE for pod in pods)
            return pods if done and len(pods) == count else []

        outcomes: Counter[str] = Counter()
        for pod in until(ended, ENDED_S):
            name, status = pod["metadata"]["name"], pod["status"]
            outcome = self._row.own_failure(status) or status["phase"]
            outcomes[outcome] += 1
            if outcome != "Succeeded":  # pytest shows it where the test fails
                print(name, outcome, json.dumps(status))
            if outcome == "Failed" and status.get("containerStatuses"):  # it was admitted
                print(self._cluster.logs(name))
        self._cluster.delete("pods", *mine)
        return outcomes


class Together:
    """One restart for several threads: the last of them that is ready begins it."""

    def __init__(self, begin: Callable[[], Over], threads: int) -> None:
        self._begin = begin
        self._ready = threading.Barrier(threads, action=self._begin_once, timeout=ENDED_S)
        self._lock = threading.Lock()
        self._status: Over = lambda: False
        self._is_over = False

    def _begin_once(self) -> None:
        self._status, self._is_over = self._begin(), False

    def __call__(self) -> Over:
        """Wait until all threads call this; return the function that returns whether the restart
        is over.
        """
        self._ready.wait()
        return self._over

    def _over(self) -> bool:
        with self._lock:  # an upgrade's status, for example, is read once
            self._is_over = self._is_over or self._status()
            return self._is_over

    def abort(self) -> None:
        """Make the other threads fail instead of waiting for one that has failed."""
        self._ready.abort()


def check(
    cluster: Cluster,
    background: Background,
    manifest: Manifest,
    kind: str,
    *,
    restarts: int,
    pods: int,
) -> None:
    """Perform restarts of one kind, half of them on each GPU node, both nodes at the same time.

    A restart of what all nodes share happens once, for the pods of both nodes. One that changes a
    setting, which the second restores, happens as often as given, for the pods of one node.
    """
    row = ROWS[kind]
    nodes = gpu_nodes(cluster)[: 1 if row.toggles else None]
    rounds = restarts if row.toggles else restarts // len(nodes)
    assert rounds * (1 if row.toggles else len(nodes)) == restarts, (restarts, nodes)
    together = Together(lambda: row.begin(nodes[0]), len(nodes))
    begins = [partial(row.begin, node) if row.on_one_node else together for node in nodes]

    def check_node(node: str, begin: Callable[[], Over]) -> None:
        try:
            moments = Moments(cluster, background, manifest, row, node)
            moments.check(begin, restarts=rounds, pods=pods)
        except BaseException:
            together.abort()
            raise

    with ThreadPoolExecutor(len(nodes)) as threads:
        running = [threads.submit(check_node, *one) for one in zip(nodes, begins, strict=True)]
    failures = [failure for one in running if (failure := one.exception()) is not None]
    if failures:
        raise BaseExceptionGroup(f"{kind}, on {len(failures)} of the nodes", failures)


@pytest.mark.parametrize("kind", short_restarts())
def test_no_pod_fails_around_a_restart(
    namespace: Cluster, background: Background, sample_pod: Manifest, kind: str
) -> None:
    check(namespace, background, sample_pod, kind, restarts=2, pods=5)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=_marks(ROWS[k])) for k in in_rotation()])
def test_no_pod_fails_while_a_process_is_killed_or_hangs(
    namespace: Cluster, background: Background, sample_pod: Manifest, kind: str
) -> None:
    """Another process each day; ``make soak`` has all."""
    check(namespace, background, sample_pod, kind, restarts=2, pods=5)


@pytest.mark.alone
@pytest.mark.soak
@pytest.mark.parametrize("kind", KILLED | STOPPED)
def test_no_pod_fails_whichever_process_is_killed_or_hangs(
    namespace: Cluster, background: Background, sample_pod: Manifest, kind: str
) -> None:
    check(namespace, background, sample_pod, kind, restarts=2, pods=20)


@pytest.mark.alone
@pytest.mark.soak
@pytest.mark.parametrize("kind", RESTARTS)
def test_no_pod_fails_at_any_of_many_moments_of_a_restart(
    namespace: Cluster, background: Background, sample_pod: Manifest, kind: str
) -> None:
    """Two hundred pods for each kind of restart."""
    check(namespace, background, sample_pod, kind, restarts=10, pods=20)
