"""Inference pods: where their metrics are, what two readings say, and what the pages show."""

import asyncio
import contextlib
import json
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.kubectl import access, inference_text
from console.kubectl.access import Access
from console.model.cluster import ClusterModel
from console.model.exporters import Exporters, Proxy
from console.model.inference import MOST_BYTES, History, Inference, Target
from console.model.metrics_port import MetricsPort, read_metrics_port
from console.model.serving_metrics import Histogram, Totals, read_totals
from console.pages.inference import InferenceTables
from console.views import inference, metrics
from console.views.inference import Latency
from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document
from support.rigs.console_rig import Console, open_console

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
ENGINE = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",namespace="ml",pod="llm-0"} 0.42\n'


def vllm(requests: float, buckets: tuple[float, ...] = (0, 0, 0)) -> str:
    """Return the answer of a vLLM server; ``buckets`` are those to 0.1 s, 1 s and infinity."""
    labels = 'finished_reason="stop",model_name="<b>gpt"'
    lines = [f"vllm:request_success_total{{{labels}}} {requests}"]
    name = "vllm:e2e_request_latency_seconds"
    for bound, number in zip(("0.1", "1.0", "+Inf"), buckets, strict=True):
        lines.append(f'{name}_bucket{{le="{bound}",model_name="<b>gpt"}} {number}')
    lines.append(f'{name}_count{{model_name="<b>gpt"}} {buckets[-1]}')
    lines.append(f'{name}_sum{{model_name="<b>gpt"}} {buckets[-1] / 2}')
    return "\n".join([*lines, 'http_requests_total{handler="/metrics"} 77', ""])


def pod_document(annotations: dict[str, str] | None = None, **port: Any) -> Document:
    container: Document = {"name": "c", "resources": {"limits": {RESOURCE: "1"}}}
    if port:
        container["ports"] = [{"protocol": "TCP"} | port]
    metadata = {"name": "llm-0", "namespace": "ml", "annotations": annotations or {}}
    spec = {"containers": [container], "nodeName": "n1"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("annotations", "port", "found"),
    [
        ({}, {}, None),
        ({}, {"name": "http", "containerPort": 8000}, None),
        ({}, {"name": "metrics", "containerPort": 8002}, MetricsPort(8002)),
        ({}, {"name": "http-metrics", "containerPort": 8002}, MetricsPort(8002)),
        ({"scrape": "false"}, {"name": "metrics", "containerPort": 8002}, None),
        ({"scrape": "true", "port": "9"}, {}, MetricsPort(9)),
        ({"scrape": "true", "port": "web"}, {"name": "web", "containerPort": 7}, MetricsPort(7)),
        ({"scrape": "true"}, {"containerPort": 7}, MetricsPort(7)),
        ({"scrape": "true", "port": "9", "path": "a/b"}, {}, MetricsPort(9, "/a/b")),
    ],
)
def test_metrics_are_found_as_prometheus_finds_them(
    annotations: dict[str, str], port: dict[str, Any], found: MetricsPort | None
) -> None:
    given = {f"prometheus.io/{key}": value for key, value in annotations.items()}
    assert read_metrics_port(pod_document(given, **port)) == found


@pytest.mark.parametrize(
    "path",
    ["/../x", "/a/../../y", "/%2e%2e/x", "//host/x", "/a?b=c", "/a#b", "/a b", "/a\n", "\\x"],
)
def test_a_path_that_could_leave_the_pod_is_refused(path: str) -> None:
    given = {"prometheus.io/scrape": "true", "prometheus.io/port": "9", "prometheus.io/path": path}
    found = read_metrics_port(pod_document(given))
    assert found is not None
    assert "not a plain path" in found.problem


