"""A real Prometheus scrapes all three components, and every panel's expression has a result."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import yaml
from prometheus_client.exposition import generate_latest

from device_plugin import serving
from device_plugin.exporter import app
from device_plugin.exporter.collector import InventoryCollector
from device_plugin.metrics import AgentMetrics
from device_plugin.serving import Answer
from support.processes.gpud_process import wait_until
from support.programs.promtool import prometheus
from support.worlds.scraped_node import NODE, Fixed
from support.worlds.scraped_operator import operator_scrape

FILES = Path(__file__).parents[3] / "charts" / "tessera" / "files"
AGENT = AgentMetrics()
EXPORTER = InventoryCollector(Fixed(NODE), "worker-1")


def plain(text: str) -> Answer:
    return Answer(200, text.encode(), "text/plain; version=0.0.4")


ANSWERS: dict[str, Callable[[str, str], Answer]] = {
    "exporter": lambda path, accept: app.answer(EXPORTER, path, accept),
    "agent": lambda path, accept: plain(generate_latest(AGENT).decode()),
    "operator": lambda path, accept: plain(operator_scrape()),
}


@contextmanager
def serving_address(answer: Callable[[str, str], Answer]) -> Iterator[str]:
    server = serving.server(0, answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    with ExitStack() as stack:
        scrapes = [
            {
                "job_name": name,
                "static_configs": [
                    # A ServiceMonitor labels its targets in this way.
                    {
                        "targets": [stack.enter_context(serving_address(answer))],
                        "labels": {"pod": name},
                    }
                ],
            }
            for name, answer in ANSWERS.items()
        ]
        requested = stack.enter_context(prometheus(tmp_path_factory.mktemp("prometheus"), scrapes))

        def twice() -> bool:  # rates need two samples
            try:
                return len(requested("count_over_time(up[1m]) > 2 and up == 1")) == len(ANSWERS)
            except (URLError, OSError):
                return False

        wait_until(twice)
        yield requested


@pytest.mark.parametrize("name", ["gpus", "layouts"])
def test_every_panel_has_something_to_show(ask: Callable[[str], Any], name: str) -> None:
    board = json.loads((FILES / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$Hostname", ".*").replace("$gpu", ".*")
            assert ask(expression), panel["title"]


THEIR_PANELS = (
    "DCGM_FI_DEV_GPU_TEMP{%s}",
    "avg(DCGM_FI_DEV_GPU_TEMP{%s})",
    "DCGM_FI_DEV_POWER_USAGE{%s}",
    "sum(DCGM_FI_DEV_POWER_USAGE{%s})",
    "DCGM_FI_DEV_SM_CLOCK{%s} * 1000000",
    "DCGM_FI_DEV_GPU_UTIL{%s}",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{%s}",
    "DCGM_FI_DEV_FB_USED{%s}",
)
"""The expressions of the panels of dcgm-exporter's own dashboard (grafana.com: 12239)."""


@pytest.mark.parametrize("panel", THEIR_PANELS)
def test_no_panel_of_their_dashboard_is_empty(ask: Callable[[str], Any], panel: str) -> None:
    """The dashboard's variables: ``instance`` is the target's address, ``gpu`` the index."""
    assert ask(panel % 'instance=~"127.0.0.1:.+", gpu=~"0|1"')


def test_a_pod_s_labels_do_not_replace_the_target_s(ask: Callable[[str], Any]) -> None:
    (found,) = ask('DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_PROFILE="1g.10gb"}')
    labels = found["metric"]
    assert (labels["pod"], labels["exported_pod"]) == ("exporter", "train-0")
    assert (labels["namespace"], labels["container"]) == ("team", "main")


def test_alerts_can_be_evaluated_and_those_fire_that_should(ask: Callable[[str], Any]) -> None:
    firing = set()
    for group in yaml.safe_load((FILES / "rules.yaml").read_text(encoding="utf-8"))["groups"]:
        firing |= {rule["alert"] for rule in group["rules"] if ask(rule["expr"])}
    assert firing == {"TesseraGPUUnhealthy"}
