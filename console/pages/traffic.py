"""The page of RDMA traffic and denials, which other pages load as a part."""

from starlette.requests import Request
from starlette.responses import Response

from console.model.exporters import Exporters
from console.model.readings import MOST_NODES, History, NodeReadings, read_nodes
from console.pages.frame import Frame
from console.views import needs, traffic

AGAIN_S = 5  # between two loads of a page with rates


class LiveTraffic:
    """Reads the exporters of nodes whose traffic a page shows."""

    def __init__(self, frame: Frame, exporters: Exporters) -> None:
        self._frame = frame
        self.exporters = exporters
        self._history = History()

    async def read(self, nodes: list[str]) -> list[NodeReadings]:
        """Read the exporters of some nodes, and return their last minutes."""
        return await read_nodes(self.exporters, self._history, nodes)

    async def show_rdma(self, request: Request) -> Response:
        """Show rates and denials on the nodes of the pods that the matrix shows."""
        space = request.query_params.get("namespace", "")[:253]
        given = request.query_params.get("first", "")
        first = int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else 0
        nodes = traffic.nodes_of(self._frame.model.fabric, space, first)
        found = traffic.view(await self.read(nodes), space, max(len(nodes) - MOST_NODES, 0))
        values = {"found": found, "namespace": space, "rate": traffic.format_rate}
        values |= {"again": AGAIN_S, "missing": self._frame.missing_of(needs.RDMA)}
        live = "Connection"
        title = "RDMA traffic and denials"
        return self._frame.page(request, "rdma_traffic.html", title, live, **values)
