"""Makes metric families from hcad's counters at each scrape."""

import logging
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from device_plugin.errors import AgentError
from device_plugin.exporter import labels
from device_plugin.exporter.collector import add_sample, new_family
from device_plugin.exporter.rdma_families import HCAD_UP, OF_DENIAL, OF_HCAD, OF_PAIR, OF_PORT
from device_plugin.exporter.traffic import RdmaTraffic
from device_plugin.inventory.functions import hcas_by_function

_log = logging.getLogger(__name__)


class _Source(Protocol):
    def traffic(self) -> RdmaTraffic | None:
        """Return hcad's counters, or None if the node has no hcad. Raises AgentError."""


class TrafficCollector(Collector):
    """Collects the RDMA metrics of one node.

    A node without hcad has none. If hcad does not answer, the only metric is
    ``tessera_hcad_up 0``.
    """

    def __init__(self, source: _Source, hostname: str) -> None:
        self._source = source
        self._hostname = hostname

    @cached_property
    def _hcas(self) -> dict[str, int]:
        return dict(hcas_by_function(self._hostname))

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families of RDMA, each once."""
        try:
            traffic = self._source.traffic()
        except AgentError as err:
            _log.warning("no RDMA figures: %s", err)
            family = new_family(HCAD_UP)
            add_sample(family, HCAD_UP, {}, 0)
            yield family
            return
        if traffic is not None:
            yield from self._families(traffic)

    def _families(self, traffic: RdmaTraffic) -> Iterator[Metric]:
        host = self._hostname
        for of_hcad in OF_HCAD:
            family = new_family(of_hcad)
            add_sample(family, of_hcad, {}, of_hcad.value(traffic))
            yield family
        for of_port in OF_PORT:
            family = new_family(of_port)
            for port in traffic.functions:
                named = labels.port_labels(port, self._hcas.get(port.function), host)
                add_sample(family, of_port, named, of_port.value(port))
            yield family
        for of_pair in OF_PAIR:
            family = new_family(of_pair)
            for pair in traffic.flows:
                add_sample(family, of_pair, labels.pair_labels(pair, host), of_pair.value(pair))
            yield family
        for of_denial in OF_DENIAL:
            family = new_family(of_denial)
            for denial in traffic.denials:
                named = labels.denial_labels(denial, host)
                add_sample(family, of_denial, named, of_denial.value(denial))
            yield family
