"""The page of RDMA traffic and denials, which other pages load as a part."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from console.model.exporters import Exporters
from console.model.inference import WITHIN_S
from console.model.readings import MOST_NODES, History, NodeReadings
from console.pages import queries
from console.pages.frame import AGAIN_S, Frame
from console.views import needs, traffic


class LiveTraffic:
    """Reads the exporters of nodes whose traffic a page shows."""

    def __init__(self, frame: Frame, exporters: Exporters) -> None:
        self._frame = frame
        self.exporters = exporters
        self._history = History()
        self._tasks: set[asyncio.Task[list[NodeReadings]]] = set()

    async def read(self, nodes: list[str]) -> list[NodeReadings]:
        """Read the exporters of some nodes, and return their last minutes."""
        readings = []
        for node in nodes[:MOST_NODES]:
            scrape = await self.exporters.scrape(node)
            readings.append(await self._frame.compute(self._history.add, node, scrape))
        return readings

    async def read_one(self, node: str) -> NodeReadings:
        """Read one node's exporter; a page does not wait for one that is slow."""
        task = asyncio.create_task(self.read([node]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ended_tasks, _ = await asyncio.wait([task], timeout=WITHIN_S)
        if not ended_tasks:
            return NodeReadings(node, problem=f"no answer of the exporter within {WITHIN_S:g} s")
        return task.result()[0]

    async def show_rdma(self, request: Request) -> Response:
        """Show rates and denials on the nodes of the pods that the matrix shows."""
        space = request.query_params.get("namespace", "")[:253]
        first = queries.number(request.query_params.get("first", "")) or 0
        nodes = traffic.nodes_of(self._frame.model.fabric, space, first)
        node_traffic = traffic.view(await self.read(nodes), space, max(len(nodes) - MOST_NODES, 0))
        values: dict[str, Any] = {
            "found": node_traffic,
            "namespace": space,
            "rate": traffic.format_rate,
        }
        values |= {"again": AGAIN_S, "missing": self._frame.missing_of(needs.RDMA)}
        events = traffic.denials_among(self._frame.model.events.all())
        values["denied_at"] = {
            row: traffic.last_denied(events, row) for row in node_traffic.denials
        }
        live = "Connection"
        title = "RDMA traffic and denials"
        return self._frame.page(request, "rdma_traffic.html", title, live, **values)
