"""GPUs by ResourceClaims: the devices that nodes publish, their allocation by the stock scheduler,
and programs that use them.

A label makes one node of the pool serve claims, while the other keeps the device plugin; it is
removed at the end.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster.container_kinds import with_containers
from support.cluster.control_plane import place
from support.cluster.dra_claims import ALLOCATION, claim, devices_of, exactly, pod
from support.cluster.interpreter_pool import POOL, is_chosen
from support.cluster.kubectl import EXAMPLES, SYSTEM, Cluster, gpu_nodes, in_node, pod_of, until

Manifest = Callable[..., dict[str, Any]]
SMALL = "mig-1g.10gb.tessera.dev"
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
HOLD = ("--n", "100001", "--hold", "600")
DEMOS_S = 120  # doubled on a busy machine; for all demos, which wait for each other's devices
REFUSED = "sharing-parameters"
SERVED = [one for one in sorted((EXAMPLES / "dra/demos").glob("*.yaml")) if one.stem != REFUSED]


def slices(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    found = cluster.get("resourceslices", f"--field-selector=spec.nodeName={node}")["items"]
    return [one for one in found if one["spec"]["driver"] == "gpu.tessera.dev"]


def devices(cluster: Cluster, node: str) -> dict[str, dict[str, Any]]:
    """Return the devices of a node's pool; empty while the pool is incomplete."""
    found = [one["spec"] for one in slices(cluster, node)]
    newest = max((one["pool"]["generation"] for one in found), default=0)
    found = [one for one in found if one["pool"]["generation"] == newest]
    if not found or len(found) != found[0]["pool"]["resourceSliceCount"]:
        return {}
    return {device["name"]: device for one in found for device in one.get("devices", ())}


def allocatable(cluster: Cluster, node: str, resource: str = RESOURCE) -> str:
    return str(cluster.get("node", node)["status"]["allocatable"].get(resource, "0"))


def move(cluster: Cluster, node: str, allocation: str) -> None:
    """Set the node's allocation label; an empty one restores the pool's setting."""
    label = f"{ALLOCATION}={allocation}" if allocation else f"{ALLOCATION}-"
    cluster.kubectl("label", "node", node, label, "--overwrite")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, whole_cluster: Cluster) -> Iterator[str]:
    """A node whose GPUs are allocated to claims."""
    name = gpu_nodes(whole_cluster)[-1]
    if is_chosen():
        name = request.getfixturevalue("compute_node")
    move(whole_cluster, name, "DRA")
    until(lambda: {"gpu-0", "gpu-1"} <= devices(whole_cluster, name).keys(), 60)
    until(lambda: len(devices(whole_cluster, name)) == 52, 60)  # 26 of each H100
    yield name
    move(whole_cluster, name, "")
    until(lambda: not slices(whole_cluster, name), 60)
    until(lambda: allocatable(whole_cluster, name) == "7", 90)
    layout = POOL if is_chosen() else "seven"
    whole_cluster.kubectl("wait", "--for=condition=Ready", f"miglayout/{layout}", "--timeout=90s")


@pytest.fixture
def claims(namespace: Cluster) -> Iterator[Cluster]:
    """A namespace whose pods and claims are deleted before the namespace."""
    yield namespace
    namespace.delete("pods", "--all")
    namespace.delete("resourceclaims", "--all")


def allocated_devices(cluster: Cluster, name: str) -> list[str]:
    return devices_of(cluster.get("resourceclaim", name))


def unschedulable(cluster: Cluster, name: str) -> bool:
    conditions = cluster.get("pod", name).get("status", {}).get("conditions", [])
    return any(one.get("reason") == "Unschedulable" for one in conditions)


def event_messages(cluster: Cluster, name: str, reason: str) -> list[str]:
    """Return the messages of the events with a reason on a claim and a pod of this name; empty
    until both have one.
    """
    chosen = f"--field-selector=involvedObject.name={name},reason={reason}"
    found = [one["message"] for one in cluster.get("events", chosen)["items"]]
    return found if len(found) > 1 else []


