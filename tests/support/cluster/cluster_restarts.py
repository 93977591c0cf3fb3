"""The kinds of restart of a cluster with Tessera: how each begins, and when it is over.

A row also lists the pod failures that the platform causes: no device plugin can prevent them,
and each has a name here. Every other pod must succeed, at whatever moment of a restart it is
created.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.cluster import helm_release
from support.cluster.kubectl import POOL, SYSTEM, Cluster, in_node, until

Over = Callable[[], bool]
"""Returns whether the restart is over."""
_SYSTEM = Cluster(SYSTEM)
_PROGRAMS = {"node": "tessera-device-plugin", "gpud": "tessera-gpud"}
_OFFERED = ("gpu.tessera.dev/mig-1g.10gb", "7")
_SETTLED_S = 180
BOTH_NODES = ("first-node", "last-node")
EVERYTHING = (*BOTH_NODES, "control-plane", "hcas")

# The kubelet lists a device that its plugin no longer serves until it notices the plugin's end,
# and lowers allocatable later still: only a plugin that deregisters in order can be faster.
NO_PLUGIN = {
    "kubelet: the plugin died": ("UnexpectedAdmissionError", "no healthy devices"),
    # The kubelet does not repeat a call of Allocate.
    "kubelet: the plugin died in a call": ("UnexpectedAdmissionError", "code = Unavailable"),
    # When the stream of a plugin that died ends, the kubelet closes the connection, and with it
    # another call that has not failed yet.
    "kubelet: closed the connection of a plugin that died": (
        "UnexpectedAdmissionError",
        "code = Canceled",
        "the client connection is closing",
    ),
}
# A kubelet that starts admits pods again whose containers had not started, although it looks for
# plugins only once a second and knows none of their devices yet. Until it has read all pods, it
# counts those devices as in use that its checkpoint gives to pods that have ended (kubelet's
# devicemanager, UpdateAllocatedDevices): the pods of the restart before, of one slice each.
NOT_STARTED = {
    "kubelet: admitted again before it knew the plugin": (
        "UnexpectedAdmissionError",
        "cannot allocate unhealthy devices",
    ),
    "kubelet: counted the devices of pods that had ended": (
        "UnexpectedAdmissionError",
        "requested number of devices unavailable",
        "Available: 0",
    ),
}
# A kubelet that ends cancels its pending calls of containerd.
CANCELLED = {"containerd: start cancelled": ("StartError", "context canceled")}
# The exit status of a container that ends while no containerd runs is lost.
LOST = {"containerd: exit status lost": ("'exitCode': 255", "'reason': 'Unknown'")}


@dataclass(frozen=True, slots=True)
class Restart:
    """One kind of restart on a node; ``begin`` returns at once, as far as the kind permits that."""

    begin: Callable[[str], Over]
    lasts_s: float = 8
    """The period within which pods are created; not a limit."""
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Failures that the platform causes, by name: the words that a pod's status then contains."""
    kills: str = ""
    """The component whose container the kubelet restarts, with a growing back-off."""
    on_one_node: bool = True
    """Whether ``begin`` affects one node only; otherwise once for all nodes."""
    toggles: bool = False
    """Whether ``begin`` changes a setting, which the second time restores."""
    disturbs: tuple[str, ...] = BOTH_NODES
    """The parts of the cluster that no other test can use meanwhile."""
    soak_only: bool = False

    def own_failure(self, status: Mapping[str, Any]) -> str:
        """Return the name of the platform's failure that a pod's status shows, or an empty
        string.
        """
        shown = str(status)
        signs = self.own.items()
        return next((name for name, words in signs if all(one in shown for one in words)), "")


def serving(component: str, node: str = "") -> dict[str, tuple[str, int]]:
    """Return the name and the number of restarts of each ready pod of a component, by its UID."""
    at = ("--field-selector", f"spec.nodeName={node}") if node else ()
    pods = _SYSTEM.get("pods", "-l", f"app.kubernetes.io/component={component}", *at)["items"]
    return {
        pod["metadata"]["uid"]: (
            pod["metadata"]["name"],
            sum(one["restartCount"] for one in pod["status"]["containerStatuses"]),
        )
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
    }


def settle(node: str) -> None:
    """Wait until all of Tessera runs as it should, and a node offers the samples' slices."""
    try:
        until(lambda: is_settled(node), _SETTLED_S, every_s=1)
    except TimeoutError:
        wide = _SYSTEM.kubectl("get", "pods,daemonsets", "-o", "wide")
        raise AssertionError(f"after {_SETTLED_S} s not as before\n{wide}") from None


def is_settled(node: str) -> bool:
    """Return whether roll-outs are done, and a node is Ready and offers all of its slices."""
    status = Cluster().get("node", node)["status"]
    ready = next(one["status"] for one in status["conditions"] if one["type"] == "Ready")
    resource, count = _OFFERED
    return (
        ready == "True"
        and status["allocatable"].get(resource) == count
        and all(_rolled_out(component) for component in _PROGRAMS)
        and bool(serving("operator"))
    )


def refresh(component: str, node: str) -> None:
    """Replace a pod whose container was killed, because the kubelet delays each restart more.

    A later round would otherwise only test the kubelet's back-off.
    """
    if any(restarts for _, restarts in serving(component, node).values()):
        over = _delete(component)(node)
        until(over, _SETTLED_S)
        settle(node)


def _delete(component: str, *flags: str, on_node: bool = True) -> Callable[[str], Over]:
    def begin(node: str) -> Over:
        at = node if on_node else ""
        before = serving(component, at)
        names = [name for name, _ in before.values()]
        _SYSTEM.kubectl("delete", "pod", *names, "--wait=false", *flags)

        def over() -> bool:
            now = serving(component, at)
            return bool(now) and before.keys().isdisjoint(now)

        return over

    return begin


