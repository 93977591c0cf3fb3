"""Live traffic and denials: rates from counters, the pages that show them, and hostile exporters."""

import asyncio
import random
import re
from urllib.parse import quote

import pytest

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.model import readings as of
from console.model.exporters import Exporters, Scrape
from console.model.readings import MOST_KEPT, MOST_SAMPLES, WINDOW_S, History, NodeReadings
from console.views import traffic
from gpu_operator import errors
from support.rigs.console_rig import Console, open_console
from support.rigs.fake_exporters import FakeProxy, exporter_of
from support.worlds.scraped_fabric import scrape_rdma
from support.worlds.scraped_node import scrape

A_TO_B = (
    'source_namespace="ml",source_pod="a",destination_namespace="db",destination_pod="b",'
    'verb="Write"'
)
PORT = '{device="HCA-1",port="1",hca="1",namespace="ml",pod="a"}'
DENIED = f'tessera_rdma_denials_total{{{A_TO_B},policy="db/closed, db/two",action="denied"}}'


def answer(sent: float, denied: float, *more: str) -> str:
    return "\n".join(
        (
            "tessera_hcad_up 1",
            f"node_infiniband_port_data_received_bytes_total{PORT} {2 * sent}",
            f"node_infiniband_port_data_transmitted_bytes_total{PORT} {sent}",
            f"tessera_rdma_local_received_bytes_total{PORT} 0",
            f"tessera_rdma_local_transmitted_bytes_total{PORT} {sent / 2}",
            f"tessera_rdma_requests_total{{{A_TO_B}}} {sent / 100}",
            f"tessera_rdma_request_bytes_total{{{A_TO_B}}} {sent}",
            f"{DENIED} {denied}",
            'DCGM_FI_PROF_PCIE_RX_BYTES{gpu="0"} 2.5e9',
            'DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0"} 1000',
            *more,
        )
    )


def read(*answers: str, node: str = "n1", every_s: float = 10.0) -> NodeReadings:
    history = History()
    for place, text in enumerate(answers):
        found = history.add(node, Scrape(text, at=100 + every_s * place))
    return found


def test_the_series_are_those_of_the_exporter() -> None:
    found = read(scrape() + scrape_rdma())
    assert found.readings[-1].series.keys() >= of.WANTED


def test_rates_are_the_increase_of_counters_between_two_readings() -> None:
    found = traffic.view([read(answer(1000, 3), answer(6000, 5))], "")
    (port,) = found.ports
    assert (port.node, port.hca, port.pod) == ("n1", "1", "ml/a")
    assert (port.received, port.sent) == (1000, 500)
    assert (port.local_received, port.local_sent) == (0, 250)
    (pair,) = found.pairs
    assert (pair.source, pair.destination, pair.verb) == ("ml/a", "db/b", "Write")
    assert (pair.requests, pair.bytes) == (5, 500)
    (denial,) = found.denials
    assert denial.policies == ("db/closed", "db/two")
    assert (denial.recent, denial.total, denial.is_audited) == (2, 5, False)
    assert found.window_s == 10
    assert found.shorter == {}
    assert found.waiting == ()


def test_one_reading_has_totals_and_no_rates() -> None:
    found = traffic.view([read(answer(1000, 3))], "")
    assert (found.ports, found.pairs) == ((), ())
    assert found.waiting == ("n1",)
    assert [(one.recent, one.total) for one in found.denials] == [(None, 3)]


def test_a_counter_that_began_again_counts_from_zero() -> None:
    found = read(answer(1000, 30), answer(200, 4))
    assert list(found.rates(of.PORT_SENT).values()) == [20]
    assert list(found.increases(of.DENIALS).values()) == [4]


def test_what_happened_while_hcad_was_away_is_not_recent() -> None:
    found = read("tessera_hcad_up 0", answer(1000, 30), answer(1000, 31))
    assert list(found.increases(of.DENIALS).values()) == [1]


def test_rates_and_denials_have_the_same_window() -> None:
    idle = read(answer(1000, 3), answer(6000, 5), answer(6000, 5))
    later = read(answer(0, 0), answer(0, 0), node="n2", every_s=5.0)
    found = traffic.view([idle, later], "")
    assert found.window_s == 20
    assert found.shorter == {"n2": 5}
    assert found.ports[0].sent == 250  # 5000 bytes in the 20 s in which two denials are recent
    assert found.denials[0].recent == 2
    assert found.pairs[0].bytes == 250


