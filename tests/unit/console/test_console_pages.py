"""The pages: what they show of a cluster, that they escape every name, and that they stay live."""

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from typing import TypeVar
from urllib.parse import quote, urlencode

import pytest

from benchmarks.console import synthetic
from benchmarks.console.hostile import TEXTS as HOSTILE
from benchmarks.console.synthetic import SyntheticCluster
from console.pages import stream
from gpu_operator import errors
from support.rigs.console_rig import Answer, Console, open_console

T = TypeVar("T")


def run(cluster: SyntheticCluster, use: Callable[[Console], Awaitable[T]], space: str = "") -> T:
    async def body() -> T:
        async with open_console(cluster, space) as console:
            return await use(console)

    return asyncio.run(body())


def fetch(cluster: SyntheticCluster, path: str, query: str = "", **request: object) -> Answer:
    return run(cluster, lambda console: console.request(path, query=query, **request))  # type: ignore[arg-type]


def post(cluster: SyntheticCluster, manifest: str) -> Answer:
    body = urlencode({"manifest": manifest}).encode()
    return fetch(cluster, "/layout", method="POST", body=body)


@pytest.fixture
def fleet() -> SyntheticCluster:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 30)
    return cluster


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices, six of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    choose = random.Random(1)
    synthetic.add_node(cluster, "n1", "h100-80gb", choose, alike=True, gpus=2)
    return cluster


class Elements(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_fleet_shows_every_node_as_a_map(fleet: SyntheticCluster) -> None:
    answer = fetch(fleet, "/")
    assert answer.status == 200
    shown = set(re.findall(r'id="node-(gpu-\d+)"', answer.text))
    assert shown == set(fleet.objects["Node"])
    assert answer.text.count('class="map"') == 30


def test_a_small_fleet_shows_each_slice_with_a_link(node: SyntheticCluster) -> None:
    text = fetch(node, "/").text
    assert "<b>12</b> held" in text
    assert "<b>2</b> free" in text
    for index in range(2):
        for number in range(7):
            assert f'href="/slices/MIG-n1-{index}-{number}"' in text


def test_boxes_have_the_positions_of_the_placements(node: SyntheticCluster) -> None:
    tags = Elements(fetch(node, "/gpus/n1-gpu-0").text).tags
    rects = [a for tag, a in tags if tag == "rect" and (a.get("class") or "").startswith("s ")]
    memory = [a for a in rects if a["y"] == "0" or a["y"] == "0.0"]
    assert [float(str(a["x"])) for a in memory] == [42.0 * start for start in range(7)]
    compute = [a for a in rects if a["y"] == "37" and float(str(a["x"])) >= 0]
    assert [float(str(a["x"])) for a in compute] == [48.0 * start for start in range(7)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("pool=a30", "a30"), ("board=rtx-pro-6000", "rtx-pro-6000"), ("board=h100-80gb", "h100-80gb")],
)
def test_filters_select_pools_and_boards(
    fleet: SyntheticCluster, query: str, expected: str
) -> None:
    text = fetch(fleet, "/", query).text
    shown = set(re.findall(r'id="node-(gpu-\d+)"', text))
    gpus = fleet.objects["GPU"].values()
    of = {g["spec"]["nodeName"] for g in gpus if g["spec"]["board"] == expected}
    assert shown == of


def test_a_filter_by_namespace_shows_gpus_with_a_holder_of_it(node: SyntheticCluster) -> None:
    for gpu in node.objects["GPU"].values():
        for one in gpu["status"]["slices"]:
            one["holders"] = []
    (first, *_) = node.objects["GPU"].values()
    first["status"]["slices"][2]["holders"] = [{"namespace": "ml", "name": "job", "uid": "u"}]
    text = fetch(node, "/", "namespace=ml").text
    assert "/gpus/n1-gpu-0" in text
    assert "/gpus/n1-gpu-1" not in text
    assert 'id="node-n1"' not in fetch(node, "/", "namespace=other").text


