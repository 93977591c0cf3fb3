"""The operator's real worker, driven by full resyncs instead of watches, and actions of users."""

import asyncio
from typing import Any

from gpu_operator import errors
from gpu_operator.config import Config, NodeConfig
from gpu_operator.controllers.common.world import ChartPolicy, GPUPolicySpec
from gpu_operator.engine import routes
from gpu_operator.engine.queue import WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from support.worlds.fake_cluster import FakeCluster

CONFIG = Config(node=NodeConfig(image="tessera:1", service_account="tessera-node"))
SELECTED = {"gpu": "yes"}


class Operator:
    """The real worker, driven by full resyncs instead of watches."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.leads = True
        self.restart()

    def restart(self) -> None:
        """Lose everything that is in memory."""
        store = Store(ChartPolicy(GPUPolicySpec()))
        self.store = store
        self.worker = Worker(
            self.cluster, store, WorkQueue(), CONFIG, "tessera-system", self._fence
        )

    def _fence(self) -> None:
        if not self.leads:
            raise errors.NotLeader("lost")

    def round(self) -> int:
        """Reconcile every object once; return the number of written objects."""
        before = self.cluster.writes
        asyncio.run(self._round())
        return self.cluster.writes - before

    async def _round(self) -> None:
        await self.worker.list_all()
        for key in sorted(routes.all_keys(self.store.world())):
            await self.worker.work(key)

    def settle(self, *nodes: str, rounds: int = 40) -> None:
        """Run operator and agents until the operator writes nothing more."""
        for _ in range(rounds):
            written = self.round()
            self.cluster.run_agents(*nodes)
            if not written and not self.round():
                return
        raise AssertionError("still writing: it does not converge")


def node(cluster: FakeCluster, name: str) -> None:
    cluster.add("Node", name, labels=dict(SELECTED))
    cluster.objects["Node"][name]["status"] = {"capacity": {}, "allocatable": {}}


def pool(cluster: FakeCluster, name: str = "p", **spec: Any) -> None:
    cluster.add(
        "GPUPool", name, {"nodeSelector": SELECTED, "board": "h100-80gb", "count": 2, **spec}
    )


def layout(cluster: FakeCluster, name: str = "l", profile: str = "1g.10gb", count: int = 7) -> None:
    cluster.add("MIGLayout", name, {"instances": [{"profile": profile, "count": count}]})


def slices(cluster: FakeCluster) -> list[int]:
    return [
        len(g.get("status", {}).get("slices", [])) for g in cluster.objects.get("GPU", {}).values()
    ]