def test_a_mean_rate_leaves_out_the_time_without_hcad() -> None:
    found = read(answer(0, 0), answer(1000, 0), "tessera_hcad_up 0", answer(5000, 0))
    assert list(found.mean_rates(of.PORT_SENT).values()) == [100]


def test_denials_are_recent_for_a_minute_in_few_readings() -> None:
    found = read(*(answer(0, place) for place in range(200)), every_s=5.0)
    assert WINDOW_S - 10 < found.window_s <= WINDOW_S
    assert list(found.increases(of.DENIALS).values()) == [found.window_s / 5]
    assert len(found.readings) <= 8
    assert found.seconds == 5


@pytest.mark.parametrize(
    ("text", "what"),
    [("tessera_hcad_up 0", "hcad does not answer"), ("other 1", "no figures of RDMA")],
)
def test_a_node_without_figures_is_named(text: str, what: str) -> None:
    found = traffic.view([read(text), NodeReadings("n2", problem="not permitted")], "")
    assert what in found.problems["n1"]
    assert found.problems["n2"] == "not permitted"


def test_only_pods_of_the_chosen_namespace_are_shown() -> None:
    nodes = [read(answer(0, 0), answer(100, 1))]
    for space, number in (("ml", 1), ("db", 0), ("other", 0)):
        assert len(traffic.view(nodes, space).ports) == number, space
    for space, number in (("ml", 1), ("db", 1), ("other", 0)):
        found = traffic.view(nodes, space)
        assert (len(found.pairs), len(found.denials)) == (number, number), space


def test_an_hca_sends_what_moves_down_its_link() -> None:
    links = traffic.links_of(read(answer(0, 0), answer(5000, 0)))
    assert links == {
        "GPU 0": traffic.LinkTraffic(2.5e9, 1000),
        "HCA 1": traffic.LinkTraffic(500, 1000),
    }


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0, "0 B/s"), (999, "999 B/s"), (999.6, "1 kB/s"), (1.234e6, "1.23 MB/s"), (4e10, "40 GB/s")],
)
def test_rates_have_a_unit(rate: float, text: str) -> None:
    assert traffic.format_rate(rate) == text


def test_a_hostile_answer_takes_bounded_memory() -> None:
    many = "\n".join(f'{of.DENIALS}{{verb="{i}"}} {i}' for i in range(3 * MOST_SAMPLES))
    found = read(f"{of.HCAD_UP} 1\n{many}\n{of.DENIALS} NaN\n{of.DENIALS}{{a=\n\x00")
    assert sum(map(len, found.readings[-1].series.values())) == MOST_SAMPLES
    shown = traffic.view([found], "")
    assert len(shown.denials) == traffic.MOST_ROWS
    assert shown.more == MOST_SAMPLES - 1 - traffic.MOST_ROWS
    history = History()
    for number in range(2 * MOST_KEPT):
        history.add(f"n{number}", Scrape("", at=1.0))
    assert len(history._nodes) == MOST_KEPT


def test_a_counter_without_a_number_is_left_out() -> None:
    lines = [f'{of.DENIALS}{{verb="{text}"}} {text}' for text in ("NaN", "Inf", "7")]
    found = traffic.view([read("\n".join((f"{of.HCAD_UP} 1", *lines)))], "")
    assert [one.verb for one in found.denials] == ["7"]


@pytest.fixture
def cluster() -> SyntheticCluster:
    made = SyntheticCluster()
    synthetic.fill(made, 3)
    return made


def show(cluster: SyntheticCluster, path: str, *answers: str, query: str = "") -> str:
    """Return a page after the exporter of every node has given these answers."""

    async def whole() -> str:
        now = [0.0]
        async with open_console(cluster) as console:
            await let_all_nodes_answer(console, now)
            for text in answers:
                proxy.body = text.encode()
                now[0] += 10
                page = await console.request(path, query=query)
                assert page.status == 200
            return page.text

    async def let_all_nodes_answer(console: Console, now: list[float]) -> None:
        fabric = {pod.node for pod in console.model.fabric.pods.values()}
        nodes = {*fabric, *console.model.world().gpus_by_node()}
        proxy.pods = [exporter_of(node) for node in sorted(nodes)]
        console.pages._live.exporters = Exporters(proxy, clock=lambda: now[0])

    proxy = FakeProxy(b"", [])
    return asyncio.run(whole())


