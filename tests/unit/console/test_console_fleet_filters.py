"""The fleet's filter by labels of nodes, and its colours by the memory in use."""

import random
from urllib.parse import urlencode

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster
from console.views.labels import SelectorError, read_selector


@pytest.fixture
def cluster() -> SyntheticCluster:
    """Return two nodes, the second with the label ``rack``."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    for name in ("n1", "n2"):
        synthetic.add_node(cluster, name, "h100-80gb", random.Random(1), alike=True, gpus=1)
    cluster.objects["Node"]["n2"]["metadata"]["labels"]["rack"] = "r7"
    return cluster


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", {"n1", "n2"}),
        ("rack", {"n2"}),
        ("!rack", {"n1"}),
        ("rack=r7", {"n2"}),
        ("rack==r7, kubernetes.io/hostname=n2", {"n2"}),
        ("rack=r7,kubernetes.io/hostname=n1", set()),
        ("rack!=r7", {"n1"}),
        ("rack=", set()),
    ],
)
def test_nodes_are_selected_by_labels(
    cluster: SyntheticCluster, text: str, nodes: set[str]
) -> None:
    shown = fetch(cluster, "/", query=urlencode({"labels": text})).text
    assert {name for name in ("n1", "n2") if f'id="node-{name}"' in shown} == nodes


@pytest.mark.parametrize("text", ["a b", "=x", "a=b=c", "rack in (a)"])
def test_what_is_no_selector_is_refused_by_name(cluster: SyntheticCluster, text: str) -> None:
    with pytest.raises(SelectorError):
        read_selector(text)
    answer = fetch(cluster, "/", query=urlencode({"labels": text}))
    assert answer.status == 422
    assert "label selector" in answer.text
    assert (
        fetch(cluster, "/parts/nodes", query=urlencode({"labels": text, "name": "n1"})).status
        == 422
    )


@pytest.mark.parametrize(
    ("percent", "level"), [(0, "u0"), (1, "u1"), (24, "u1"), (25, "u2"), (74, "u3"), (100, "u4")]
)
def test_held_slices_are_coloured_by_the_memory_in_use(
    cluster: SyntheticCluster, percent: int, level: str
) -> None:
    for one in cluster.objects["GPU"]["n1-gpu-0"]["status"]["slices"]:
        one["memoryUsedBytes"] = one["memoryBytes"] * percent // 100 + (percent > 0)
    text = fetch(cluster, "/", query=urlencode({"colour": "memory", "node": "n1"})).text
    assert f'class="s {level}"' in text.partition("</main>")[0].partition('id="node-n1"')[2]
    assert 'class="s held"' not in text.partition('id="node-n1"')[2]