@pytest.mark.parametrize("port", ["0", "65536", "-1", "8o", "٣"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    given = {"prometheus.io/scrape": "true", "prometheus.io/port": port}
    found = read_metrics_port(pod_document(given))
    assert found is not None
    assert "no port of the pod" in found.problem


@pytest.mark.parametrize(
    ("text", "server", "requests"),
    [
        (vllm(5), "vLLM", 5),
        ('nv_inference_request_success{model="a",version="1"} 3\n', "Triton", 3),
        ('ts_inference_requests_total{model_name="a",} 4.0 1700000000\n', "TorchServe", 4),
        ("tgi_request_duration_count 6\ntgi_request_duration_sum 1\n", "TGI", 6),
        ('http_requests_total{handler="/a"} 2\nhttp_requests_total{path="/healthz"} 9', "HTTP", 2),
        ("http_request_duration_seconds_count 8", "HTTP", 8),
    ],
)
def test_the_names_of_servers_are_known(text: str, server: str, requests: float) -> None:
    found = read_totals(text)
    assert found is not None
    assert (found.server, found.requests) == (server, requests)


def test_triton_has_a_mean_and_the_percentiles_of_its_summary() -> None:
    text = (
        'nv_inference_request_success{model="a"} %d\nnv_inference_request_duration_us{model="a"} %d\n'
        'nv_inference_request_summary_us{model="a",quantile="0.5"} 2000\n'
        'nv_inference_request_summary_us{model="b",quantile="0.5"} 3000\n'
    )
    first, last = read_totals(text % (10, 10**6)), read_totals(text % (30, 2 * 10**6))
    assert first is not None
    assert last is not None
    found = inference.figures(History([(0.0, first), (10.0, last)]))
    assert found.rate == 2.0
    assert str(found.mean) == "50.0 ms"
    assert [str(one) for one in found.latencies] == ["3.00 ms", "None", "None"]
    assert found.models == ("a",)


def test_quantiles_equal_promqls() -> None:
    # histogram_quantile over buckets 0.1: 50, 1: 90, +Inf: 100
    found = Histogram(((0.1, 50.0), (1.0, 90.0), (math.inf, 100.0)), 100, 40)
    assert inference.quantile(found, 0.5) == Latency(0.1)
    assert inference.quantile(found, 0.7) == Latency(pytest.approx(0.55))
    assert inference.quantile(found, 0.95) == Latency(1.0, is_above=True)
    assert inference.quantile(Histogram(((math.inf, 0.0),), 0, 0), 0.5) is None


def test_percentiles_are_those_between_the_readings() -> None:
    first, last = read_totals(vllm(100, (100, 100, 100))), read_totals(vllm(110, (100, 110, 110)))
    assert first is not None
    assert last is not None
    found = inference.figures(History([(0.0, first), (5.0, last)]))
    assert found.rate == 2.0
    assert found.latencies[0] == Latency(pytest.approx(0.55))  # not the 0.05 of the server's life
    only = inference.figures(History([(0.0, first)]))
    assert only.rate is None
    assert only.window_s is None
    assert only.latencies[0] == Latency(pytest.approx(0.05))


def test_a_server_that_starts_again_begins_a_new_rate() -> None:
    history = History()
    for at, requests in ((0, 100), (5, 200), (10, 3)):
        history.add(at, Totals("vLLM", requests))
    assert inference.figures(history).rate is None
    history.add(15, Totals("vLLM", 13))
    assert inference.figures(history).rate == 2.0


def test_a_start_is_noticed_by_the_sum_of_latencies() -> None:
    history = History()
    for at, requests, total in ((0, 100, 50.0), (5, 140, 20.0)):
        latency = Histogram(((1.0, requests), (math.inf, requests)), requests, total)
        history.add(at, Totals("vLLM", requests, latency=latency))
    assert len(history.readings) == 1


def test_the_last_bound_is_infinite() -> None:
    lines = [f'http_request_duration_seconds_bucket{{le="{one}"}} 1' for one in range(1, 400)]
    count = ["http_request_duration_seconds_count 2", "http_request_duration_seconds_sum 9"]
    without = read_totals("\n".join((*lines, *count)))
    assert without is not None
    assert without.latency is None
    infinite = 'http_request_duration_seconds_bucket{le="+Inf"} 2'
    found = read_totals("\n".join((*lines, infinite, *count)))
    assert found is not None
    assert found.latency is not None
    assert found.latency.buckets[-1] == (math.inf, 2.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9999, "1.00 s"),
        (0.09997, "100 ms"),
        (0.0042, "4.20 ms"),
        (2e-9, "0.002 µs"),
        (0, "0.00 µs"),
    ],
)
def test_latencies_have_three_digits(seconds: float, text: str) -> None:
    assert inference.format_latency(seconds) == text
    assert inference.format_rate(0.004) == "0.004"


