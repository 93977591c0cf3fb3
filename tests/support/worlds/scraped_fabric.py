"""A node's RDMA counters as hcad reports them, and the metrics that an exporter derives from
them.
"""

from device_plugin.errors import HcadUnreachable
from device_plugin.exporter import app
from device_plugin.exporter.rdma_collector import TrafficCollector
from device_plugin.exporter.traffic import PairDenials, PairTraffic, PortTraffic, RdmaTraffic
from device_plugin.inventory.functions import hcas_by_function

NODE = "worker-1"
FUNCTION = next(name for name, hca in hcas_by_function(NODE).items() if hca == 1)
TRAFFIC = RdmaTraffic(
    functions=(PortTraffic(FUNCTION, "ml/a", 1000, 2000, 10, 20, 300, 400, 2, 4096),),
    flows=(PairTraffic("ml/a", "ml/b", "Write", 5, 1500),),
    denials=(
        PairDenials("ml/a", "db/c", "Read", ("db/closed",), False, 7),
        PairDenials("ml/a", "", "Connect", tuple(f"db/p{i}" for i in range(4)), True, 1),
    ),
    unlisted_operations=3,
    unlisted_bytes=9,
    unlisted_denials=1,
    revoked=2,
)


class FixedTraffic:
    """A source of fixed counters; ``away``: hcad does not answer."""

    def __init__(self, found: RdmaTraffic | None, *, away: bool = False) -> None:
        self._found = found
        self._away = away

    def traffic(self) -> RdmaTraffic | None:
        """Return the counters."""
        if self._away:
            raise HcadUnreachable("it is away")
        return self._found


def scrape_rdma(found: RdmaTraffic | None = TRAFFIC, *, away: bool = False) -> str:
    """Return the RDMA metrics of a node."""
    collector = TrafficCollector(FixedTraffic(found, away=away), NODE)
    given = app.answer(collector, "/metrics", "")
    assert given.status == 200
    return given.body.decode()
