"""Rights: the chart grants exactly what the operator and the hooks request from the API server.

The requests are not a fixed list: the test runs a whole life of the operator against a cluster
in memory, sends its actions through the real client as well, and collects the client's requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient as AsyncApiClient, Configuration as AsyncConfiguration
from kubernetes.client import ApiClient, Configuration

from device_plugin.errors import ClusterError
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.claims import ClaimsKube
from device_plugin.kube.client import Kube
from device_plugin.kube.slices import SliceKube
from device_plugin.kube.tables import TablesKube
from gpu_operator import kinds
from gpu_operator.api.claim_devices import DRIVER
from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpu import GPUStatus
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesStatus
from gpu_operator.app import check, cleanup, serve, validation
from gpu_operator.config import Config, Identity, NodeConfig, TaintsConfig
from gpu_operator.controllers.common.world import ChartPolicy, GPUPolicySpec
from gpu_operator.controllers.layouts import execution
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.engine import rdma_loop, routes, watch
from gpu_operator.engine.queue import WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kube.actions import Action, Apply, SetTaints
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.lease import Elector, Term
from gpu_operator.kube.port import Document
from support.processes.http_stub import Answer, HttpStub, Request
from support.programs.helm_chart import Manifests, render, require_helm, rules
from support.worlds.checked_cluster import end_pods, furnish
from support.worlds.fake_cluster import FakeCluster
from support.worlds.policy_cluster import RdmaWorld

NAMESPACE = "ns"
CONFIG = Config(
    node=NodeConfig(
        image="tessera:1",
        service_account="tessera-node",
        taints=TaintsConfig(not_ready=True, present=True),
    ),
    owner_cluster_role="tessera-operator",
)
Right = tuple[str, str, str, str]  # namespace or "", group, resource, verb
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@pytest.fixture(scope="module", autouse=True)
def helm_is_there() -> None:
    require_helm()


class Watched(FakeCluster):
    """Sends all its requests through the real client as well, and records them."""

    def __init__(self, client: KubernetesCluster, rights: set[Right]) -> None:
        super().__init__()
        self.rights = rights
        self._client = client

    async def perform(self, action: Action) -> Document | None:
        known = isinstance(action, Apply) and self._is_there(action.document)
        await self._client.perform(
            replace(action, uid="uid-of-all") if isinstance(action, SetTaints) else action
        )
        if isinstance(action, Apply) and not action.status and not known:
            document = action.document
            await self._client.create({**document, "spec": document.get("spec", {})})
        return await super().perform(action)

    def _is_there(self, document: Any) -> bool:
        return document["metadata"]["name"] in self.objects.get(document["kind"], {})

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        await self._client.list(kind, namespace)
        return await super().list(kind, namespace)

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        await self._client.get(kind, name, namespace)
        return await super().get(kind, name, namespace)

    async def create(self, document: Document) -> Document:
        await self._client.create(document)
        return await super().create(document)

    async def replace(self, document: Document) -> Document:
        await self._client.replace(document)
        return await super().replace(document)


@asynccontextmanager
async def watched_cluster() -> AsyncIterator[Watched]:
    rights: set[Right] = set()

    def answer(request: Request) -> Answer:
        right = right_of(request.method, request.path)
        rights.add(right)
        if right[2] == "events" and right[3] == "create":
            return Answer(409, {"kind": "Status", "code": 409, "message": "exists"})
        if right[3] == "list":
            return Answer(document={"kind": "List", "items": []})
        name = {"metadata": {"name": "x"}, "kind": "X", "apiVersion": "v1"}
        if right[2:] == ("nodes", "get"):
            name["metadata"] = {"name": "n", "uid": "uid-of-all", "resourceVersion": "1"}
        if right[2:] == ("pods", "get"):
            pod = request.path.rpartition("/")[2]
            name["metadata"] = {"name": pod, "uid": f"uid-{pod}", "resourceVersion": "1"}
        return Answer(document=name | (request.body if isinstance(request.body, dict) else {}))

    with HttpStub(answer) as stub:
        client = KubernetesCluster(AsyncApiClient(AsyncConfiguration(host=stub.url)))
        try:
            yield Watched(client, rights)
        finally:
            await client.close()


def right_of(method: str, path: str) -> Right:
    """Return the right that the API server's authorizer requires for a request."""
    parts = path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource = "/".join([parts[0], *parts[2:3]])
    verb = "list" if method == "GET" and len(parts) == 1 else _VERBS[method]
    return namespace, group, resource, verb


