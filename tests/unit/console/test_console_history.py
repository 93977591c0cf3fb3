"""The last minutes of GPUs, slices and pods, and the busiest pods."""

import asyncio
import datetime
import html
import random
import re
from array import array
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.model import history
from console.model.exporters import Exporters
from console.model.history import DeviceHistory, Figure, Key, read_values
from drawing.sparkline import draw_sparkline
from support.rigs.console_rig import Answer, Console, open_console
from support.rigs.fake_exporters import FakeProxy, exporter_of

GPU = Key(Figure.GPU_BUSY, "0")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices each."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return cluster


def answer_of(busy: float, active: float, used_mib: float) -> bytes:
    """Return an exporter's answer about GPU 0 and about its slice 1g.10gb@0 (instance 7)."""
    mig = 'gpu="0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
    lines = [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} {busy}',
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{mig}}} {active}",
        f"DCGM_FI_DEV_FB_USED{{{mig}}} {used_mib}",
        'DCGM_FI_DEV_FB_USED{gpu="0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8"} 24',
    ]
    return "\n".join(lines).encode()


def run(
    cluster: SyntheticCluster,
    proxy: FakeProxy | None,
    use: Callable[[Console, Clock], Awaitable[Answer]],
) -> Answer:
    async def whole() -> Answer:
        async with open_console(cluster) as console:
            clock = Clock()
            console.pages._live.exporters = Exporters(proxy, clock)
            console.pages._tables._exporters = console.pages._live.exporters
            return await use(console, clock)

    return asyncio.run(whole())


def read_twice(cluster: SyntheticCluster, path: str) -> Answer:
    """Return a page after the exporter was read twice, ten seconds apart, by different pages."""
    proxy = FakeProxy(answer_of(10, 0.2, 1000), [exporter_of("n1")])

    async def use(console: Console, clock: Clock) -> Answer:
        await console.request("/metrics/n1")
        clock.now += 10
        proxy.body = answer_of(90, 0.7, 3000)
        return await console.request(path)

    return run(cluster, proxy, use)


def rows(text: str) -> dict[str, list[str]]:
    """Return the texts of the cells of each figure of the first device."""
    table = text.partition('<table class="figures history">')[2].partition("</table>")[0]
    found = {}
    for row in re.findall(r"<tr><td>(.*?)</tr>", table, re.DOTALL):
        cells = re.sub(r"<svg.*?</svg>", "", row, flags=re.DOTALL)
        texts = [" ".join(re.sub(r"<[^>]+>", "", one).split()) for one in cells.split("<td")]
        texts = [one.rpartition(">")[2] for one in texts]
        found[texts[0]] = [one for one in texts[1:] if one]
    return found


def test_a_gpu_has_the_extremes_of_what_any_page_has_read(node: SyntheticCluster) -> None:
    text = read_twice(node, "/history/gpus/n1-gpu-0").text
    assert rows(text) == {
        "Utilisation": ["10 %", "90 %", "90 %", "2 readings since 10 s ago"],
        "Memory in use": ["1.0 GiB", "3.0 GiB", "3.0 GiB", "2 readings since 10 s ago"],
    }
    label = "Utilisation in the last 10 s: 10 % to 90 %, now 90 %"
    assert f'aria-label="{label}"' in text
    assert "1g.10gb@0 (instance 7) of GPU 0" in text


def test_a_slice_and_its_pod_have_the_figures_of_its_instance(node: SyntheticCluster) -> None:
    one = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]
    (pod,) = one["holders"]
    for path in (f"slices/{one['uuid']}", f"pods/{pod['namespace']}/{pod['name']}"):
        assert rows(read_twice(node, f"/history/{path}").text) == {
            "Engine activity": ["20 %", "70 %", "70 %", "2 readings since 10 s ago"],
            "Memory in use": ["1000 MiB", "2.9 GiB", "2.9 GiB", "2 readings since 10 s ago"],
        }