def test_a_node_of_claims_offers_nothing_by_the_device_plugin(
    whole_cluster: Cluster, node: str
) -> None:
    until(lambda: allocatable(whole_cluster, node) == "0")
    until(lambda: allocatable(whole_cluster, node, "gpu.tessera.dev/gpu") == "0")
    other = whole_cluster.get("miglayout", "seven")["status"]
    assert other["conditions"]  # the layout still applies to the other node's GPU
    (owner,) = slices(whole_cluster, node)[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == whole_cluster.get("node", node)["metadata"]["uid"]


def test_deleted_slices_are_published_again_at_once(whole_cluster: Cluster, node: str) -> None:
    """The test deletes them, as a kubelet does at each restart."""
    before = {one["metadata"]["uid"] for one in slices(whole_cluster, node)}
    whole_cluster.kubectl("delete", "resourceslices", f"--field-selector=spec.nodeName={node}")
    until(lambda: len(devices(whole_cluster, node)) == 52, 10, promised=True)
    assert not before & {one["metadata"]["uid"] for one in slices(whole_cluster, node)}


def test_a_claim_that_only_init_containers_use(claims: Cluster, node: str) -> None:
    claims.apply(claim("small", exactly(SMALL)))
    for name in ("first", "second"):  # the claim is prepared once for both
        pod_of_claim = pod(name, "small", arguments=("--n", "1024"), node=node)
        claims.apply(with_containers(pod_of_claim, "init", "restarted"))
    for name in ("first", "second"):
        assert claims.wait_pod(name)["status"]["phase"] == "Succeeded"
        for container in ("init-0", "restarted-1"):
            assert "1024 results verified" in claims.kubectl("logs", name, "-c", container)


@pytest.mark.alone("last-node")
def test_slices_survive_a_restart_of_the_kubelet(whole_cluster: Cluster, node: str) -> None:
    before = {one["metadata"]["uid"] for one in slices(whole_cluster, node)}
    in_node(node, "systemctl", "restart", "kubelet")

    def all_new() -> bool:
        now = {one["metadata"]["uid"] for one in slices(whole_cluster, node)}
        return not now & before and len(devices(whole_cluster, node)) == 52

    until(all_new, 60)
    whole_cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=60s")


def test_an_agent_writes_no_slices_but_its_own_node_s(
    whole_cluster: Cluster, node: str, tmp_path: Path
) -> None:
    """With the token of the other node's agent, and without the administrator's certificate."""
    found = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    other = next(n["metadata"]["name"] for n in found if n["metadata"]["name"] != node)
    agent = pod_of(whole_cluster, "node", other)
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={agent}", "--duration=10m")
    token = whole_cluster.kubectl("-n", SYSTEM, "create", "token", "tessera-node", *bound).strip()

    config = json.loads(whole_cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    agents = tmp_path / "config"
    agents.write_text(json.dumps(config), encoding="utf-8")

    def written(spec: dict[str, Any], name: str) -> str:
        document = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": spec,
        }
        with pytest.raises(AssertionError) as refused:
            whole_cluster.kubectl(
                f"--kubeconfig={agents}", "create", "-f", "-", stdin=json.dumps(document)
            )
        return str(refused.value)

    pool = {"generation": 1, "resourceSliceCount": 1}
    foreign = {"driver": "gpu.tessera.dev", "nodeName": node, "pool": pool | {"name": node}}
    assert "of its own node only" in written(foreign, f"{node}-gpu.tessera.dev-9")
    everywhere = {"driver": "gpu.tessera.dev", "allNodes": True, "pool": pool | {"name": other}}
    assert "of its own node only" in written(everywhere, f"{other}-gpu.tessera.dev-9")
    driver = {"driver": "gpu.nvidia.com", "nodeName": other, "pool": pool | {"name": other}}
    assert "gpu.tessera.dev only" in written(driver, f"{other}-gpu.tessera.dev-9")
    own = slices(whole_cluster, node)[0]["metadata"]["name"]
    with pytest.raises(AssertionError, match="of its own node only"):
        whole_cluster.kubectl(f"--kubeconfig={agents}", "delete", "resourceslice", own)


@pytest.mark.backend
@pytest.mark.timeout(600)  # the interpreter is slow
def test_a_program_computes_on_a_slice_that_was_made_for_its_claim(
    claims: Cluster, node: str
) -> None:
    text = (EXAMPLES / "dra" / "mig.yaml").read_text(encoding="utf-8")
    template, computing = yaml.safe_load_all(text)
    # Nodes of other tests serve claims, too.
    claims.apply(template, place(computing, node) if is_chosen() else computing)
    found = claims.wait_pod("vectoradd-claim")
    logs = claims.logs("vectoradd-claim").splitlines()
    assert found["status"]["phase"] == "Succeeded", logs
    assert found["spec"]["nodeName"] == node
    assert "16777216 results verified" in logs
    assert "device   NVIDIA H100 80GB HBM3 MIG 1g.10gb, compute capability 9.0" in logs


def test_examples_run_side_by_side(claims: Cluster, node: str) -> None:
    wanted = {
        "selectors": ("vectoradd-enough", "MIG 2g.20gb"),
        "prioritized": ("vectoradd-prioritized", "MIG 3g.40gb"),
        "whole": ("vectoradd-whole", "NVIDIA H100 80GB HBM3, compute"),
    }
    for example in wanted:
        claims.kubectl("apply", "-f", str(EXAMPLES / "dra" / f"{example}.yaml"))
    for name, device in wanted.values():
        found = claims.wait_pod(name)
        assert found["status"]["phase"] == "Succeeded", claims.logs(name)
        assert found["spec"]["nodeName"] == node
        assert device in claims.logs(name)


@pytest.fixture(scope="module")
def ending_demos(module_namespace: Cluster, node: str) -> Cluster:
    """A namespace with all demos whose pods end: they run side by side, as far as there is room."""
    del node
    for demo in SERVED:
        if _ends(documents := _documents(demo)):
            module_namespace.apply(*documents)
    return module_namespace


def _ends(documents: list[dict[str, Any]]) -> bool:
    return all(one["kind"] != "Deployment" for one in documents)


def _documents(demo: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list(yaml.safe_load_all(demo.read_text(encoding="utf-8")))
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("demo", SERVED, ids=lambda demo: demo.stem)
def test_demos_of_the_shapes_of_other_drivers_run(
    claims: Cluster, node: str, demo: Path, ending_demos: Cluster
) -> None:
    documents = _documents(demo)
    mine = ending_demos
    if not _ends(documents):
        mine = claims
        claims.apply(*documents)
    for one in documents:
        name = one["metadata"]["name"]
        if one["kind"] == "Pod":
            found = mine.wait_pod(name, timeout_s=DEMOS_S)
            assert found["status"]["phase"] == "Succeeded", mine.kubectl("describe", "pod", name)
            assert found["spec"]["nodeName"] == node
        elif one["kind"] == "Deployment":
            claims.kubectl("rollout", "status", f"deployment/{name}", "--timeout=120s")
            claims.delete("deployment", name)


def test_parameters_that_the_driver_does_not_know_are_refused(claims: Cluster, node: str) -> None:
    del node
    claims.kubectl("apply", "-f", str(EXAMPLES / "dra/demos" / f"{REFUSED}.yaml"))
    chosen = f"--field-selector=involvedObject.name={REFUSED},reason=FailedPrepareDynamicResources"
    (first, *_) = until(lambda: claims.get("events", chosen)["items"], 60)
    assert "opaque parameters GpuConfig for gpu.tessera.dev" in first["message"]


def uuids(cluster: Cluster, name: str) -> dict[str, str]:
    """Return the slice that each container of a pod used; empty until all of them have printed
    it.
    """
    found = {}
    for one in cluster.get("pod", name)["spec"]["containers"]:
        logs = cluster.kubectl("logs", name, "-c", one["name"])
        for line in logs.splitlines():
            if line.startswith("slice"):
                found[one["name"]] = line.split()[-1]
        if one["name"] not in found:
            return {}
    return found


def test_pods_and_containers_share_a_claim(claims: Cluster, node: str) -> None:
    del node
    claims.kubectl("apply", "-f", str(EXAMPLES / "dra" / "shared.yaml"))
    for name in ("shares-1", "shares-2"):
        assert claims.wait_pod(name)["status"]["phase"] == "Succeeded"
    ran = uuids(claims, "shares-1") | {"else": uuids(claims, "shares-2")["one"]}
    assert len(ran) == 3
    assert len(set(uuids(claims, "shares-1").values())) == 1


@pytest.fixture
def sharing(whole_cluster: Cluster, node: str) -> Iterator[None]:
    """The pool permits several claims to share a device."""

    def allow(allowed: bool) -> None:
        change = json.dumps({"spec": {"allowMultipleAllocations": allowed}})
        whole_cluster.kubectl("patch", "gpupool", "demo", "--type=merge", "-p", change)

        def is_reported() -> bool:
            found = devices(whole_cluster, node).values()
            said = {bool(one.get("allowMultipleAllocations")) for one in found}
            return len(found) == 52 and said == {allowed}

        until(is_reported, 60)

    allow(True)
    yield
    allow(False)


@pytest.mark.usefixtures("sharing")
def test_claims_share_a_slice_by_its_memory(claims: Cluster, node: str) -> None:
    pods = ("part-1", "part-2")
    template, *sharing_pods = _documents(EXAMPLES / "dra" / "shares.yaml")
    for one in sharing_pods:
        one["spec"]["terminationGracePeriodSeconds"] = 1
        (container,) = one["spec"]["containers"]
        container["command"][-2:] = HOLD[-2:]  # until the test has looked
    claims.apply(template, *sharing_pods)
    for name in pods:
        claims.wait_pod(name, "Running")
    made = claims.get("resourceclaims")["items"]
    assert {device for one in made for device in devices_of(one)} == {f"{node}/gpu-0-mig-1g10gb-6"}
    results = [one["status"]["allocation"]["devices"]["results"][0] for one in made]
    assert len({one["shareID"] for one in results}) == 2
    assert {one["consumedCapacity"]["memory"] for one in results} == {"4Gi"}

    def sharers() -> dict[str, tuple[bool, int]]:
        gpu = claims.get("gpu", f"{node}-gpu-0")["status"]
        return {
            one["claim"]["name"]: (one["shared"], one["memoryBytes"] >> 30)
            for one in gpu.get("claims", [])
        }

    until(lambda: sharers() == {one["metadata"]["name"]: (True, 4) for one in made})
    # That slice has no room for another 4 GiB; a claim without a share gets a whole slice.
    claims.apply(claim("whole", exactly(SMALL)), pod("whole", "whole", arguments=HOLD, node=node))
    claims.wait_pod("whole", "Running")
    assert not set(allocated_devices(claims, "whole")) & {f"{node}/gpu-0-mig-1g10gb-6"}
    for name in pods:
        until(lambda name=name: "results verified" in claims.logs(name), 60)
    ran = [next(iter(uuids(claims, name).values())) for name in pods]
    assert ran[0] == ran[1]
    claims.delete("pod", *pods)
    until(lambda: sharers().keys() == {"whole"}, 60)
    claims.delete("pod", "whole")
    claims.delete("resourceclaim", "whole")


def test_slices_of_one_claim_lie_on_one_gpu_and_each_container_has_its_own(
    claims: Cluster, node: str
) -> None:
    text = (EXAMPLES / "dra" / "one-gpu.yaml").read_text(encoding="utf-8")
    template, three = yaml.safe_load_all(text)
    for container in three["spec"]["containers"]:  # the claim is deleted when the pod ends
        container["command"] += ["--hold", "600"]
        container["env"] = [{"name": "PYTHONUNBUFFERED", "value": "1"}]
    three["spec"]["terminationGracePeriodSeconds"] = 1
    claims.apply(template, three)
    claims.wait_pod("slices-of-one-gpu", "Running")
    (made,) = claims.get("resourceclaims")["items"]
    names = devices_of(made)
    assert len({name.partition("-mig-")[0] for name in names}) == 1
    assert all(name.startswith(f"{node}/gpu-") for name in names)
    ran = until(lambda: uuids(claims, "slices-of-one-gpu"), 60)
    assert len(set(ran.values())) == 3


def test_the_stock_scheduler_places_what_fits_and_nothing_else(claims: Cluster, node: str) -> None:
    """3g at 4 and 0 fill a GPU's memory: both GPUs hold four of them, and no additional 1g."""
    large = [f"large-{number}" for number in range(4)]
    for name in large:
        claims.apply(
            claim(name, exactly("mig-3g.40gb.tessera.dev")),
            pod(name, name, arguments=HOLD, node=node),
        )
    for name in large:
        claims.wait_pod(name, "Running")
    given = sorted(device for name in large for device in allocated_devices(claims, name))
    assert given == sorted(
        f"{node}/gpu-{gpu}-mig-3g40gb-{start}" for gpu in (0, 1) for start in (0, 4)
    )
    claims.apply(claim("small", exactly(SMALL)), pod("small", "small", arguments=HOLD, node=node))
    until(lambda: unschedulable(claims, "small"), 60)
    full = until(lambda: event_messages(claims, "small", "ClaimNoRoom"))
    assert len(full) == 2  # one on the claim, one on the pod
    assert all("no 1g.10gb left" in one and f"{claims.namespace}/large-0" in one for one in full)
    claims.delete("pod", "large-0")
    claims.delete("resourceclaim", "large-0")
    claims.wait_pod("small", "Running")


def test_an_administrator_s_look_reserves_nothing(claims: Cluster, node: str) -> None:
    looking = claim("look", exactly("gpu.tessera.dev", allocationMode="All", adminAccess=True))
    with pytest.raises(AssertionError, match="admin access"):
        claims.apply(looking)
    label = "resource.kubernetes.io/admin-access=true"
    claims.kubectl("label", "namespace", claims.namespace, label)
    looks = pod("look", "look", node=node)
    looks["spec"]["containers"][0]["command"] = ["sleep", "600"]
    claims.apply(looking, looks)
    claims.wait_pod("look", "Running")
    assert sorted(allocated_devices(claims, "look")) == [f"{node}/gpu-0", f"{node}/gpu-1"]
    claims.apply(claim("held", exactly(SMALL)), pod("held", "held", arguments=HOLD, node=node))
    claims.wait_pod("held", "Running")
    assert allocated_devices(claims, "held") == [f"{node}/gpu-0-mig-1g10gb-6"]


def test_an_unhealthy_gpu_is_tainted_and_given_to_no_claim_until_it_is_back(
    whole_cluster: Cluster, claims: Cluster, node: str
) -> None:
    whole_cluster.apply(
        {
            "apiVersion": "gpu.tessera.dev/v1alpha1",
            "kind": "GPUFault",
            "metadata": {"name": "dra"},
            "spec": {"gpuName": f"{node}-gpu-1", "offBus": True},
        }
    )
    try:

        def taints() -> list[dict[str, Any]]:
            found = devices(whole_cluster, node).get("gpu-1-mig-1g10gb-6", {})
            return list(found.get("taints", []))

        (taint,) = until(taints)
        assert (taint["key"], taint["effect"]) == ("gpu.tessera.dev/unhealthy", "NoSchedule")
        selector = 'device.attributes["gpu.tessera.dev"].parentIndex == 1'
        wanted = {"selectors": [{"cel": {"expression": selector}}]}
        claims.apply(
            claim("healthy", exactly(SMALL, **wanted)),
            pod("healthy", "healthy", arguments=HOLD, node=node),
        )
        until(lambda: unschedulable(claims, "healthy"), 60)
    finally:
        whole_cluster.delete("gpufault", "dra")
    claims.wait_pod("healthy", "Running")  # without further action, once the GPU is back


def test_a_plain_limit_is_served_by_a_claim(
    whole_cluster: Cluster, claims: Cluster, sample_pod: Manifest, node: str
) -> None:
    """Equivalent to the chart's dra.extendedResources.enabled, for one class."""
    name = {"spec": {"extendedResourceName": RESOURCE}}
    whole_cluster.kubectl("patch", "deviceclass", SMALL, "--type=merge", "-p", json.dumps(name))
    try:
        claims.apply(sample_pod("plain", "--n", "100001", node=node))
        found = claims.wait_pod("plain")
        assert found["status"]["phase"] == "Succeeded", claims.logs("plain")
        assert found["status"]["extendedResourceClaimStatus"]
    finally:
        none = {"spec": {"extendedResourceName": None}}
        whole_cluster.kubectl("patch", "deviceclass", SMALL, "--type=merge", "-p", json.dumps(none))


def test_layouts_and_claims_share_a_gpu(whole_cluster: Cluster, claims: Cluster, node: str) -> None:
    """With "Both", claims get what the layout leaves of GPU 0 (nothing), and all of GPU 1."""
    move(whole_cluster, node, "Both")
    try:

        def free() -> set[str]:
            return {name for name in devices(whole_cluster, node) if name.startswith("gpu-0-")}

        until(lambda: allocatable(whole_cluster, node) == "7", 60)
        until(lambda: devices(whole_cluster, node) and not free())
        claims.apply(claim("rest", exactly(SMALL)), pod("rest", "rest", arguments=HOLD, node=node))
        claims.wait_pod("rest", "Running")
        assert allocated_devices(claims, "rest") == [f"{node}/gpu-1-mig-1g10gb-6"]
    finally:
        move(whole_cluster, node, "DRA")
        until(lambda: len(devices(whole_cluster, node)) == 52, 60)