def test_the_page_of_traffic_links_policies_to_their_explanation(cluster: SyntheticCluster) -> None:
    text = show(cluster, "/rdma/traffic", answer(0, 3), answer(5e7, 10))
    assert "5 MB/s" in text
    assert "10 MB/s" in text
    link = (
        f'<a href="/rdma/explain?from={quote("ml/a")}&amp;to={quote("db/b")}"><bdi>db/two</bdi></a>'
    )
    assert link in text
    assert (
        'data-label="Recent">7</td><td class="num" data-label="Since hcad\'s start">10</td>' in text
    )
    assert 'data-again="5"' in text
    assert text.count("means over the last <b>10 s</b>") == 1
    part = show(cluster, "/rdma", answer(0, 0), query="namespace=training")
    assert 'data-load="/rdma/traffic?namespace=training&amp;first=0"' in part


def test_denials_are_recent_only_after_a_second_reading(cluster: SyntheticCluster) -> None:
    pattern = r'"Recent">(?:<span class="quiet">)?([^<]*)(?:</span>)?</td><td class="num"[^>]*>3<'
    once = show(cluster, "/rdma/traffic", answer(0, 3))
    twice = show(cluster, "/rdma/traffic", answer(0, 3), answer(0, 3))
    away = show(cluster, "/rdma/traffic", "tessera_hcad_up 0", answer(0, 3))
    found = [set(re.findall(pattern, text)) for text in (once, twice, away)]
    assert found == [{"not known yet"}, {"0"}, {"not known yet"}]


def test_hostile_names_are_text(cluster: SyntheticCluster) -> None:
    evil = "<script>alert(1)</script>"
    ends = A_TO_B.replace('"a"', f'"{evil}"')
    lines = [
        f'tessera_rdma_denials_total{{{ends},policy="{evil}/{"x" * 300}",action="denied"}} 5',
        f'node_infiniband_port_data_received_bytes_total{{hca="{evil}",pod="\u202e{evil}"}} 5',
        f"tessera_rdma_requests_total{{{ends}}} 9",
    ]
    text = show(cluster, "/rdma/traffic", answer(0, 0), answer(1, 1, *lines))
    assert "&lt;script&gt;alert(1)" in text
    assert evil not in text


def test_an_exporter_that_may_not_be_read_is_named(cluster: SyntheticCluster) -> None:
    async def whole() -> str:
        async with open_console(cluster) as console:
            node = next(pod.node for pod in console.model.fabric.pods.values())
            proxy = FakeProxy(errors.Refused("pods/proxy is forbidden"), [exporter_of(node)])
            console.pages._live.exporters = Exporters(proxy)
            return (await console.request("/rdma/traffic")).text

    assert "not permitted: pods/proxy is forbidden" in asyncio.run(whole())


@pytest.fixture
def node() -> SyntheticCluster:
    made = SyntheticCluster()
    synthetic.pool_of(made, "h100-80gb")
    synthetic.add_node(made, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return made


def test_the_topology_has_the_traffic_of_measured_links(node: SyntheticCluster) -> None:
    text = show(node, "/topology/n1", answer(0, 0), answer(5e7, 0))
    for part in ("↓2.5 GB/s", "↑1 kB/s", "↓5 MB/s", "↑10 MB/s"):
        assert f">{part}</text>" in text
    assert text.count('class="wire load4"') == 1, "GPU 0"
    assert text.count('class="wire load2"') == 1, "HCA 1"
    assert "The links above the switches: not measured" in text
    assert "Traffic of NVLinks is not modelled" in text
    assert re.search("<title>GPU 0 [0-9a-f:.]+: 2.5 GB/s to it, 1 kB/s from it</title>", text)


@pytest.mark.parametrize(("topology", "wires"), [("flat", 1), ("custom", 0)])
def test_hcas_have_their_traffic_without_a_layout_of_the_board(
    node: SyntheticCluster, topology: str, wires: int
) -> None:
    if topology == "custom":  # no place for an HCA
        topology = "custom:numa=1;nvlinks=0;gpus=1b.0.0.0,43.0.0.1"
    for gpu in node.objects["GPU"].values():
        gpu["spec"]["topology"] = topology
    text = show(node, "/topology/n1", answer(0, 0), answer(5e7, 0))
    for part in ("↓5 MB/s", "↑10 MB/s"):
        assert f">{part}</text>" in text
    assert text.count('class="wire load2"') == wires
    assert "<title>HCA 1 no PCI address: 5 MB/s to it, 10 MB/s from it</title>" in text


def test_a_topology_without_figures_says_so(node: SyntheticCluster) -> None:
    text = show(node, "/topology/n1", "other 1")
    assert "without figures of links" in text
    assert "load1" not in text
