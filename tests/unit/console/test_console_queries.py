"""Queries: a parameter or value that a page does not know is refused by name, and never ignored."""

import re
from urllib.parse import urlencode

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.pages import queries


@pytest.mark.parametrize(
    ("path", "query", "named"),
    [
        ("/events", "lane=faults", ("lane: “faults”", "known are: fault, warning, normal")),
        ("/events", "period=2d", ("period: “2d”", "5m, 15m, 1h, 6h, 24h")),
        ("/events", "since=yesterday", ("since: “yesterday”", "2026-01-31T09:30")),
        ("/events", "until=2026-13-01", ("until: “2026-13-01”",)),
        ("/events", "lnae=fault", ("“lnae” is unknown", "lane, period, since, until, text")),
        ("/events", "lane=fault&lane=normal", ("“lane” is given 2 times",)),
        ("/", "colour=red", ("colour: “red”", "state, namespace")),
        ("/rdma", "first=-1", ("first: “-1”", "whole number")),
        ("/rdma", "first=%D9%A3", ("first: “٣”",)),
        ("/nodes/gpu-0001", "a=b", ("“a” is unknown", "the page has none")),
        ("/layout", "index=x", ("index: “x”",)),
        ("/metrics", "node=" + "x" * 318, ("more than 317 characters",)),
    ],
)
def test_an_unknown_value_is_refused_with_what_is_known(
    path: str, query: str, named: tuple[str, ...]
) -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 2)
    answer = fetch(cluster, path, query)
    assert answer.status == 400
    for text in named:
        assert text in answer.text
    assert "<table" not in answer.text
    assert f'href="{path}"' in answer.text


@pytest.mark.parametrize("path", sorted(queries.PAGES))
def test_empty_fields_of_a_form_are_no_values(path: str) -> None:
    if path == "/stream":
        return  # it does not end
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 2)
    query = urlencode(dict.fromkeys(queries.PAGES[path], ""))
    assert fetch(cluster, path, query).status == 200


def test_every_link_and_form_of_the_pages_has_a_query_that_its_page_knows() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 6)
    pod = synthetic.add_pending_pod(cluster, "ml", "big", {"gpu.tessera.dev/mig-3g.40gb": "1"})
    pages = ("/", "/events", "/nodes/gpu-0003", "/gpus/gpu-0003-gpu-1", "/metrics", "/rdma")
    pages += ("/rollout", "/topology", "/layout", f"/why/ml/{pod['metadata']['name']}")
    texts = [fetch(cluster, page).text for page in pages]
    found = {
        link for text in texts for link in re.findall(r'(?:href|data-load)="(/[^"]*\?[^"]*)"', text)
    }
    assert len(found) > 10
    for link in sorted(found)[::7]:
        path, _, query = link.replace("&amp;", "&").partition("?")
        assert fetch(cluster, path, query).status == 200, link


def test_a_filter_by_an_object_that_is_gone_is_shown_as_chosen() -> None:
    cluster = SyntheticCluster()
    synthetic.fill(cluster, 2)
    text = fetch(cluster, "/", "pool=gone").text
    assert '<option value="gone" selected>gone (none now)</option>' in text
    assert "No GPU matches." in text
    assert fetch(cluster, "/", "pool=h100").text.count(" selected>") == 2