def test_a_slice_and_a_pod_lead_to_each_other(node: SyntheticCluster) -> None:
    held = node.objects["GPU"]["n1-gpu-1"]["status"]["slices"][3]
    pod = held["holders"][0]
    where = f"/pods/{pod['namespace']}/{pod['name']}"
    text = fetch(node, f"/slices/{held['uuid']}").text
    assert where in text
    assert len(re.findall(r'<a href="([^"]+)">(?:(?!</a>).)*class="s \w+ marked"', text)) == 1
    assert f"/slices/{held['uuid']}" in fetch(node, where).text


def test_an_unhealthy_slice_is_marked(node: SyntheticCluster) -> None:
    gpu = node.objects["GPU"]["n1-gpu-0"]
    gpu["status"] |= {"health": "Unhealthy: Xid 79"}
    gpu["status"]["slices"][0]["health"] = "Unhealthy: Xid 79"
    text = fetch(node, "/").text
    assert "1 not healthy" in text
    assert 'class="s sick" fill="url(#p-sick)"' in text


@pytest.mark.parametrize("path", ["/fault", "/<script>x</script>", "/static/none.js"])
def test_a_path_without_a_page_has_the_menu(node: SyntheticCluster, path: str) -> None:
    answer = fetch(node, path)
    assert answer.status == 404
    assert "The console has no page" in answer.text
    assert 'href="/rdma"' in answer.text
    assert "<script>x" not in answer.text


def test_objects_that_do_not_exist_are_404(node: SyntheticCluster) -> None:
    for path in ("/nodes/x", "/gpus/x", "/slices/x", "/pods/a/b", "/why/a/b"):
        assert fetch(node, path).status == 404, path


def test_why_names_what_keeps_a_pod_off_each_node(node: SyntheticCluster) -> None:
    synthetic.add_node(node, "n2", "h100-80gb", random.Random(2), alike=True, gpus=1)
    node.objects["Node"]["n2"]["spec"]["taints"] = [{"key": "drained", "effect": "NoSchedule"}]
    synthetic.add_pending_pod(node, "ml", "big", {"gpu.tessera.dev/mig-3g.40gb": "1"})
    text = fetch(node, "/why/ml/big").text
    assert "Insufficient gpu.tessera.dev/mig-3g.40gb" in text
    assert "does not have this resource" in text
    assert "tainted: <bdi>drained:NoSchedule</bdi>" in text
    assert "The planner proposes" in text  # three or four pods have to end
    assert re.search(r"end \S+ on 1g\.10gb@", text)


def test_why_reports_a_full_node_and_room(node: SyntheticCluster) -> None:
    one = {"gpu.tessera.dev/mig-1g.10gb": "1"}
    synthetic.add_pending_pod(node, "ml", "small", one)
    assert "Room by this count" in fetch(node, "/why/ml/small").text
    for gpu in node.objects["GPU"].values():
        gpu["status"]["slices"][6]["holders"] = [{"namespace": "a", "name": "b", "uid": "c"}]
    text = fetch(node, "/why/ml/small").text
    assert re.search(r'>0 of 14</td>\n<td data-label="Obstacle">full: ', text)
    assert "Room by this count" not in text


