"""After an upgrade with Helm, all conditions are the new operator's."""

import asyncio
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import CONFIGURATION
from gpu_operator.app.takeover import Takeover, await_takeover
from gpu_operator.config import Config, NodeConfig
from gpu_operator.controllers.common.world import ChartPolicy, GPUPolicySpec
from gpu_operator.engine.queue import WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kube.actions import Action
from gpu_operator.kube.lease import Elector, Term
from gpu_operator.kube.port import Document
from support.programs.helm_chart import render, require_helm
from support.worlds.driven_operator import CONFIG, Operator, layout, node, pool
from support.worlds.fake_cluster import FakeCluster

WANTED = Takeover("ns", "lease", "new", 10)


def is_ready(document: Document) -> bool:
    """Return whether ``kubectl wait --for=condition=Ready`` would succeed."""
    for one in (document.get("status") or {}).get("conditions", ()):
        if one["type"] == "Ready":
            current = one.get("observedGeneration", 0) >= document["metadata"]["generation"]
            return current and one["status"] == "True"
    return False


def ready(cluster: FakeCluster) -> set[str]:
    kinds = ("GPUPool", "MIGLayout", "GPUPolicy")
    found = (one for kind in kinds for one in cluster.objects[kind].values())
    return {one["kind"] for one in found if is_ready(one)}


def make_installation() -> FakeCluster:
    cluster = FakeCluster()
    node(cluster, "n1")
    pool(cluster)
    layout(cluster)
    Operator(cluster).settle("n1")
    cluster.controllers_run = False  # a rollout takes longer than the operator's first pass
    return cluster


async def first_pass(cluster: Any, config: Config, policy: GPUPolicySpec) -> set[str]:
    """Run a new operator until it has caught up; return the objects that are Ready then."""
    seen: list[set[str]] = []
    done = asyncio.Event()

    def caught_up() -> None:
        seen.append(ready(cluster))
        done.set()

    store = Store(ChartPolicy(policy))
    worker = Worker(cluster, store, WorkQueue(), config, "tessera-system", lambda: None, caught_up)
    tasks = [asyncio.create_task(worker.resync()), asyncio.create_task(worker.run())]
    try:
        async with asyncio.timeout(30):
            await done.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert len(seen) == 1
    return seen[0]


def test_after_a_takeover_nothing_is_ready_that_the_new_configuration_changes() -> None:
    cluster = make_installation()
    assert ready(cluster) == {"GPUPool", "MIGLayout", "GPUPolicy"}
    image = Config(node=NodeConfig(image="tessera:2", service_account="tessera-node"))
    assert asyncio.run(first_pass(cluster, image, GPUPolicySpec())) == {"MIGLayout"}


def test_after_a_takeover_with_another_prefix_the_pool_waits_for_it() -> None:
    cluster = make_installation()
    prefix = GPUPolicySpec(resource_prefix="nvidia.com")
    assert "GPUPool" not in asyncio.run(first_pass(cluster, CONFIG, prefix))


def test_after_a_takeover_that_changes_nothing_all_is_ready() -> None:
    cluster = make_installation()
    found = asyncio.run(first_pass(cluster, CONFIG, GPUPolicySpec()))
    assert found == {"GPUPool", "MIGLayout", "GPUPolicy"}


class Flaky(FakeCluster):
    """An API server that fails the first writes of a pool's status."""

    failures = 3

    async def perform(self, action: Action) -> Document | None:
        if self.failures and "GPUPool" in action.what and getattr(action, "status", False):
            self.failures -= 1
            raise errors.Unreachable("no answer")
        return await super().perform(action)


def test_what_could_not_be_written_is_not_caught_up_with() -> None:
    cluster = Flaky()
    vars(cluster).update(vars(make_installation()))
    image = Config(node=NodeConfig(image="tessera:2", service_account="tessera-node"))
    assert "GPUPool" not in asyncio.run(first_pass(cluster, image, GPUPolicySpec()))
    assert not cluster.failures


@pytest.mark.parametrize(
    ("kind", "other"), [("MIGLayout", "GPUPolicy"), ("GPUPolicy", "MIGLayout")]
)
def test_an_object_that_cannot_be_reconciled_holds_no_upgrade_up(
    kind: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, decide = make_installation(), Worker._decide

    def fail(self: Worker, key: Any, world: Any) -> Any:
        if key.kind == kind:
            raise KeyError(key.name)
        return decide(self, key, world)

    monkeypatch.setattr(Worker, "_decide", fail)
    assert other in asyncio.run(first_pass(cluster, CONFIG, GPUPolicySpec()))


def test_the_lease_says_by_which_configuration_its_holder_has_reconciled() -> None:
    cluster, done = FakeCluster(), [""]
    elector = Elector(cluster, "lease", "ns", "a", Term(15, 10, 2), configuration=lambda: done[0])

    def renew_and_read() -> str:
        assert asyncio.run(elector._try())
        annotations = cluster.objects["Lease"]["lease"]["metadata"].get("annotations") or {}
        return str(annotations.get(CONFIGURATION, ""))

    assert renew_and_read() == ""
    done[0] = "new"
    assert renew_and_read() == "new a"
    done[0] = ""  # the next holder's, before it has caught up
    assert renew_and_read() == ""


@pytest.mark.parametrize(
    ("holder", "noted", "status", "says"),
    [
        ("a", "new a", 0, "has reconciled every object"),
        (
            "b",
            "new a",
            1,
            "operator b has not reconciled",
        ),  # an older operator, which keeps the note
        ("a", "old a", 1, "operator a has not reconciled"),
        ("a", "", 1, "operator a has not reconciled"),
        ("", "new a", 1, "no operator holds lease"),
        (None, "", 1, "lease"),
    ],
)
def test_helm_waits_for_the_holder_of_the_new_configuration(
    holder: str | None, noted: str, status: int, says: str
) -> None:
    cluster, said, now = FakeCluster(), list[str](), [0.0]
    if holder is not None:
        annotations = {CONFIGURATION: noted}
        cluster.add("Lease", "lease", {"holderIdentity": holder}, annotations=annotations)

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    found = asyncio.run(await_takeover(cluster, WANTED, said.append, lambda: now[0], sleep))
    assert found == status
    assert says in said[0]
    assert now[0] == (0 if status == 0 else WANTED.timeout_s)


def test_operator_and_hook_are_given_the_same_name_and_another_with_each_change() -> None:
    require_helm()

    def names(*settings: str) -> set[str]:
        found = render(*settings)
        deployment = found["Deployment"]["tessera-operator"]
        job = found["Job"]["tessera-takeover"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (hook,) = job["spec"]["template"]["spec"]["containers"]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        argument = next(a for a in hook["args"] if a.startswith("--configuration="))
        assert argument == f"--configuration={variables['TESSERA_CONFIGURATION']}"
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-upgrade,post-rollback"
        return {variables["TESSERA_CONFIGURATION"]}

    changed = ("image.tag=other", "resourcePrefix=nvidia.com", "gpud.nodeBudget=5Gi")
    every = names().union(*(names(one) for one in changed))
    assert len(every) == 1 + len(changed)