@pytest.mark.parametrize(
    ("created_s", "accepted_s", "readings"),
    [(60, 60, 2), (60, 5, 1), (5, 5, 1), (60, None, 2), (5, None, 1)],
)
def test_a_pod_has_no_readings_from_before_it_was_on_its_node(
    node: SyntheticCluster, created_s: int, accepted_s: int | None, readings: int
) -> None:
    one = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]
    (holder,) = one["holders"]
    limits = {"gpu.tessera.dev/mig-1g.10gb": "1"}
    pod = synthetic.add_pending_pod(node, holder["namespace"], holder["name"], limits)
    pod["spec"]["nodeName"] = "n1"
    pod["metadata"]["creationTimestamp"] = _ago(created_s)
    pod["status"] = {"phase": "Running"}
    if accepted_s is not None:
        pod["status"]["startTime"] = _ago(accepted_s)
    path = f"pods/{holder['namespace']}/{holder['name']}"
    found = rows(read_twice(node, f"/history/{path}").text)["Engine activity"]
    assert found[-1].startswith(f"{readings} reading")
    assert found[0] == ("20 %" if readings == 2 else "70 %")
    of_slice = rows(read_twice(node, f"/history/slices/{one['uuid']}").text)["Engine activity"]
    assert of_slice[-1].startswith("2 readings")


def _ago(seconds: float) -> str:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_pages_lead_to_the_last_minutes_and_load_them(node: SyntheticCluster) -> None:
    one = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][0]
    (pod,) = one["holders"]
    of_pod = f"pods/{pod['namespace']}/{pod['name']}"
    for path in ("gpus/n1-gpu-0", f"slices/{one['uuid']}", of_pod):

        async def use(console: Console, clock: Clock, path: str = path) -> Answer:
            del clock
            return await console.request(f"/{path}")

        text = run(node, None, use).text
        assert f'data-load="/history/{path}" data-part="history"' in text
        assert f'href="/history/{path}"' in text


def test_what_no_exporter_has_stated_is_no_zero(node: SyntheticCluster) -> None:
    async def use(console: Console, clock: Clock) -> Answer:
        del clock
        return await console.request("/history/gpus/n1-gpu-0")

    text = run(node, None, use).text
    assert "No exporter answered" in text
    assert "no connection to an API server" in text
    assert "Nothing was measured in the last 15 minutes." in text
    other = run(node, FakeProxy(b"tessera_gpud_up 1", [exporter_of("n1")]), use).text
    assert "the exporter has answered without these figures" in other
    for one in (text, other):
        assert "0 %" not in one
        assert "0 MiB" not in one


def test_a_figure_that_is_old_is_not_that_of_now(node: SyntheticCluster) -> None:
    proxy = FakeProxy(answer_of(40, 0.4, 100), [exporter_of("n1")])

    async def use(console: Console, clock: Clock) -> Answer:
        await console.request("/history/gpus/n1-gpu-0")
        clock.now += 60
        proxy.pods = []
        return await console.request("/history/gpus/n1-gpu-0")

    text = run(node, proxy, use).text
    assert "No exporter answered" in text
    assert rows(text)["Utilisation"] == ["40 %", "40 %", "not known", "1 reading 1 min 0 s ago"]


@pytest.mark.parametrize("path", ["gpus/other", "slices/MIG-none", "pods/a/b"])
def test_a_device_that_does_not_exist_has_no_history(node: SyntheticCluster, path: str) -> None:
    async def use(console: Console, clock: Clock) -> Answer:
        del clock
        return await console.request(f"/history/{path}")

    assert run(node, None, use).status == 404


def test_a_lost_gpu_states_why_nothing_is_read(node: SyntheticCluster) -> None:
    node.objects["GPU"]["n1-gpu-0"]["status"]["lost"] = True
    text = read_twice(node, "/history/gpus/n1-gpu-0").text
    assert "the GPU is off the bus: nothing can be read from it" in text