def test_why_respects_tolerations_and_node_selectors(node: SyntheticCluster) -> None:
    node.objects["Node"]["n1"]["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    one = {"gpu.tessera.dev/mig-1g.10gb": "1"}
    tolerates = [{"key": "gpu", "operator": "Exists"}]
    synthetic.add_pending_pod(node, "ml", "free", one, tolerations=tolerates)
    synthetic.add_pending_pod(node, "ml", "kept-off", one)
    synthetic.add_pending_pod(
        node, "ml", "picky", one, tolerations=tolerates, nodeSelector={"zone": "a"}
    )
    assert "Room by this count" in fetch(node, "/why/ml/free").text
    assert "tainted" in fetch(node, "/why/ml/kept-off").text
    assert "label zone" in fetch(node, "/why/ml/picky").text


def test_why_shows_the_operators_verdict_about_a_claim(node: SyntheticCluster) -> None:
    for gpu in node.objects["GPU"].values():
        gpu["spec"]["allocation"] = "Both"
    device = {"name": "gpu", "exactly": {"deviceClassName": "mig"}}
    node.put(
        "ResourceClaim",
        {
            "metadata": {"name": "c", "namespace": "ml"},
            "spec": {"devices": {"requests": [device]}},
        },
    )
    driver = "device.driver == 'gpu.tessera.dev'"
    kind = "device.attributes['gpu.tessera.dev'].profile == '3g.40gb'"
    selectors = [{"cel": {"expression": f"{driver} && {kind}"}}]
    node.put("DeviceClass", {"metadata": {"name": "mig"}, "spec": {"selectors": selectors}})
    pod = synthetic.add_pending_pod(node, "ml", "waits", {})
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    text = fetch(node, "/why/ml/waits").text
    assert "ClaimNoRoom" in text
    assert "no 3g.40gb left: of 2 GPUs 2 hold layouts" in text


LAYOUT = """
apiVersion: gpu.tessera.dev/v1alpha1
kind: MIGLayout
metadata: {name: planned}
spec:
  selector: {pool: h100}
  rollout: {onInUse: %s}
  instances:
  - profile: 3g.40gb
  - {profile: 1g.10gb, count: 4}
"""


def test_a_layout_diff_counts_what_the_planner_changes(node: SyntheticCluster) -> None:
    text = post(node, LAYOUT % "Evict").text
    numbers = dict(re.findall(r"<dt>([^<]+)</dt><dd>(\d+)</dd>", text))
    assert numbers["GPUs selected"] == "2"
    # 3g.40gb takes four of the eight units: of seven 1g slices four stay where they are.
    assert numbers["slices created"] == "2"
    assert numbers["slices destroyed"] == "6"
    assert numbers["pods to evict"] == "4"
    assert "Nothing is applied" in text
    assert "pods to wait for" in post(node, LAYOUT % "Wait").text
    assert node.objects.get("MIGLayout") is None


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("", "one MIGLayout is expected"),
        ("a: [", "not YAML"),
        ("kind: Pod", "kind: a MIGLayout is expected"),
        ("[" * 5000, "nested more than 64 levels deep"),
        ("kind: MIGLayout\napiVersion: v1", "apiVersion"),
        ("kind: MIGLayout\napiVersion: gpu.tessera.dev/v1alpha1", "metadata.name: missing"),
        (LAYOUT.replace("rollout", "rolout") % "Wait", "spec.rolout"),
        ("!!python/object/apply:os.system [x]", "not YAML"),
        ("x" * 70000, "more than 65536 characters"),
    ],
)
def test_an_invalid_manifest_is_refused_by_name(
    node: SyntheticCluster, manifest: str, problem: str
) -> None:
    answer = post(node, manifest)
    assert answer.status == 422
    assert problem in answer.text


def test_a_form_that_is_too_long_is_refused(node: SyntheticCluster) -> None:
    answer = fetch(node, "/layout", method="POST", body=b"manifest=" + b"%20" * 200_000)
    assert answer.status == 422


def test_slices_that_a_board_cannot_hold_are_explained(node: SyntheticCluster) -> None:
    text = post(node, LAYOUT.replace("count: 4", "count: 6") % "Wait").text
    assert "not applied:" in text


def test_the_matrix_equals_the_explanations(fleet: SyntheticCluster) -> None:
    tags = Elements(fetch(fleet, "/rdma").text).tags
    cells = [a for tag, a in tags if tag == "a" and (a.get("class") or "").startswith("cell")]
    assert len(cells) == 14 * 14
    kinds = {str(a["class"]) for a in cells}
    assert kinds == {"cell all", "cell some", "cell none"}
    for cell in cells[::13]:
        path, _, query = str(cell["href"]).partition("?")
        text = fetch(fleet, path, query).text
        allowed = len(re.findall(r'class="verb all"', text))
        kind = {0: "cell none", 9: "cell all"}.get(allowed, "cell some")
        assert cell["class"] == kind, cell["href"]


def test_an_explanation_names_policy_and_rule(fleet: SyntheticCluster) -> None:
    text = fetch(fleet, "/rdma/explain", "from=training/worker-4&to=training/worker-0").text
    assert "allowed by training/read-only-weights ingress[0]" in text
    missing = fetch(fleet, "/rdma/explain", "from=a/b&to=c/d").text
    assert "pod a/b holds no HCA: it requests none, has ended, or does not exist" in missing