def test_a_rate_is_of_the_last_minute() -> None:
    history = History()
    for at in range(0, 300, 5):
        history.add(at, Totals("vLLM", 0.0 if at < 200 else (at - 200) * 3.0))
    assert inference.figures(history).rate == 3.0
    assert history.readings[-1][0] - history.readings[0][0] <= 65
    history.add(5000, Totals("vLLM", 9000.0))
    assert inference.figures(history).rate is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" * 10**6,
        "\x00\xff" * 1000,
        'http_requests_total NaN\nhttp_request_duration_seconds_bucket{le="x"} 1',
        "http_requests_total -5\nhttp_request_duration_seconds_count +Inf",
        "http_requests_total 1e300\nhttp_request_duration_seconds_count 1e300\n" * 100,
        'http_requests_total 9\nhttp_request_duration_seconds_bucket{le="-1"} 5\n'
        'http_request_duration_seconds_bucket{le="NaN"} 5\nhttp_request_duration_seconds_count 0',
        "".join(
            f'http_request_duration_seconds_bucket{{le="{n}"}} {9 - n}\n' for n in range(1, 999)
        )
        + "http_request_duration_seconds_count 3",
    ],
)
def test_hostile_answers_give_no_figure_or_a_finite_one(text: str) -> None:
    totals = read_totals(text)
    if totals is None:
        return
    wild = totals.latency and Histogram(
        tuple((bound, 7.0 * (n % 3)) for n, (bound, _) in enumerate(totals.latency.buckets)), 9, 1
    )
    later = Totals(totals.server, totals.requests + 1, latency=wild)
    for history in (History([(0.0, totals)]), History([(0.0, totals), (5.0, later)])):
        found = inference.figures(history)
        latencies = [one.seconds for one in (*found.latencies, found.mean) if one is not None]
        assert all(math.isfinite(one) and one >= 0 for one in (*latencies, found.rate or 0.0))


class FakeProxy:
    """Answers for pods and exporters with texts, errors or nothing; records what is read."""

    def __init__(self, *answers: str | errors.KubeError | None) -> None:
        self.answers = list(answers)
        self.reads: list[tuple[str, str, int, str, int]] = []

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        del kind, chosen, token
        labels = {"app.kubernetes.io/component": "exporter"}
        metadata = {"name": "exporter", "namespace": "tessera-system", "labels": labels}
        return {"items": [{"metadata": metadata, "spec": {"nodeName": "n1"}}]}

    async def read_port(
        self, namespace: str, pod: str, port: int, path: str, most_bytes: int
    ) -> bytes:
        if pod == "exporter":
            return ENGINE.encode()
        self.reads.append((namespace, pod, port, path, most_bytes))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.sleep(3600)
        if isinstance(answer, errors.KubeError):
            raise answer
        return str(answer).encode()


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with an inference pod ``ml/llm-0`` that holds one slice of ``n1``."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=1)
    slices = cluster.objects["GPU"]["n1-gpu-0"]["status"]["slices"]
    slices[2]["holders"] = [{"namespace": "ml", "name": "llm-0", "uid": "u"}]
    note = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
    cluster.put("Pod", pod_document(note))
    return cluster


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def use(
    cluster: SyntheticCluster,
    proxy: Proxy | None,
    request: Callable[[Console, Clock], Awaitable[str]],
) -> str:
    async def whole() -> str:
        async with open_console(cluster) as console:
            clock = Clock()
            tables = InferenceTables(console.pages._frame, Exporters(proxy, clock))
            tables._inference = Inference(proxy, clock)
            console.pages._tables = console.pages._devices._tables = tables
            return await request(console, clock)

    return asyncio.run(whole())


def show(cluster: SyntheticCluster, proxy: Proxy | None, *paths: str, pause_s: float = 6) -> str:
    async def request(console: Console, clock: Clock) -> str:
        text = ""
        for path in paths:
            place, _, query = path.partition("?")
            text = (await console.request(place, query=query)).text
            clock.now += pause_s
        return text

    return use(cluster, proxy, request)


@pytest.mark.parametrize("path", ["/metrics", "/pods/ml/llm-0", "/metrics?namespace=ml&node=n1"])
def test_a_pod_is_shown_with_its_rate_and_its_slice(node: SyntheticCluster, path: str) -> None:
    proxy = FakeProxy(vllm(10, (10, 10, 10)), vllm(22, (10, 22, 22)))
    text = show(node, proxy, path, path)
    assert proxy.reads == [("ml", "llm-0", 8000, "/metrics", MOST_BYTES)] * 2
    for part in ("<b>2.00</b>", "550 ms", "6 s", "&lt;b&gt;gpt", "1g.10gb@2", "42 %"):
        assert part in text
    assert "<b>gpt" not in text
    assert 'data-again="5"' in text


