"""Makes metric families from gpud's inventory at each scrape."""

import logging
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from device_plugin import serving
from device_plugin.errors import AgentError
from device_plugin.exporter import labels
from device_plugin.exporter.families import (
    OF_GPU,
    OF_INSTANCE,
    OF_NODE,
    UP,
    Family,
    help_text,
    is_of_dcgm,
    is_reading,
)
from device_plugin.exporter.labels import Labels
from device_plugin.exporter.source import Source
from device_plugin.serving import Answer
from vgpu_sim.hal.management.admin import Inventory
from vgpu_sim.hal.management.nvml import DRIVER_RELEASE

_log = logging.getLogger(__name__)


class NodeCollector(Collector):
    """Collects the metrics of a node's GPUs and, if it has HCAs, those of RDMA."""

    def __init__(self, gpus: Collector, rdma: Collector) -> None:
        self._gpus = gpus
        self._rdma = rdma

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families of the node, each once."""
        yield from self._gpus.collect()
        yield from self._rdma.collect()


class InventoryCollector(Collector):
    """Collects the metrics of one node.

    If gpud does not answer, the only metric is ``tessera_gpud_up 0``. A GPU that has fallen off the
    bus has no reading: DCGM's values for it are blank, which dcgm-exporter leaves out.
    """

    def __init__(self, source: Source, hostname: str) -> None:
        self._source = source
        self._hostname = hostname

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families of the node, each once."""
        try:
            node = self._source.inventory()
        except AgentError as err:
            _log.warning("no figures: %s", err)
            family = new_family(UP)
            add_sample(family, UP, {}, 0)
            yield family
            return
        yield from self._families(node)

    def _families(self, node: Inventory) -> Iterator[Metric]:
        host, version = self._hostname, DRIVER_RELEASE
        gpus = [(gpu, labels.gpu_labels(gpu, host, version)) for gpu in node.gpus]
        instances = [
            (gpu, instance, labels.instance_labels(gpu, instance, host, version))
            for gpu in node.gpus
            for instance in gpu.instances
        ]
        for of_node in OF_NODE:
            family = new_family(of_node)
            add_sample(family, of_node, {}, of_node.value(node))
            yield family
        for of_gpu in OF_GPU:
            family = new_family(of_gpu)
            for gpu, named in gpus:
                if not (gpu.is_lost and is_reading(of_gpu)):
                    add_sample(family, of_gpu, named, of_gpu.value(gpu))
            yield family
        for of_instance in OF_INSTANCE:
            family = new_family(of_instance)
            for gpu, instance, named in instances:
                if not (gpu.is_lost and is_reading(of_instance)):
                    add_sample(family, of_instance, named, of_instance.value(instance))
            yield family


def new_family(row: Family) -> Metric:
    """Return a family without samples, of the type that the row declares."""
    if row.kind == "gauge":
        return GaugeMetricFamily(row.name, help_text(row))
    if is_of_dcgm(row):
        # OpenMetrics requires the suffix _total for counters, but dashboards query DCGM's name.
        return Metric(row.name, help_text(row), "unknown")
    return CounterMetricFamily(row.name, help_text(row))


def add_sample(family: Metric, row: Family, named: Labels, value: float) -> None:
    """Add a figure of the row with these labels to its family."""
    suffix = "_total" if family.type == "counter" else ""
    family.add_sample(row.name + suffix, named, float(value))


def exposition(collector: Collector, accept: str) -> Answer:
    """Return the answer with the metrics, in the format that ``accept`` requests.

    In Prometheus's own format, the type of DCGM's counters is changed from untyped to counter.
    """
    answer = serving.exposition(collector, accept)
    if answer.content_type.startswith("application/openmetrics-text"):
        return answer
    body = answer.body
    for row in (*OF_GPU, *OF_INSTANCE):
        if row.kind == "counter" and is_of_dcgm(row):
            kind = f"# TYPE {row.name} ".encode()
            body = body.replace(kind + b"untyped", kind + b"counter")
    return Answer(answer.status, body, answer.content_type)