def test_events_and_faults_are_on_one_line(fleet: SyntheticCluster) -> None:
    text = fetch(fleet, "/events").text
    assert text.count('class="mark ') == 2 * 41  # for wide and for narrow windows
    assert "xid-48-drill" in text
    only = fetch(fleet, "/events", "lane=fault").text
    assert only.count('class="mark ') == 2
    assert fetch(fleet, "/events", "text=no-such-thing").text.count('class="mark ') == 0


def test_every_page_is_well_formed_and_has_no_inline_code(fleet: SyntheticCluster) -> None:
    for path in (
        "/",
        "/nodes/gpu-0001",
        "/gpus/gpu-0001-gpu-0",
        "/why",
        "/layout",
        "/rdma",
        "/events",
    ):
        for tag, attributes in Elements(fetch(fleet, path).text).tags:
            assert "style" not in attributes, (path, tag)
            assert not [name for name in attributes if name.startswith("on")], (path, tag)
            if tag == "script":
                assert attributes["src"] == "/static/console.js"
            for name in ("href", "src", "action"):
                value = attributes.get(name) or "/"
                assert value.startswith(("/", "#")), (path, tag, value)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped_on_every_page(name: str) -> None:
    cluster = SyntheticCluster()
    choose = random.Random(1)
    cluster.put(
        "GPUPool",
        {"metadata": {"name": name}, "spec": {"nodeSelector": {"a": name}, "board": "h100-80gb"}},
    )
    synthetic.add_node(cluster, "n1", "h100-80gb", choose, alike=True, gpus=1)
    node = cluster.objects["Node"]["n1"]
    node["metadata"]["labels"] = {"a": name, name: name}
    node["spec"]["taints"] = [{"key": name, "effect": "NoSchedule"}]
    node["status"]["conditions"][1] |= {"status": "False", "reason": name, "message": name}
    node["status"]["allocatable"]["gpu.tessera.dev/" + name] = name
    gpu = cluster.objects["GPU"]["n1-gpu-0"]
    gpu["spec"] |= {"pool": name, "layout": name}
    gpu["status"] |= {"product": name, "health": name}
    gpu["status"]["conditions"][0] |= {"reason": name, "message": name}
    gpu["status"]["slices"][0] |= {"health": name, "resource": name, "uuid": name}
    cluster.put(
        "MIGLayout", {"metadata": {"name": name}, "spec": {"instances": [{"profile": name[:63]}]}}
    )
    pod = synthetic.add_pending_pod(cluster, name, name, {f"gpu.tessera.dev/{name}": "1"})
    pod["spec"] |= {"nodeSelector": {name: name}, "schedulingGates": [{"name": name}]}
    event = synthetic.add_event(cluster, 1)
    event |= {"reason": name, "message": name}
    event["involvedObject"]["name"] = name
    fault = cluster.put("GPUFault", {"metadata": {"name": name}, "spec": {"xid": 48}})
    fault["status"] = {"phase": name, "gpu": name, "fault": name}
    part = quote(name, safe="")
    paths = [
        "/",
        "/nodes/n1",
        "/gpus/n1-gpu-0",
        "/why",
        "/rdma",
        "/events",
        "/layout",
        "/rollout",
        "/metrics",
        f"/nodes/{part}",
    ]

    async def use(console: Console) -> list[tuple[str, Answer]]:
        answers = [(path, await console.request(path)) for path in paths]
        answers.append(("why", await console.request(f"/why/{name}/{name}")))
        answers.append(("slice", await console.request(f"/slices/{name}")))
        answers.append(("fault", await console.request(f"/faults/{name}")))
        for page, keys in (("/", ("pool", "node", "namespace")), ("/events", ("text",))):
            query = urlencode(dict.fromkeys(keys, name))
            answers.append(("query", await console.request(page, query=query)))
        for wrong in ({"lane": name}, {name: "x"}):
            answer = await console.request("/events", query=urlencode(wrong))
            assert answer.status == 400, wrong
            answer.status = 422
            answers.append(("bad query", answer))
        body = urlencode({"manifest": name}).encode()
        answers.append(("form", await console.request("/layout", method="POST", body=body)))
        return answers

    for path, answer in run(cluster, use):
        if answer.text == "Not Found":  # no route has a slash within a name
            assert "/" in name
            continue
        assert answer.status in (200, 404, 422), (path, answer.status, answer.text[:300])
        parsed = Elements(answer.text)
        scripts = [a for tag, a in parsed.tags if tag == "script"]
        assert scripts == [{"src": "/static/console.js", "defer": None}], path
        assert not [tag for tag, _ in parsed.tags if tag == "img"], path
        for _, attributes in parsed.tags:
            assert not [key for key in attributes if key.startswith("on")], path
        assert "alert(1)" not in re.sub(r'"[^"]*"|>[^<]*<', "", answer.text), path


