"""The pages of topologies and metrics, and what-if of RDMA policies."""

import asyncio
import html
import random
import re
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlencode

import pytest
import yaml

from benchmarks.console import synthetic
from benchmarks.console.pictures import READ_ONLY_POLICY as POLICY
from benchmarks.console.synthetic import SyntheticCluster
from console.model.exporters import MOST_BYTES, Exporters, Proxy, Scrape
from console.views import metrics
from gpu_operator import errors
from support.rigs.console_rig import Answer, Console, open_console
from support.rigs.fake_exporters import FakeProxy, exporter_of

ANSWER = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 37
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1"} 211.5
tessera_kernel_launches_total{gpu="0",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb",namespace="ml",pod="<b>"} 12
tessera_host_to_device_bytes_total{gpu="0",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb",namespace="ml",pod="<b>"} 1048576
other_metric{gpu="0"} 5
DCGM_FI_DEV_GPU_UTIL{gpu="1"} NaN
DCGM_FI_DEV_GPU_UTIL{gpu="2"} nonsense
"""


def fetch(cluster: SyntheticCluster, path: str, body: str = "", method: str = "GET") -> Answer:
    def ask(console: Console) -> Awaitable[Answer]:
        return console.request(path, method=method, body=body.encode())

    return run(cluster, ask)


def run(cluster: SyntheticCluster, use: Callable[[Console], Awaitable[Answer]]) -> Answer:
    async def whole() -> Answer:
        async with open_console(cluster) as console:
            return await use(console)

    return asyncio.run(whole())


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s behind NVSwitches, in a pool with HCAs."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    choose = random.Random(1)
    synthetic.add_node(cluster, "n1", "h100-80gb", choose, alike=True, gpus=2)
    return cluster


def test_a_topology_has_the_devices_of_the_gpu_objects(node: SyntheticCluster) -> None:
    text = fetch(node, "/topology/n1").text
    for name in ("GPU 0", "GPU 1", "HCA 0", "HCA 3", "NVSwitches, 18 NVLinks from each GPU"):
        assert name in text
    assert "GPU 2<" not in text
    assert "HCA 4<" not in text
    assert 'href="/gpus/n1-gpu-1"' in text
    assert '/topology/n1"' in fetch(node, "/topology").text


def test_hcas_of_a_flat_topology_are_at_the_roots_of_their_numbers(node: SyntheticCluster) -> None:
    assert "In the flat topology" not in fetch(node, "/topology/n1").text
    for name in ("n1-gpu-0", "n1-gpu-1"):
        node.objects["GPU"][name]["spec"]["topology"] = "flat"
    text = fetch(node, "/topology/n1").text
    assert "In the flat topology every HCA is at the PCIe root that has its number" in text
    for number in range(4):
        row = f"<td>HCA {number}</td><td>no PCI address</td>"
        cells = f'{row}<td class="num">0</td><td class="num">{number}</td>'
        assert cells in re.sub(' data-label="[^"]*"', "", text)
    assert "HCA 1 below switch 1 of NUMA node 0" in text
    assert "drawn without a switch" not in text


def test_hcas_without_a_place_in_the_topology_are_drawn_without_a_switch(
    node: SyntheticCluster,
) -> None:
    assert "drawn without a switch" not in fetch(node, "/topology/n1").text
    node.objects["GPUPool"]["h100"]["spec"]["hcas"]["count"] = 6
    for name in ("n1-gpu-0", "n1-gpu-1"):
        node.objects["GPU"][name]["spec"]["topology"] = "hgx-4"
    text = fetch(node, "/topology/n1").text
    assert "2 HCAs of the node, drawn without a switch, have no place" in text
    cells = '<td>HCA 5</td><td>no PCI address</td><td class="num">not stated</td>'
    assert cells in re.sub(' data-label="[^"]*"', "", text)
    assert "HCA 3 below switch 3 of NUMA node 1" in text
    assert "HCA 4 at a place that is not stated" in text
    assert text.count("box hca") == 6


def test_an_unhealthy_gpu_is_marked_in_the_topology(node: SyntheticCluster) -> None:
    assert "box gpu ill" not in fetch(node, "/topology/n1").text
    node.objects["GPU"]["n1-gpu-0"]["status"]["health"] = "Unhealthy: Xid 79"
    text = fetch(node, "/topology/n1").text
    assert text.count("box gpu ill") == 1
    assert "GPU 0 is Unhealthy: Xid 79" in text


@pytest.mark.parametrize(
    ("topology", "what"),
    [("nope", "no topology"), ("hgx-4", "do not share one"), ("<b>", "do not share one")],
)
def test_a_topology_that_cannot_be_drawn_is_named(
    node: SyntheticCluster, topology: str, what: str
) -> None:
    chosen = ["n1-gpu-0", "n1-gpu-1"][: 2 if topology == "nope" else 1]
    for name in chosen:
        node.objects["GPU"][name]["spec"]["topology"] = topology
    answer = fetch(node, "/topology/n1")
    assert answer.status == 200
    assert what in answer.text


@pytest.mark.parametrize("path", ["/topology/other", "/metrics/other"])
def test_a_node_without_gpus_has_no_such_page(node: SyntheticCluster, path: str) -> None:
    assert fetch(node, path).status == 404


def test_memory_that_devices_share_counts_once_and_each_part_in_use(node: SyntheticCluster) -> None:
    mix = ("1c.3g.40gb", "1c.3g.40gb", "3g.40gb")
    gpu = synthetic.gpu_document("n1", 0, "h100-80gb", mix, random.Random(1), alike=True)
    for one in gpu["status"]["slices"]:
        one["memoryUsedBytes"] = 1 << 30
        one["memoryBytes"] = 40 << 30
    node.put("GPU", gpu)
    assert "3.0 GiB of 80.0 GiB of slices" in fetch(node, "/metrics").text


def test_memory_of_claims_that_share_a_gpu_is_that_of_all_their_parts(
    node: SyntheticCluster,
) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    part = {"uuid": "GPU-x", "profile": "whole", "start": 0, "multiprocessors": 132}
    part |= {"shared": True, "memoryBytes": 20 << 30, "memoryUsedBytes": 1 << 30}
    claims = [part | {"claim": {"namespace": "ml", "name": name}} for name in ("a", "b")]
    gpu["status"] |= {"slices": [], "claims": claims}
    assert "2.0 GiB of 40.0 GiB of slices" in fetch(node, "/metrics").text
    row = "2.0 GiB of 40.0 GiB</td>"
    assert row in fetch(node, "/nodes/n1").text


def test_what_an_agent_has_not_reported_is_no_zero(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    gpu["status"] = {}
    text = fetch(node, "/gpus/n1-gpu-0").text
    for name in ("Memory", "SMs", "MIG mode"):
        assert f"<dt>{name}</dt><dd>not reported" in text
    assert "The node agent has not reported yet." in text
    for page in ("/gpus/n1-gpu-0", "/nodes/n1", "/metrics"):
        assert ">0 MiB" not in fetch(node, page).text, page
    fleet = fetch(node, "/").text
    assert "not healthy)" not in fleet
    assert re.search(r"1 GPU needs attention:\s+1 of unknown health", fleet)
    assert "box gpu ill" not in fetch(node, "/topology/n1").text


def test_a_gpu_object_that_is_being_deleted_says_so(node: SyntheticCluster) -> None:
    pages = ("/gpus/n1-gpu-0", "/nodes/n1")
    for page in pages:
        assert "being deleted" not in fetch(node, page).text
    node.objects["GPU"]["n1-gpu-0"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for page in pages:
        assert fetch(node, page).text.count("being deleted") == 1


def show(node: SyntheticCluster, proxy: Proxy | None) -> str:
    async def use(console: Console) -> Answer:
        console.pages._live.exporters = Exporters(proxy)
        await console.request("/metrics/n1")
        return await console.request("/metrics/n1")

    return run(node, use).text


def test_an_exporters_figures_are_read_once_and_shown(node: SyntheticCluster) -> None:
    proxy = FakeProxy(ANSWER.encode(), [exporter_of("n1")])
    text = show(node, proxy)
    assert proxy.reads == [("tessera-system", "exporter-x", 9400, "/metrics", MOST_BYTES)]
    for cell in ("37", "211.5", "12", "1g.10gb (instance 3)", "&lt;b&gt;"):
        assert f"<bdi>{cell}</bdi>" in text
    assert "nonsense" not in text
    assert "tessera-system/exporter-x" in text


def test_figures_have_the_health_of_their_gpu_and_are_sorted_by_number() -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="{one}"}} {one}' for one in (10, 9, 1)]
    lines += [
        f'tessera_kernel_seconds_total{{gpu="1",GPU_I_ID="{one}"}} 0.0012345' for one in (12, 7)
    ]
    devices = {
        "1": metrics.Device("Healthy", 3 << 29, 70 << 30, board_bytes=80 << 30),
        "9": metrics.Device("Unhealthy", 0, 80 << 30),
    }
    gpus, instances = metrics.tables(Scrape("\n".join(lines)), devices)
    assert gpus.rows == (
        ("1", "Healthy", "1.5 of 70.0", "80.0", "1"),
        ("9", "Unhealthy", "0.0 of 80.0", "", "9"),
        ("10", "no GPU object", "", "", "10"),
    )
    assert gpus.head[: gpus.labels] == ("GPU", "Health")
    memory_heads = ("Memory in slices, used of total (GiB)", "Memory of the board (GiB)")
    assert gpus.head[gpus.labels : gpus.labels + 2] == memory_heads
    assert [one[2] for one in instances.rows] == ["7", "12"]
    assert instances.rows[0][-1] == "0.001234"


def test_the_page_states_the_board_and_the_age_of_its_memory(node: SyntheticCluster) -> None:
    node.objects["GPU"]["n1-gpu-0"]["status"]["memoryBytes"] = 81 << 30
    text = show(node, FakeProxy(ANSWER.encode(), [exporter_of("n1")]))
    assert "<bdi>81.0</bdi>" in text
    assert "writes a change of memory in use after half a minute" in text


def test_a_lost_gpu_has_no_readings_even_if_an_exporter_repeats_them() -> None:
    lines = [f'DCGM_FI_DEV_POWER_USAGE{{gpu="{one}"}} 70' for one in (0, 1, 2)]
    mig = 'GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"'
    for gpu in (0, 1):
        lines.append(f'DCGM_FI_DEV_FB_USED{{gpu="{gpu}",{mig}}} 5')
        lines.append(f'tessera_kernel_launches_total{{gpu="{gpu}",{mig}}} 12')
    devices = {str(one): metrics.Device("h", 1, 80 << 30, one == 0) for one in (0, 1, 2)}

    def cells(more: str = "") -> tuple[list[str], list[tuple[str, ...]]]:
        gpus, instances = metrics.tables(Scrape("\n".join((*lines, more))), devices)
        return [one[-1] for one in gpus.rows], [one[-2:] for one in instances.rows]

    assert cells() == (["lost", "70", "70"], [("lost", "12"), ("5", "12")])
    newer = 'tessera_gpu_lost{gpu="0"} 0\ntessera_gpu_lost{gpu="1"} 1'  # later than the objects
    assert cells(newer) == (["70", "lost", "70"], [("5", "12"), ("lost", "12")])
    (alone,) = metrics.tables(Scrape('tessera_gpu_lost{gpu="0"} 1'), {})
    assert [one[0] for one in alone.rows] == ["0"]
    assert set(alone.rows[0][2:3] + alone.rows[0][4:]) == {"lost"}


def test_a_gpu_off_the_bus_is_lost_on_every_page_with_its_memory(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    one = gpu["status"]["slices"][0]
    (pod,) = one["holders"]
    of_pod = f"/pods/{pod['namespace']}/{pod['name']}"
    pages = ("/gpus/n1-gpu-0", "/nodes/n1", "/metrics", f"/slices/{one['uuid']}", of_pod, "/slices")
    used = f"{one['memoryUsedBytes'] / 2**30:.1f} GiB of"
    whole = "the GPU is off the bus</li>"  # of the legend

    def texts() -> list[str]:
        return [fetch(node, page).text.replace(whole, "") for page in pages]

    for text in texts():
        assert "off the bus" not in text
    gpu["spec"]["faults"] = [{"id": "f", "kind": "off_bus"}]
    gpu["status"]["faults"] = [{"id": "f", "phase": "Active"}]
    for page, text in zip(pages, texts(), strict=True):
        assert "off the bus" in text, page
        assert page == "/metrics" or "lost: off the bus; Healthy" in text, page
        assert page != f"/slices/{one['uuid']}" or used not in text
    gpu["status"]["faults"][0]["phase"] = "Cleared"
    for text in texts():
        assert "off the bus" not in text
    gpu["status"]["lost"] = True  # injected on the node: no GPUFault
    for page, text in zip(pages, texts(), strict=True):
        assert "off the bus" in text, page


def test_the_page_of_a_lost_gpu_states_its_slices_holders_and_the_next_steps(
    node: SyntheticCluster,
) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    assert "has fallen off the bus (Xid 79)" not in fetch(node, "/gpus/n1-gpu-0").text
    gpu["status"] |= {"lost": True, "health": "Unhealthy"}  # an agent does not state the reason
    text = fetch(node, "/gpus/n1-gpu-0").text
    assert "has fallen off the bus (Xid 79)" in text
    assert "<code>tessera fault clear</code> in the node’s pod of gpud ends it" in text
    assert "No GPUFault of the GPU explains its health" not in text
    assert "the first step after Xid 79: restart the node" in text
    assert text.count("lost, Active") == 7
    assert text.count('class="s lost"') == 14 + 1  # two boxes of each slice, and the legend's
    (pod,) = gpu["status"]["slices"][0]["holders"]
    assert f'href="/pods/{pod["namespace"]}/{pod["name"]}"' in text.partition("Affected pods")[2]
    gpu["spec"]["faults"] = [{"id": "f", "kind": "off_bus"}]
    gpu["status"]["faults"] = [{"id": "f", "phase": "Active"}]
    assert "It returns when the GPUFault ends." in fetch(node, "/gpus/n1-gpu-0").text


def test_fleet_node_and_topology_name_a_lost_gpu(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    gpu["status"] |= {"lost": True, "health": "Unhealthy"}
    fleet = " ".join(fetch(node, "/").text.split())
    assert "1 GPU needs attention: 1 lost" in fleet
    assert "<b>7</b> lost" in fleet
    assert "GPU 0 lost: off the bus; Unhealthy" in fleet
    assert "lost: off the bus; Unhealthy" in fetch(node, "/nodes/n1").text
    assert "GPU 0 is lost: off the bus; Unhealthy" in fetch(node, "/topology/n1").text
    spec = {"selector": {"pool": "h100"}, "instances": [{"profile": "7g.80gb"}]}
    manifest = {"apiVersion": "gpu.tessera.dev/v1alpha1", "kind": "MIGLayout", "spec": spec}
    body = urlencode({"manifest": yaml.safe_dump({**manifest, "metadata": {"name": "big"}})})
    diff = fetch(node, "/layout", body=body, method="POST").text
    assert "(lost: off the bus; Unhealthy)" in " ".join(diff.split())
    gpu["status"]["health"] = "Healthy"  # gpud ignores Xids
    assert re.search(r"1 GPU needs attention:\s+1 lost", fetch(node, "/").text)


def test_the_pages_of_a_node_and_its_gpus_lead_to_each_other(node: SyntheticCluster) -> None:
    uuid = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]["uuid"]
    pages = {f"/{page}/n1" for page in ("nodes", "topology", "metrics")}
    for page in sorted({*pages, "/gpus/n1-gpu-0", f"/slices/{uuid}"}):
        text = fetch(node, page).text
        for other in pages - {page}:
            assert f'href="{other}"' in text, (page, other)
    for page in ("/nodes/n1", "/topology/n1"):
        assert 'href="/gpus/n1-gpu-0"' in fetch(node, page).text


def test_gpus_and_pods_in_the_figures_of_an_exporter_are_links(node: SyntheticCluster) -> None:
    (pod,) = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]["holders"]
    text = ANSWER.replace(
        'namespace="ml",pod="<b>"', f'namespace="{pod["namespace"]}",pod="{pod["name"]}"'
    )
    page = show(node, FakeProxy(text.encode(), [exporter_of("n1")]))
    assert page.count('href="/gpus/n1-gpu-0"') == 2
    assert f'href="/pods/{pod["namespace"]}/{pod["name"]}"' in page
    unknown = show(node, FakeProxy(ANSWER.encode(), [exporter_of("n1")]))
    assert "/pods/" not in unknown


@pytest.mark.parametrize(
    ("proxy", "what"),
    [
        (None, "no connection to an API server"),
        (FakeProxy(b"", []), "no exporter runs on node n1"),
        (FakeProxy(b"", [exporter_of("n2")]), "no exporter runs on node n1"),
        (
            FakeProxy(ANSWER.encode(), [exporter_of("n1"), exporter_of("n1", "tenant")]),
            "pods of several namespaces have an exporter&#39;s label: tenant, tessera-system",
        ),
        (
            FakeProxy(errors.Refused("pods/proxy is forbidden"), [exporter_of("n1")]),
            "not permitted: pods/proxy is forbidden",
        ),
        (FakeProxy(errors.Unreachable("no route"), [exporter_of("n1")]), "no route"),
    ],
)
def test_without_an_answer_the_page_names_the_reason(
    node: SyntheticCluster, proxy: FakeProxy | None, what: str
) -> None:
    text = show(node, proxy)
    assert what in text
    assert "<code>pods/proxy</code>" in text
    assert 'class="figures"' not in text


def test_a_hostile_answer_gives_no_figures() -> None:
    for text in ("", "x" * 10**6, "DCGM_FI_DEV_GPU_UTIL{" + 'a="b",' * 10**5 + "} 1", "\x00" * 9):
        assert metrics.tables(Scrape(text), {}) == []


def propose(cluster: SyntheticCluster, text: str) -> Answer:
    return fetch(cluster, "/rdma/what-if", urlencode({"manifest": text}), "POST")


@pytest.fixture
def fabric() -> SyntheticCluster:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 3)
    return cluster


def test_a_proposed_policy_changes_the_verdicts_of_this_answer_only(
    fabric: SyntheticCluster,
) -> None:
    async def use(console: Console) -> Answer:
        before = (await console.request("/rdma")).text
        body = urlencode({"manifest": POLICY}).encode()
        answer = await console.request("/rdma/what-if", method="POST", body=body)
        after = (await console.request("/rdma")).text
        # without the ages of pods, which pass on
        before, after = (re.sub(r'data-since="\d+"', "", one) for one in (before, after))
        assert before == after
        assert not console.model.fabric.policies.get("training/read-only")
        return answer

    answer = run(fabric, use)
    assert answer.status == 200
    assert 'all verbs</td><td data-label="Then">Send, Read, CM</td>' in answer.text


def _edited(text: str) -> str:
    """Return what the text area of a page contains."""
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def _get(cluster: SyntheticCluster, path: str, **query: str) -> Answer:
    return run(cluster, lambda console: console.request(path, query=urlencode(query)))


def test_a_policy_of_the_cluster_is_loaded_into_the_editor(fabric: SyntheticCluster) -> None:
    name = "RDMANetworkPolicy training/read-only-weights"
    assert f'<option value="{name}">' in fetch(fabric, "/rdma/what-if").text
    text = _edited(_get(fabric, "/rdma/what-if", object=name).text)
    manifest = yaml.safe_load(text)
    spec = fabric.objects["RDMANetworkPolicy"]["training/read-only-weights"]["spec"]
    assert manifest["metadata"] == {"name": "read-only-weights", "namespace": "training"}
    assert manifest["spec"] == spec
    assert "0 pairs of pods whose verbs change" in propose(fabric, text).text
    assert "0 pairs of pods" not in propose(fabric, text.replace("- Read", "- Write")).text


def test_a_network_of_the_cluster_keeps_its_age_in_an_edited_copy(
    fabric: SyntheticCluster,
) -> None:
    """The older of two networks has a P_Key that both request: the copy must not lose it."""
    for name, age, app in (("young", 2, "trainer"), ("old", 1, "reader")):
        members = [{"podSelector": {"matchLabels": {"app": app}}}]
        spec = {"partitions": [{"name": "p", "pkey": 7, "members": members}]}
        made = {"name": name, "creationTimestamp": f"2026-01-0{age}T00:00:00Z"}
        fabric.put("RDMANetwork", {"metadata": made, "spec": spec})
    for name in ("young", "old"):
        text = _edited(_get(fabric, "/rdma/what-if", object=f"RDMANetwork {name}").text)
        assert "0 pairs of pods whose verbs change" in propose(fabric, text).text


@pytest.mark.parametrize("name", ["RDMANetworkPolicy a/b", "Secret training/x", "RDMANetwork", "x"])
def test_an_object_that_does_not_exist_is_not_loaded(fabric: SyntheticCluster, name: str) -> None:
    assert _get(fabric, "/rdma/what-if", object=name).status == 404


def test_an_explanation_leads_to_copies_of_the_policies_that_decide(
    fabric: SyntheticCluster,
) -> None:
    ends = {"from": "training/worker-4", "to": "training/worker-0"}
    text = _get(fabric, "/rdma/explain", **ends).text
    name = quote("RDMANetworkPolicy training/read-only-weights")
    assert f'href="/rdma/what-if?object={name}"' in text


def test_every_layout_can_be_loaded_into_the_editor(fabric: SyntheticCluster) -> None:
    for number in range(1, 13):
        spec = {"selector": {"pool": "a30"}, "instances": [{"profile": "1g.6gb", "count": number}]}
        fabric.put("MIGLayout", {"metadata": {"name": f"l{number}"}, "spec": spec})
    text = fetch(fabric, "/layout").text
    for number in range(1, 13):
        assert f'<option value="l{number}">' in text
    manifest = yaml.safe_load(_edited(_get(fabric, "/layout", name="l11").text))
    assert manifest["spec"]["instances"][0]["count"] == 11
    assert _get(fabric, "/layout", name="gone").status == 404


def test_a_policy_that_selects_no_pod_changes_nothing(fabric: SyntheticCluster) -> None:
    text = propose(
        fabric, POLICY.replace("podSelector: {}\n", "podSelector: {matchLabels: {a: b}}\n")
    ).text
    assert "0 pairs of pods whose verbs change" in text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "objects are expected, not 0"),
        (POLICY.replace("RDMANetworkPolicy", "Pod"), "kind: RDMANetworkPolicy"),
        (POLICY.replace("v1alpha1", "v9"), "apiVersion: "),
        (POLICY.replace("name: read-only", "name: 5"), "metadata.name: a name is expected"),
        ("a: [", "not YAML"),
        ("---\n".join([POLICY] * 17), "not 17"),
        ("5", "kind: "),
        ("x" * 70_000, "more than 65536 characters"),
    ],
)
def test_an_invalid_proposal_is_refused_by_name(
    fabric: SyntheticCluster, text: str, what: str
) -> None:
    answer = propose(fabric, text)
    assert answer.status == 422
    assert what in answer.text


def test_an_invalid_policy_is_evaluated_as_the_operator_would(fabric: SyntheticCluster) -> None:
    text = propose(fabric, POLICY.replace("verbs: [CM, Send, Read]", "verbs: [Fly]")).text
    assert "Invalid, so the operator would deny everything" in text
    assert 'all verbs</td><td data-label="Then">nothing passes</td>' in text


def test_a_cell_of_the_matrix_names_the_policies_and_rules_that_decide(
    fabric: SyntheticCluster,
) -> None:
    page = fetch(fabric, "/rdma").text
    titles = re.findall(r'title="([^"]* → [^"]*)"', page)
    isolated = [one for one in titles if "ingress: isolated by " in one]
    assert isolated
    for one in isolated:
        (policy,) = re.findall(r"ingress: isolated by ([^;]+);", one)
        assert f"{policy} ingress[0] grants " in one or "no rule grants anything" in one
    free = [one for one in titles if "ingress: no policy isolates " in one]
    assert len(isolated) + len(free) == len(titles)


def test_launches_and_copies_per_second_follow_from_two_answers(node: SyntheticCluster) -> None:
    proxy, now = FakeProxy(ANSWER.encode(), [exporter_of("n1")]), [100.0]

    async def use(console: Console) -> list[str]:
        console.pages._live.exporters = Exporters(proxy, clock=lambda: now[0])
        pages = [(await console.request("/metrics/n1")).text]
        for after_s, launches in ((10, 47), (8, 16), (90, 17)):
            proxy.body = ANSWER.replace("} 12", f"}} {launches}").encode()
            now[0] += after_s
            pages.append((await console.request("/metrics/n1")).text)
        return pages

    first, second, restarted, late = run(node, use)
    assert "Launches per second" not in first
    assert "<bdi>3.5</bdi>" in second  # 35 in ten seconds
    assert "<bdi>2</bdi>" in restarted  # 16 since the counter began again, in eight seconds
    assert "Launches per second" not in late  # the answers are too far apart


def test_pods_are_listed_by_the_memory_that_they_use(node: SyntheticCluster) -> None:
    first, second = (node.objects["GPU"][f"n1-gpu-{index}"]["status"] for index in (0, 1))
    for one in (*first["slices"], *second["slices"]):
        one |= {"holders": [], "memoryUsedBytes": 0, "memoryBytes": 10 << 30}

    def hold(one: dict[str, object], used: int, *names: str) -> None:
        one["memoryUsedBytes"] = used << 30
        one["holders"] = [{"namespace": "ml", "name": name, "uid": name} for name in names]

    hold(first["slices"][0], 3, "small")
    hold(first["slices"][1], 4, "large")
    hold(second["slices"][0], 2, "large")
    hold(second["slices"][1], 5, "shared-a", "shared-b")
    busy = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",namespace="ml",pod="large"} 0.25'
    proxy = FakeProxy(busy.encode(), [exporter_of("n1")])

    async def use(console: Console) -> Answer:
        console.pages._tables._exporters = Exporters(proxy)
        return await console.request("/metrics", query="namespace=ml")

    text = run(node, use).text
    table = text.partition("Busiest pods, by memory in use</caption>")[2].partition("</table>")[0]
    assert re.findall(r'title="ml/([^"]+)"', table) == ["large", "shared-a", "shared-b", "small"]
    rows = [re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", one)) for one in table.split("<tr>")[2:]]
    assert "6.0 GiB of 20.0 GiB 2 25 %" in rows[0]
    assert "5.0 GiB of 10.0 GiB 1, 1 shared not known" in rows[1]
    node.objects["GPU"]["n1-gpu-0"]["spec"]["faults"] = [{"id": "f", "kind": "off_bus"}]
    first["faults"] = [{"id": "f", "phase": "Active"}]
    text = run(node, use).text
    assert "not known: off the bus" in text
    assert "2.0 GiB of 20.0 GiB, without 1 slice off the bus" in text


def test_no_slice_of_a_sick_gpu_is_drawn_or_counted_as_free(node: SyntheticCluster) -> None:
    def sums() -> str:
        return " ".join(re.sub(r"<[^>]+>", "", fetch(node, "/").text).split())

    assert "slices: 2 free, 12 held" in sums()
    node.objects["GPU"]["n1-gpu-0"]["status"]["health"] = "Unhealthy: Xid 48"
    node.objects["GPU"]["n1-gpu-1"]["status"]["health"] = "Unknown"  # nothing has been read
    assert "slices: 1 free, 6 held, 7 not healthy" in sums()
    assert "1g.10gb: 1 of 14 free" in sums()
