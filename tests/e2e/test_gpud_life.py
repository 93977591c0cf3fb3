"""gpud and node agents are replaced while pods come and programs start: none of them fails."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from cluster import DONE, Cluster, until

Manifest = Callable[..., dict[str, Any]]
SYSTEM = Cluster("tessera-system")
ROLLOUT_S = 180
ENDED_S = 240
STARTS = (
    "while true; do python vectoradd.py --n 1024 >/tmp/out 2>&1 && echo ok || cat /tmp/out; done"
)


def gpu_node(cluster: Cluster) -> str:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return str(min(node["metadata"]["name"] for node in nodes))


def daemon_set(component: str) -> str:
    (found,) = SYSTEM.get("daemonsets", "-l", f"app.kubernetes.io/component={component}")["items"]
    return f"daemonset/{found['metadata']['name']}"


def delete_pod(component: str, node: str) -> None:
    on_it = ("-l", f"app.kubernetes.io/component={component}")
    at = ("--field-selector", f"spec.nodeName={node}", "--wait=false")
    SYSTEM.kubectl("delete", "pod", *on_it, *at)


def roll_out(component: str, _: str) -> None:
    SYSTEM.kubectl("rollout", "restart", daemon_set(component))


REPLACEMENTS: dict[str, Callable[[str], None]] = {
    "gpud's roll-out": lambda node: roll_out("gpud", node),
    "gpud's pod": lambda node: delete_pod("gpud", node),
    "the agents' roll-out": lambda node: roll_out("node", node),
    "the agent's pod": lambda node: delete_pod("node", node),
}
SLOW = [pytest.param(what, marks=pytest.mark.soak) for what in list(REPLACEMENTS)[1:]]


def settled() -> None:
    for component in ("gpud", "node"):
        SYSTEM.kubectl("rollout", "status", daemon_set(component), f"--timeout={ROLLOUT_S}s")


def pods_around(
    cluster: Cluster, manifest: Manifest, node: str, what: str, moments: int, within_s: float
) -> Counter[str]:
    """Create pods at random moments around a replacement; count how they ended."""
    offsets = sorted(random.uniform(0, within_s) for _ in range(moments))
    begin, replaced = time.monotonic(), False
    for number, offset in enumerate(offsets):
        if offset > within_s / 4 and not replaced:
            REPLACEMENTS[what](node)
            replaced = True
        time.sleep(max(0.0, begin + offset - time.monotonic()))
        cluster.apply(manifest(f"moment-{number}", "--n", "1024", node=node))
    assert replaced

    def ended() -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = cluster.get("pods", "-l", "moment")["items"]
        done = all(pod["status"].get("phase") in DONE for pod in pods)
        return pods if done and len(pods) == moments else []

    pods = until(ended, ENDED_S)
    failed = [pod for pod in pods if pod["status"]["phase"] != "Succeeded"]
    for pod in failed[:3]:  # pytest shows it
        print(pod["metadata"]["name"], json.dumps(pod["status"]))
        if pod["status"].get("containerStatuses"):  # it was admitted
            print(cluster.logs(pod["metadata"]["name"]))
    cluster.delete("pods", "-l", "moment")
    return Counter(pod["status"]["phase"] for pod in pods)


@pytest.fixture
def moment(sample_pod: Manifest) -> Manifest:
    def make(*arguments: str, **options: Any) -> dict[str, Any]:
        made = sample_pod(*arguments, **options)
        made["metadata"]["labels"] = {"moment": ""}
        return made

    return make


@pytest.mark.parametrize("what", ["gpud's roll-out", *SLOW])
def test_programs_of_a_running_pod_start_throughout(
    namespace: Cluster, sample_pod: Manifest, what: str
) -> None:
    node = gpu_node(namespace)
    running = sample_pod("running", node=node)
    running["spec"]["containers"][0]["command"] = ["sh", "-c", STARTS]
    namespace.apply(running)
    namespace.wait_pod("running", "Running")
    until(lambda: "ok" in namespace.logs("running"), 60)

    def starts() -> int:
        said = namespace.logs("running").splitlines()
        assert set(said) == {"ok"}, said
        return len(said)

    REPLACEMENTS[what](node)
    settled()
    before = starts()
    until(lambda: starts() > before + 1, 60)


@pytest.mark.parametrize("what", ["gpud's pod", "the agent's pod"])
def test_no_pod_fails_around_a_replacement(namespace: Cluster, moment: Manifest, what: str) -> None:
    found = pods_around(namespace, moment, gpu_node(namespace), what, 10, 8.0)
    assert found == {"Succeeded": 10}
    settled()


@pytest.mark.soak
@pytest.mark.parametrize("what", REPLACEMENTS)
def test_no_pod_fails_at_any_of_many_moments(
    namespace: Cluster, moment: Manifest, what: str
) -> None:
    """200 moments for each replacement, 20 around each time that it is done."""
    found: Counter[str] = Counter()
    for _ in range(10):
        found += pods_around(namespace, moment, gpu_node(namespace), what, 20, 20.0)
        settled()
    assert found == {"Succeeded": 200}
