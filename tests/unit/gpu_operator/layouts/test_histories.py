"""After any history of edits, failures and crashes the cluster settles and can be cleaned up."""

from hypothesis import HealthCheck, given, settings, strategies as st

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import FINALIZER, GROUP, RESOURCE_PREFIXES
from gpu_operator.kube.actions import Action
from gpu_operator.kube.port import Document
from support.worlds.driven_operator import Operator, layout, node, pool
from support.worlds.fake_cluster import FakeCluster
from support.worlds.pool_world import IN_POOL


class Died(BaseException):
    """Simulates a crash of the process."""


class Shaky(FakeCluster):
    """A cluster in which a given write fails, or the operator crashes before or after it."""

    fault: tuple[int, str] | None = None

    async def perform(self, action: Action) -> Document | None:
        if self.fault is None:
            return await super().perform(action)
        left, what = self.fault
        self.fault = (left - 1, what) if left else None
        if left:
            return await super().perform(action)
        if what in ("die-after", "lose-answer"):
            await super().perform(action)
        raise {
            "die-before": Died(),
            "die-after": Died(),
            "lose-answer": errors.Unreachable("timed out"),
            "conflict": errors.Conflict("another writer was faster"),
            "refuse": errors.Refused("not now"),
        }[what]


FAULTS = ("die-before", "die-after", "lose-answer", "conflict", "refuse")


STEPS = st.lists(
    st.sampled_from(
        [
            "pool p",
            "pool q",
            "remove p",
            "remove q",
            "grow",
            "shrink",
            "layout a",
            "layout b",
            "remove a",
            "remove b",
            "edit a",
            "hold",
            "free",
            "lose n2",
            "regain n2",
            "unlabel n1",
            "label n1",
            "delete gpu",
            "restart",
            "operator",
            "agents",
            "adopt pool",
            "adopt node",
            "adopt gpu",
            *(f"fault {what} {write}" for what in FAULTS for write in range(4)),
        ]
    ),
    max_size=25,
)


def look(operator: Operator) -> None:
    try:
        operator.round()
    except Died:
        operator.restart()


def take(step: str, cluster: Shaky, operator: Operator) -> None:
    verb, _, name = step.partition(" ")
    objects = cluster.objects
    match verb, name:
        case "pool", _ if name not in objects.get("GPUPool", {}):
            pool(cluster, name)
        case "remove", "p" | "q":
            cluster.remove("GPUPool", name)
        case "remove", _:
            cluster.remove("MIGLayout", name)
        case "grow" | "shrink", _ if "p" in objects.get("GPUPool", {}):
            cluster.edit("GPUPool", "p", count=3 if verb == "grow" else 1)
        case "layout", _ if name not in objects.get("MIGLayout", {}):
            layout(cluster, name, *(("1g.10gb", 7) if name == "a" else ("2g.20gb", 3)))
        case "edit", _ if "a" in objects.get("MIGLayout", {}):
            cluster.edit("MIGLayout", "a", instances=[{"profile": "3g.40gb", "count": 2}])
        case "hold", _:
            for gpu in objects.get("GPU", {}).values():
                for item in gpu.get("status", {}).get("slices", [])[:1]:
                    if item["state"] == "Active":
                        key = (gpu["metadata"]["name"], item["profile"], item["start"])
                        cluster.holders[key] = ["default/pod"]
        case "free", _:
            cluster.holders.clear()
        case "lose", _:
            cluster.remove("Node", "n2")
        case "regain", _ if "n2" not in objects["Node"]:
            node(cluster, "n2")
        case "unlabel", _:
            objects["Node"]["n1"]["metadata"]["labels"].pop("gpu", None)
        case "label", _:
            objects["Node"]["n1"]["metadata"]["labels"]["gpu"] = "yes"
        case "delete", _:
            for found in list(objects.get("GPU", {}))[:1]:
                cluster.remove("GPU", found)
        case "restart", _:
            operator.restart()
        case "operator", _:
            look(operator)
        case "fault", _:
            what, _, write = name.partition(" ")
            cluster.fault = (int(write), what)
        case (
            "adopt",
            "pool",
        ):  # as after a restore from a backup: other managers own the operator's fields
            for found in objects.get("GPUPool", {}).values():
                found["metadata"]["finalizers"] = [FINALIZER]
                cluster.disown("GPUPool", found["metadata"]["name"])
        case "adopt", "node":
            objects["Node"]["n1"]["metadata"]["labels"] |= IN_POOL
            objects["Node"]["n1"]["metadata"]["annotations"] = {RESOURCE_PREFIXES: "nvidia.com"}
            cluster.disown("Node", "n1")
        case "adopt", "gpu":
            for found in list(objects.get("GPU", {}).values())[:1]:
                found["spec"]["layout"] = "by-hand"
                cluster.disown("GPU", found["metadata"]["name"])
        case "agents", _:
            cluster.run_agents(*objects["Node"])


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_everything_can_be_deleted_after_any_history(steps: list[str]) -> None:
    cluster = Shaky()
    for name in ("n1", "n2"):
        node(cluster, name)
    operator = Operator(cluster)
    for step in steps:
        take(step, cluster, operator)
    cluster.fault = None
    operator.settle(*cluster.objects["Node"])
    nodes = cluster.objects["Node"]
    for gpu in cluster.objects.get("GPU", {}).values():
        follows = gpu["spec"].get("layout")
        if "deletionTimestamp" not in gpu["metadata"] and follows not in (None, "by-hand"):
            assert follows in cluster.objects["MIGLayout"]
        assert gpu["spec"]["nodeName"] in nodes

    cluster.holders.clear()
    for kind in ("MIGLayout", "GPUPool"):
        for name in list(cluster.objects.get(kind, {})):
            cluster.remove(kind, name)
    operator.restart()
    operator.settle(*nodes)
    for kind in ("GPU", "GPUPool", "MIGLayout", "DaemonSet"):
        assert not cluster.objects.get(kind), kind
    for found in nodes.values():
        metadata = found["metadata"]
        ours = [k for k in metadata["labels"] if k.startswith(f"{GROUP}/")]
        assert not ours + list(metadata.get("annotations", ())), "whichever manager owns them"