def _kill(component: str) -> Callable[[str], Over]:
    def begin(node: str) -> Over:
        before = serving(component, node)
        in_node(node, "pkill", "-KILL", "-f", f"bin/{_PROGRAMS[component]}( |$)")
        return lambda: any(
            restarts > before[uid][1]
            for uid, (_, restarts) in serving(component, node).items()
            if uid in before
        )

    return begin


def _kill_gpud_and_delete_agent(node: str) -> Over:
    over = _kill("gpud")(node), _delete("node")(node)
    return lambda: all(one() for one in over)


def _kill_loop(node: str) -> Over:
    """Kill the agent's process that does not serve the kubelet; its parent starts another."""
    before = in_node(node, "pgrep", "-x", "tessera-agent")
    in_node(node, "pkill", "-KILL", "-x", "tessera-agent")
    now = ("sh", "-c", "pgrep -x tessera-agent; true")
    return lambda: in_node(node, *now) not in ("", before)


def _restart_service(service: str, report: Callable[[str], str]) -> Callable[[str], Over]:
    """Return a function that returns when the service runs again; it is over when the kubelet has
    reported since, as ``report`` shows.
    """

    def begin(node: str) -> Over:
        in_node(node, "systemctl", "restart", service)
        before = report(node)
        return lambda: report(node) != before

    return begin


def _lease(node: str) -> str:
    """Return when the kubelet last renewed its lease, as it does every ten seconds. It reports the
    node's status after a start, and then, if nothing changes, only every five minutes.
    """
    lease = Cluster("kube-node-lease").get("lease", node)
    return str(lease["spec"]["renewTime"])


def _heartbeat(node: str) -> str:
    conditions = Cluster().get("node", node)["status"]["conditions"]
    return str(next(one["lastHeartbeatTime"] for one in conditions if one["type"] == "Ready"))


def _daemon_sets(component: str) -> list[dict[str, Any]]:
    label = f"app.kubernetes.io/component={component}"
    found: list[dict[str, Any]] = _SYSTEM.get("daemonsets", "-l", label)["items"]
    return [one for one in found if one["metadata"]["name"].endswith(f"-{POOL}")]


def _rolled_out(component: str) -> bool:
    for found in _daemon_sets(component):
        status = found["status"]
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        current = (status.get("updatedNumberScheduled"), status.get("numberAvailable"))
        if set(current) != {status["desiredNumberScheduled"]}:
            return False
    return True


def _roll_out(component: str) -> Callable[[str], Over]:
    def begin(node: str) -> Over:
        del node
        (found,) = _daemon_sets(component)
        _SYSTEM.kubectl("rollout", "restart", f"daemonset/{found['metadata']['name']}")
        return lambda: _rolled_out(component)

    return begin


def _upgrade(node: str) -> Over:
    """Give gpud another budget; the second time, the original one."""
    del node
    wanted = helm_release.values()
    gpud = wanted.setdefault("gpud", {})
    if gpud.pop("nodeBudget", None) is None:
        gpud["nodeBudget"] = "4100Mi"
    running = helm_release.begin_upgrade(wanted)

    def over() -> bool:
        if running.poll() is None:
            return False
        helm_release.end_upgrade(running)
        return True

    return over


def _change_policy(node: str) -> Over:
    """Turn nvidia-smi in containers on; the second time, off."""
    del node
    policy = "gpupolicy/default"
    before = Cluster().get(policy)["spec"].get("nvidiaSmi", {}).get("enabled", False)
    patch = json.dumps({"spec": {"nvidiaSmi": {"enabled": not before}}})
    Cluster().kubectl("patch", policy, "--type=merge", "-p", patch)
    return lambda: Cluster().condition(policy, "Ready").status == "True"


RESTARTS = {
    "agent deleted": Restart(_delete("node")),
    # The kubelet kills it after 2 s, before a status update lowers allocatable.
    "agent deleted with force": Restart(
        _delete("node", "--force", "--grace-period=0"), own=NO_PLUGIN
    ),
    "agent killed": Restart(_kill("node"), own=NO_PLUGIN, kills="node"),
    "agent's loop killed": Restart(_kill_loop),
    # Other processes' tests use HCAs at that time, not GPUs.
    "gpud deleted": Restart(_delete("gpud"), disturbs=()),
    "gpud killed": Restart(_kill("gpud"), kills="gpud", disturbs=()),
    "gpud killed, agent deleted": Restart(
        _kill_gpud_and_delete_agent, kills="gpud", soak_only=True
    ),
    "operator deleted": Restart(
        _delete("operator", on_node=False), on_one_node=False, disturbs=("control-plane",)
    ),
    "kubelet restarted": Restart(
        _restart_service("kubelet", _heartbeat), own=CANCELLED | NOT_STARTED
    ),
    "containerd restarted": Restart(_restart_service("containerd", _lease), own=CANCELLED | LOST),
    "policy changed": Restart(
        _change_policy, lasts_s=30, on_one_node=False, toggles=True, disturbs=EVERYTHING
    ),
    "agents' roll-out": Restart(_roll_out("node"), lasts_s=40, on_one_node=False, soak_only=True),
    "gpud's roll-out": Restart(_roll_out("gpud"), lasts_s=30, on_one_node=False, disturbs=()),
    "helm upgrade": Restart(
        _upgrade, lasts_s=60, on_one_node=False, toggles=True, disturbs=EVERYTHING, soak_only=True
    ),
}
"""By name."""
