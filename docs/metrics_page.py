"""Print docs/metrics-reference.md from the metrics that the programs declare.

    python docs/metrics_page.py > docs/metrics-reference.md

A script outside all packages, because the operator and the node agent must not import each other.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

import device_plugin.metrics
import gpu_operator.metrics
from device_plugin.exporter.families import OF_GPU, OF_INSTANCE, OF_NODE, Family, is_of_dcgm
from device_plugin.exporter.rdma_families import OF_DENIAL, OF_HCAD, OF_PAIR, OF_PORT
from gpu_operator.app import object_metrics

HEAD = """# All metrics

For authors of dashboards and alerts: every metric of exporter, operator and node agent. Generated
by `python docs/metrics_page.py` from the declarations in the programs.
[Metrics](metrics.md) explains how to scrape them, and which are *measured* or *modelled*.
"""
EXPORTER = """
## The exporter
On port 9400, declared in `device_plugin/exporter/families.py`. Metrics of a GPU or an instance have
the labels of dcgm-exporter ([metrics](metrics.md#the-exporter)), metrics of the node have none.
The metrics of [RDMA](metrics.md#rdma) are declared in `device_plugin/exporter/rdma_families.py`.
Nodes without HCAs do not have them.
"""
OPERATOR = """
## The operator
On port 8080, declared in `gpu_operator/metrics.py`, and in `gpu_operator/app/object_metrics.py`
for the metrics that only the leader exports.
"""
AGENT = """
## The node agent
On port 8081, declared in `device_plugin/metrics.py`.
"""
PROCESS = """
## The operator's process
Exported by the Prometheus client library, in addition to the operator's own metrics.
"""


def render() -> str:
    """Return the page as Markdown."""
    return "\n".join(
        (
            HEAD + EXPORTER,
            *_exporter(),
            OPERATOR,
            *_operator(),
            PROCESS,
            *_process(),
            AGENT,
            *_agent(),
            "",
        )
    )


def _exporter() -> Iterator[str]:
    rows: tuple[tuple[str, tuple[Family, ...]], ...] = (
        ("node", OF_NODE),
        ("GPU", OF_GPU),
        ("instance", OF_INSTANCE),
        ("hcad", OF_HCAD),
        ("HCA function", OF_PORT),
        ("pair of pods", OF_PAIR),
        ("kind of denial", OF_DENIAL),
    )
    yield from _table(
        ("metric", "of", "type", "unit", "figure", "help", "from"),
        (
            (
                family.name if is_of_dcgm(family) else _sample(family.name, family.kind),
                of,
                family.kind,
                family.unit,
                family.source,
                family.help,
                family.origin,
            )
            for of, families in rows
            for family in families
        ),
    )


def _operator() -> Iterator[str]:
    assert object_metrics.ObjectCollector, "importing the module declares its metrics"
    yield from _table(
        ("metric", "type", "labels", "unit", "help", "note"),
        (
            (
                _sample(declaration.name, declaration.kind),
                declaration.kind,
                ", ".join(f"`{label}`" for label in declaration.labels),
                declaration.unit,
                declaration.help,
                declaration.note,
            )
            for declaration in gpu_operator.metrics.declarations()
        ),
    )


def _process() -> Iterator[str]:
    families: list[Metric] = sorted(
        ProcessCollector(registry=None).collect(), key=lambda family: family.name
    )
    yield from _table(
        ("metric", "type", "help"),
        (
            (_sample(family.name, family.type), family.type, family.documentation)
            for family in families
        ),
    )


def _agent() -> Iterator[str]:
    yield from _table(
        ("metric", "type", "labels and their values", "unit", "help"),
        (
            (
                _sample(counter.name, "counter"),
                "counter",
                "; ".join(f"`{label}`: {', '.join(of)}" for label, of in counter.values.items()),
                counter.unit,
                counter.help,
            )
            for counter in device_plugin.metrics.COUNTERS
        ),
    )


def _sample(name: str, kind: str) -> str:
    """Return the name of a family's samples, which for a counter ends in ``_total``."""
    return f"{name}_total" if kind == "counter" else name


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for name, *cells in rows:
        yield "| " + " | ".join((f"`{name}`", *cells)).replace("<", "&lt;") + " |"


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python docs/metrics_page.py", description=__doc__).parse_args()
    sys.stdout.write(render())