def test_a_node_that_a_page_has_shown_is_read_again(
    node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.pages.history._EVERY_S", 0.001)
    proxy = FakeProxy(answer_of(40, 0.4, 100), [exporter_of("n1")])

    async def use(console: Console, clock: Clock) -> Answer:
        await console.request("/history/gpus/n1-gpu-0")
        async with asyncio.timeout(20):
            while len(proxy.reads) < 3:
                clock.now += 10
                await asyncio.sleep(0.002)
        clock.now += history.SPAN_S + 1  # no page has shown the node for so long
        task = console.pages._history._reading
        assert task is not None
        async with asyncio.timeout(20):
            await task
        return Answer()

    run(node, proxy, use)


@pytest.mark.parametrize(("most", "is_read"), [(1, True), (0, False)])
def test_the_history_of_few_nodes_begins_with_the_fleet(
    node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch, most: int, is_read: bool
) -> None:
    monkeypatch.setattr("console.pages.history._EVERY_S", 0.001)
    monkeypatch.setattr("console.pages.history.MOST_NODES", most)
    proxy = FakeProxy(answer_of(40, 0.4, 100), [exporter_of("n1")])

    async def use(console: Console, clock: Clock) -> Answer:
        await console.request("/")
        for _ in range(100):
            clock.now += 10
            await asyncio.sleep(0.002)
        return Answer()

    run(node, proxy, use)
    assert bool(proxy.reads) is is_read


def test_the_memory_of_the_readings_is_bounded() -> None:
    there = DeviceHistory()
    values = {Key(Figure.GPU_BUSY, str(number)): 1.0 for number in range(300)}
    for number in range(100):
        there.add(f"n{number}", 1.0, values)
    assert len(there._nodes) == history.MOST_NODES
    kept = DeviceHistory()
    for step in range(200):
        kept.add("n", 5.0 * step, values)
    (one,) = kept._nodes.values()
    assert len(one.series) == history.MOST_SERIES
    assert {len(samples) for samples in one.series.values()} == {history.MOST_READINGS}
    assert all(isinstance(samples, array) for samples in one.series.values())


def test_readings_older_than_the_span_and_series_without_one_are_dropped() -> None:
    there = DeviceHistory()
    there.add("n", 0.0, {GPU: 5.0})
    there.add("n", 100.0, {})
    there.add("n", 100.0, {GPU: 7.0})  # the same answer again
    assert there.track("n", GPU, 100.0).points == ((100.0, 5.0),)
    there.add("n", history.SPAN_S + 1, {Key(Figure.GPU_BUSY, "1"): 1.0})
    assert there.track("n", GPU, history.SPAN_S + 1).points == ()
    (one,) = there._nodes.values()
    assert GPU not in one.series


def test_figures_that_no_device_can_have_are_left_out() -> None:
    text = """DCGM_FI_DEV_GPU_UTIL{gpu="0"} 101
DCGM_FI_DEV_GPU_UTIL{gpu="1"} -1
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0"} 1.5
DCGM_FI_DEV_FB_USED{gpu="0"} 1e30
DCGM_FI_DEV_GPU_UTIL{gpu="2"} 100
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="%s"} 1
""" % ("9" * 100)
    assert read_values(text) == {Key(Figure.GPU_BUSY, "2"): 100.0}


def test_the_memory_of_a_gpu_is_that_of_its_instances() -> None:
    found = read_values(answer_of(1, 0.1, 100).decode())
    assert found[Key(Figure.GPU_MEMORY, "0")] == 124
    assert found[Key(Figure.SLICE_MEMORY, "0", "1g.10gb", "instance 8")] == 24


def test_a_line_has_gaps_and_ends_now() -> None:
    points = ((900.0, 0.0), (890.0, 100.0), (10.0, 50.0), (0.0, 50.0), (-1.0, 500.0))
    text = str(draw_sparkline(points[:4], 900.0, 100.0, 35.0, "<b>"))
    assert re.findall(r' d="([^"]+)"', text) == ["M0.0 34.0L2.7 2.0", "M237.3 18.0L240.0 18.0"]
    assert "&lt;b&gt;" in text
    assert 'cy="2"' in str(draw_sparkline(points[4:], 900.0, 100.0, 35.0, ""))  # clipped


def show_busiest(node: SyntheticCluster, query: str) -> list[str]:
    """Return the pods of the table in its order."""
    slices = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"]
    lines = []
    for number, active in ((0, 0.1), (1, 0.9), (2, 0.5)):
        (pod,) = slices[number]["holders"]
        slices[number]["memoryUsedBytes"] = (20 - number) << 30
        named = f'namespace="{pod["namespace"]}",pod="{pod["name"]}"'
        lines.append(f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",{named}}} {active}')
    proxy = FakeProxy("\n".join(lines).encode(), [exporter_of("n1")])

    async def use(console: Console, clock: Clock) -> Answer:
        del clock
        return await console.request("/metrics", query=query)

    text = html.unescape(run(node, proxy, use).text)
    table = text.partition('aria-label="Busiest pods"')[2].partition("</table>")[0]
    return re.findall(r'<td><a href="/pods/[^/]+/([^"]+)"', table)


def test_pods_are_sorted_by_memory_or_by_the_activity_of_their_engines(
    node: SyntheticCluster,
) -> None:
    slices = node.objects["GPU"]["n1-gpu-0"]["status"]["slices"]
    names = [one["holders"][0]["name"] for one in slices[:3]]
    assert show_busiest(node, "")[:3] == names
    found = show_busiest(node, "sort=activity")
    assert found[:3] == [names[1], names[2], names[0]]
    assert len(found) == 12  # those without a figure come last