def test_without_a_second_reading_the_page_says_so(node: SyntheticCluster) -> None:
    proxy = FakeProxy(vllm(10, (10, 10, 10)))
    text = show(node, proxy, "/metrics", "/metrics", pause_s=2)
    assert len(proxy.reads) == 1  # at most every five seconds
    assert "needs a second reading" in text
    assert "the server's life" in text


def test_a_pod_of_another_namespace_is_neither_read_nor_shown(node: SyntheticCluster) -> None:
    proxy = FakeProxy(vllm(10))
    assert "llm-0</bdi></a>" not in show(node, proxy, "/metrics?namespace=other")
    assert proxy.reads == []


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (errors.Refused("pods/proxy is forbidden <b>"), "pods/proxy is forbidden &lt;b&gt;"),
        (errors.Unreachable("no route"), "no route"),
        ("up 1\n", "exposes none of vllm:request_success_total"),
    ],
)
def test_without_figures_the_row_names_the_reason(
    node: SyntheticCluster, answer: str | errors.KubeError, what: str
) -> None:
    proxy = FakeProxy(answer)
    assert what in show(node, proxy, "/metrics", "/metrics")
    assert len(proxy.reads) == (1 if isinstance(answer, errors.Refused) else 2)


def test_a_console_without_a_connection_says_so(node: SyntheticCluster) -> None:
    assert "no connection to an API server" in show(node, None, "/metrics")


def test_a_pod_that_does_not_answer_delays_no_page(
    node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference.refresh, "__defaults__", (0.05,))
    assert "has not answered yet" in show(node, FakeProxy(None), "/metrics", "/metrics")


def test_pods_without_slices_or_metrics_are_not_shown(node: SyntheticCluster) -> None:
    node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][2]["holders"] = []
    assert "No pod that holds a slice exposes metrics" in show(node, FakeProxy(""), "/metrics")
    node.put("Pod", pod_document())
    assert "No pod that holds a slice exposes metrics" in show(node, FakeProxy(""), "/metrics")


def test_readings_are_bounded() -> None:
    async def whole() -> None:
        reader = Inference(FakeProxy(None))
        for number in range(600):
            await reader.refresh([Target("ml", f"p{number}", "u", MetricsPort(problem="no"))])
        assert len(reader._kept) == 512
        many = [Target("ml", f"q{number}", "u", MetricsPort(1)) for number in range(600)]
        await reader.refresh(many, within_s=0.01)
        assert len(reader._running) == 128

    asyncio.run(whole())


def test_the_activity_of_engines_is_joined_by_pod() -> None:
    assert metrics.utilisation(ENGINE + ENGINE.replace("0.42", "NaN")) == {"ml/llm-0": [0.42]}


def test_the_plugin_prints_the_same(
    node: SyntheticCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = FakeProxy(vllm(10, (10, 10, 10)), vllm(22, (10, 22, 22)))

    @contextlib.asynccontextmanager
    async def connect(_: Access) -> AsyncIterator[FakeProxy]:
        yield proxy

    async def model() -> ClusterModel:
        async with open_console(node) as console:
            return console.model

    monkeypatch.setattr(access, "connect", connect)
    found = asyncio.run(model())
    assert inference_text.read_rows(Access(), found, ["n2"], 0.1) == []
    rows = inference_text.read_rows(Access(), found, [], 0.1)
    capsys.readouterr()
    inference_text.write_rows(rows, "")
    cells = capsys.readouterr().out.splitlines()[1].split()
    assert cells[:3] == ["ml", "llm-0", "vLLM"]
    assert float(cells[3]) > 1
    assert "550 ms" in " ".join(cells)
    assert cells[-2:] == ["n1-gpu-0/1g.10gb@2", "-"]
    inference_text.write_rows(rows, "json")
    (one,) = json.loads(capsys.readouterr().out)["pods"]
    assert one["latencySeconds"]["p50"] == {"value": pytest.approx(0.55), "isLowerBound": False}