def test_a_change_reaches_every_viewer_of_one_watch(node: SyntheticCluster) -> None:
    async def use(console: Console) -> list[dict[str, object]]:
        version = console.model.version
        followers = [stream.follow(console.model, version) for _ in range(50)]
        for one in followers:
            await anext(one)
        waiting = [asyncio.ensure_future(anext(one)) for one in followers]
        await asyncio.sleep(0)
        gpu = console.cluster.objects["GPU"]["n1-gpu-1"]
        changed = json.loads(json.dumps(gpu))
        changed["status"]["slices"][0]["holders"] = []
        console.cluster.put("GPU", changed)
        events = await asyncio.wait_for(asyncio.gather(*waiting), 5)
        for one in followers:
            await one.aclose()
        assert console.cluster.watches["GPU"] == 1
        assert console.cluster.lists["GPU"] == 1
        return [json.loads(event.partition("data: ")[2]) for event in events]

    found = run(node, use)
    assert len(found) == 50
    assert all(one["nodes"] == ["n1"] and one["kinds"] == ["GPU"] for one in found)


def test_a_changed_node_is_served_as_one_card(fleet: SyntheticCluster) -> None:
    async def use(console: Console) -> tuple[str, str]:
        before = (await console.request("/parts/nodes", query="name=gpu-0001")).text
        gpu = json.loads(json.dumps(console.cluster.objects["GPU"]["gpu-0001-gpu-0"]))
        for one in gpu["status"]["slices"]:
            one["state"] = "Withdrawing"
        console.cluster.put("GPU", gpu)
        await console.settle()
        return before, (await console.request("/parts/nodes", query="name=gpu-0001")).text

    before, after = run(fleet, use)
    assert before != after
    assert after.count('id="node-gpu-0001"') == 1
    assert after.count("<li") == 1


def test_a_part_has_no_frame(node: SyntheticCluster) -> None:
    text = fetch(node, "/", x_part="main").text
    assert "<html" not in text
    assert 'id="main"' in text


def test_a_kind_that_may_not_be_read_is_named_and_the_rest_is_shown(node: SyntheticCluster) -> None:
    node.refused["Pod"] = errors.Refused("list Pod: pods is forbidden for <b>you</b>")
    text = fetch(node, "/").text
    assert "pods is forbidden for &lt;b&gt;you&lt;/b&gt;" in text
    assert "<b>12</b> held" in text


def test_a_namespace_restricts_what_is_read(node: SyntheticCluster) -> None:
    one = {"gpu.tessera.dev/mig-1g.10gb": "1"}
    synthetic.add_pending_pod(node, "ml", "mine", one)
    synthetic.add_pending_pod(node, "other", "theirs", one)
    text = run(node, lambda console: console.request("/why"), space="ml").text
    assert "mine" in text
    assert "theirs" not in text


def test_a_stream_reports_that_details_of_old_and_foreign_versions_are_unknown() -> None:
    async def use(console: Console) -> bool:
        for _ in range(5000):
            console.model.note("GPU", "n1")
        found = [console.model.changes_since(version).complete for version in (1, 10**9)]
        return any(found) or not console.model.changes_since(4000).complete

    assert run(SyntheticCluster(), use) is False
