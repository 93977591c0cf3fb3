"""docs/metrics-reference.md lists exactly the metrics that the programs export."""

import dataclasses
import re
import runpy
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parsed

from device_plugin.exporter.families import OF_GPU, OF_INSTANCE, OF_NODE
from device_plugin.exporter.rdma_families import ALL_RDMA
from device_plugin.metrics import COUNTERS, AgentMetrics
from gpu_operator import metrics
from gpu_operator.app import object_metrics
from support.worlds.scraped_fabric import scrape_rdma
from support.worlds.scraped_node import scrape
from support.worlds.scraped_operator import operator_scrape

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metrics-reference.md"
EXPORTED = {
    "The exporter": lambda: scrape() + scrape_rdma(),
    "The operator": operator_scrape,
    "The node agent": lambda: generate_latest(AgentMetrics()).decode(),
}


def test_the_page_matches_the_declarations() -> None:
    rendered = runpy.run_path(str(ROOT / "docs" / "metrics_page.py"))["render"]()
    assert PAGE.read_text(encoding="utf-8") == rendered, (
        "run: python docs/metrics_page.py > docs/metrics-reference.md"
    )


def _list_metrics(section: str) -> dict[str, str]:
    """Return the types of the metrics that a section of the page lists, by name."""
    (text,) = re.findall(
        rf"^## {section}$(.*?)(?=^## |\Z)",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    names = [cells[0].strip(" `") for cells in rows]
    assert len(set(names)) == len(names)
    kinds = {"counter", "gauge", "histogram"}
    return {
        name: next(cell.strip() for cell in cells if cell.strip() in kinds)
        for name, cells in zip(names, rows, strict=True)
    }


@pytest.mark.parametrize("program", EXPORTED)
def test_the_page_lists_exactly_the_exported_metrics(program: str) -> None:
    exported: dict[str, str] = {}
    for family in parsed(EXPORTED[program]()):
        if family.name.endswith("_created"):
            continue  # a counter's start time, added by the client library
        total = family.type == "counter" and not family.name.startswith("DCGM_")
        exported[family.name + ("_total" if total else "")] = family.type
    listed = _list_metrics(program)
    if program == "The operator":
        listed |= _list_metrics("The operator's process")
    assert exported == listed


def test_exported_labels_are_declared() -> None:
    assert object_metrics.ObjectCollector, "importing the module declares its metrics"
    declared = {one.name: set(one.labels) for one in metrics.declarations()}
    declared |= {one.name: set(one.values) for one in COUNTERS}
    text = operator_scrape() + generate_latest(AgentMetrics()).decode()
    seen = {
        family.name: set(sample.labels) - {"le"}
        for family in parsed(text)
        for sample in family.samples
        if family.name in declared
    }
    assert seen.keys() >= {"tessera_gpu_slices", "rest_client_requests", "tessera_agent_passes"}
    assert {name: declared[name] for name in seen} == seen


def test_every_declaration_has_a_unit_and_a_help_text() -> None:
    rows = (*OF_NODE, *OF_GPU, *OF_INSTANCE, *ALL_RDMA, *COUNTERS, *metrics.declarations())
    assert len({one.name for one in rows}) == len(rows)
    for one in rows:
        assert dataclasses.is_dataclass(one)
        assert one.unit, one.name
        assert one.help, one.name