def granted_rights(found: Manifests, account: str) -> set[Right]:
    """Return all rights that the chart's bindings grant to a service account."""
    rights: set[Right] = set()
    for kind, bindings in (("Role", "RoleBinding"), ("ClusterRole", "ClusterRoleBinding")):
        for binding in found.get(bindings, {}).values():
            if account not in {s["name"] for s in binding["subjects"]}:
                continue
            role = binding["roleRef"]["name"]
            where = found[kind][role]["metadata"].get("namespace", NAMESPACE)
            where = where if kind == "Role" else ""
            rights |= {(where, *rule) for rule in rules(found, kind, role)}
    return rights


def normalize_rights(rights: set[Right], cluster_wide: set[Right]) -> set[Right]:
    """Return requests as rights; a request in a namespace may be covered by a cluster-wide
    right.
    """
    return {("", *right[1:]) if ("", *right[1:]) in cluster_wide else right for right in rights}


async def a_life(cluster: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run pools, layouts, evictions, retired resources and deletions: all actions of the
    operator.
    """
    monkeypatch.setattr(execution, "SETTLE_S", 0.0)
    monkeypatch.setattr(extended_resources, "RETIRE_AFTER_S", 0.0)
    cluster.add("ClusterRole", "tessera-operator")
    owners = await serve._find_owners(CONFIG, cluster)
    term = Term(15, 10, 2)
    elector = Elector(cluster, "tessera-operator", NAMESPACE, "me", term, owners=owners)
    store = Store(ChartPolicy(GPUPolicySpec(), owners))
    worker = Worker(cluster, store, WorkQueue(), CONFIG, NAMESPACE, elector.fence)

    async def rounds(count: int) -> None:
        await elector._try()
        for _ in range(count):
            await worker.list_all()
            for key in sorted(routes.all_keys(store.world())):
                assert await worker.work(key), key
            cluster.run_agents("n")

    node = cluster.add("Node", "n", labels={"gpu": "yes"})
    node["status"] = {"capacity": {}, "allocatable": {}}
    cluster.add("GPUPool", "p", {"nodeSelector": {"gpu": "yes"}, "board": "a30"})
    wanted = {"instances": [{"profile": "1g.6gb"}], "rollout": {"onInUse": "Evict"}}
    cluster.add("MIGLayout", "l", wanted)
    await rounds(4)
    resource = "gpu.tessera.dev/mig-1g.6gb"
    node["status"] = {"capacity": {resource: "1"}, "allocatable": {resource: "1"}}
    cluster._touch(node)
    cluster.holders["n-gpu-0", "1g.6gb", 0] = ["default/train"]
    cluster.edit("MIGLayout", "l", instances=[{"profile": "4g.24gb"}])
    await rounds(6)
    assert not any(cluster.holders.values())
    await rounds(3)
    assert resource not in node["status"]["capacity"]
    cluster.add("GPUFault", "f", {"gpuName": "n-gpu-0", "xid": 79})
    await rounds(3)
    cluster.remove("GPUFault", "f")
    await rounds(2)
    cluster.remove("MIGLayout", "l")
    label = "gpu.tessera.dev/mig.config"
    text = "version: v1\nmig-configs: {x: [{devices: all, mig-enabled: true}]}"
    configs = cluster.add("ConfigMap", CONFIG.mig_manager.config_map)
    configs["data"] = {"config.yaml": text}
    node["metadata"]["labels"][label] = "x"
    cluster._touch(node)
    await rounds(4)
    assert node["metadata"]["labels"][f"{label}.state"] == "success"
    del node["metadata"]["labels"][label]
    cluster._touch(node)
    await rounds(2)
    assert not cluster.objects["MIGLayout"]
    cluster.remove("GPUPool", "p")
    await rounds(8)
    assert POOL_LABEL not in node["metadata"]["labels"]
    assert node["spec"]["taints"] == []
    assert not any(cluster.objects[kind] for kind in ("GPU", "GPUPool", "DaemonSet"))
    await elector.release()


async def policies_live(cluster: Watched) -> None:
    """Run RDMA policies: tables for a node that appears and disappears, statuses, events."""
    world = RdmaWorld()
    world.node("n")
    world.namespace("ml")
    world.network("net", partitions=[{"name": "p"}])
    world.policy("ml/p")
    world.settle("n")
    world.remove("Node", "n")
    world.settle()
    for action in (*world.written, *world.events):
        if isinstance(action, Apply) and not action.status:
            await cluster._client.create(dict(action.document))  # to create a new object
        await cluster._client.perform(action)


def watched_rights() -> set[Right]:
    """Return the rights for everything that kopf and the reflectors list and watch."""
    handlers = watch.make_registry(Store(), lambda kind, name: None)
    rights: set[Right] = set()
    for kind in (one for one in kinds.KINDS if one.reflected):
        where = rdma_loop.object_selectors(kind.name, NAMESPACE).namespace
        rights |= {(where, kind.group, kind.plural, verb) for verb in ("list", "watch")}
    source: Any = None  # nothing is read from it here
    for one in watch.make_reflectors(source, Store(), lambda kind, name: None, NAMESPACE):
        kind = kinds.find_kind(one._kind)
        where = one._chosen.namespace
        rights |= {(where, kind.group, kind.plural, verb) for verb in ("list", "watch")}
    for handler in handlers._watching.get_all_handlers():
        assert handler.selector is not None
        resource = str(handler.selector.plural or handler.selector.any_name)
        of_ours = ("daemonsets", "configmaps")
        namespace = NAMESPACE if resource in of_ours else ""
        for verb in ("list", "watch"):
            rights.add((namespace, handler.selector.group or "", resource, verb))
    return rights


def test_the_operator_has_exactly_the_rights_that_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def live() -> set[Right]:
        async with watched_cluster() as cluster:
            await a_life(cluster, monkeypatch)
            await policies_live(cluster)
            return cluster.rights

    given = granted_rights(render("dra.enabled=true"), "tessera-operator")
    used = normalize_rights(asyncio.run(live()) | watched_rights(), given)
    assert used - given == set(), "used and not granted"
    assert given - used == set(), "granted and not used"


@pytest.mark.parametrize("rdma", [True, False])
@pytest.mark.parametrize("dra", [True, False])
def test_cluster_wide_rights_depend_on_enabled_features(rdma: bool, dra: bool) -> None:
    settings = (f"rdma.enabled={str(rdma).lower()}", f"dra.enabled={str(dra).lower()}")
    given = granted_rights(render(*settings), "tessera-operator")
    assert (("", "resource.k8s.io", "resourceclaims", "watch") in given) == dra
    for resource, verb, own in (("pods", "watch", NAMESPACE), ("events", "create", "default")):
        assert (("", "", resource, verb) in given) == (rdma or dra)
        assert ((own, "", resource, verb) in given) == (not (rdma or dra))
    assert not any(right[2:] == ("resourceclaims", "patch") for right in given)


def test_the_node_agent_has_exactly_the_rights_that_it_uses() -> None:
    rights: set[Right] = set()

    def answer(request: Request) -> Answer:
        namespace, group, resource, verb = right_of(request.method, request.path)
        verb = "watch" if "watch" in request.query else verb
        rights.add((namespace, group, resource, verb))
        # The event exists already, so its patch is counted; a watch ends at once.
        code = {"create": 409, "watch": 403}.get(verb, 200)
        reply = {"kind": "Status", "code": code, "message": "no"} if code > 200 else {}
        return Answer(code, reply or {"metadata": {"name": "x", "uid": "u"}, "items": []})

    with HttpStub(answer) as stub, ApiClient(Configuration(host=stub.url)) as client:
        agent = Kube("n", client)
        agent.gpus()
        with pytest.raises(ClusterError):
            next(agent.watch_gpus(""))
        agent.apply_status("g", GPUStatus())
        agent.pod_event(HolderPod("default", "train", "u"), "Faulted", "why")
        agent.pod("default", "train")
        agent.node_status()
        tables = TablesKube("n", NAMESPACE, client)
        with pytest.raises(ClusterError):
            next(tables.tables())
        tables.acknowledge("u", RDMANodeTablesStatus())
        tables.renew_lease(())
        rights.add((NAMESPACE, "coordination.k8s.io", "leases", "create"))  # to create a new object
        slices = SliceKube("n", DRIVER, client)
        slices.list()
        with pytest.raises(ClusterError):
            next(slices.watch("", lambda: None))
        slices.apply({"metadata": {"name": "n-gpu.tessera.dev-0"}})
        slices.delete("n-gpu.tessera.dev-0")
        rights.add(("", "resource.k8s.io", "resourceslices", "create"))  # to create a new object
        # the response is not a valid object
        with pytest.raises(ClusterError, match="claim default/c has no"):
            ClaimsKube("n", client).claim("default", "c")
    given = granted_rights(render("dra.enabled=true"), "tessera-node")
    assert normalize_rights(rights, given) == given


def test_the_hook_has_exactly_the_rights_that_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup, "_EVERY_S", 0.0)

    async def clean() -> set[Right]:
        async with watched_cluster() as cluster:
            cluster.add("Node", "n")
            cluster.add("MIGLayout", "l")
            cluster.add("GPUFault", "f")
            cluster.add("GPUPool", "p")
            cluster.add("GPU", "g", {"nodeName": "n"})["status"] = {
                "slices": [
                    {
                        "state": "Withdrawing",
                        "resource": "gpu.tessera.dev/mig-1g.6gb",
                        "holders": [{"namespace": "default", "name": "train", "uid": "uid-train"}],
                    }
                ]
            }
            request = cleanup.Request(evict=True, timeout_s=2.0)
            assert await cleanup.cleanup(cluster, request, lambda text: None) == 1
            cluster.objects["GPU"].clear()
            assert await cleanup.cleanup(cluster, request, lambda text: None) == 0
            return cluster.rights

    rights = asyncio.run(clean())
    given = granted_rights(render(), "tessera-cleanup")
    assert normalize_rights(rights, given) == given


def test_the_check_has_exactly_the_rights_that_it_uses() -> None:
    async def look() -> set[Right]:
        async with watched_cluster() as cluster:
            furnish(cluster, "tessera-operator")
            end_pods(cluster)
            identity = Identity(namespace=NAMESPACE, pod_name="me")
            said: list[str] = []
            image = validation.Image("tessera:1")
            found = await check.check(cluster, identity, "tessera-operator", image, said.append)
            assert found == 0, said
            assert "computed and verified" in said[-1]
            return cluster.rights

    rights = asyncio.run(look())
    given = granted_rights(render(), "tessera-check")
    assert normalize_rights(rights, given) == given


def test_requests_are_classified_as_by_the_api_server() -> None:
    group = "/apis/gpu.tessera.dev/v1alpha1"
    assert right_of("PATCH", f"{group}/gpus/g") == ("", "gpu.tessera.dev", "gpus", "patch")
    assert right_of("GET", "/api/v1/nodes") == ("", "", "nodes", "list")
    assert right_of("GET", "/api/v1/namespaces/x") == ("", "", "namespaces", "get")
    evict = right_of("POST", "/api/v1/namespaces/a/pods/p/eviction")
    assert evict == ("a", "", "pods/eviction", "create")
    with pytest.raises(KeyError):
        right_of("BREW", "/api/v1/pods")


def test_the_chart_grants_no_right_to_write_faults() -> None:
    """Cluster administrators have the right through their own role; the chart grants it to no
    user.
    """
    found = render()
    writers = {
        (kind, name)
        for kind in ("Role", "ClusterRole")
        for name in found.get(kind, {})
        for _, resource, verb in rules(found, kind, name)
        if resource == "gpufaults" and verb not in ("list", "watch")
    }
    assert writers == {("ClusterRole", "tessera-cleanup")}
