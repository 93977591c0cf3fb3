"""The last minutes of GPUs, slices and pods, which their pages load as a part."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from console.model.departures import SLICE
from console.model.history import SPAN_S
from console.model.readings import MOST_NODES
from console.pages.frame import AGAIN_S, Frame
from console.pages.traffic import LiveTraffic
from console.views import details, history, needs
from console.views.history import Device

_EVERY_S: Final = 10.0  # between readings of a node that no page shows any more


class HistoryPages:
    """The handlers of these pages.

    The exporters of the nodes that pages have shown last are read for as long as a history covers,
    so that a viewer who comes back finds no gap. The fleet shows all nodes: if they are few, the
    history of each begins with the first look at the fleet.
    """

    def __init__(self, frame: Frame, live: LiveTraffic) -> None:
        self._frame = frame
        self._live = live
        self._shown: dict[str, float] = {}  # when a page has shown the node last
        self._reading: asyncio.Task[None] | None = None

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {
            "/history/gpus/{name}": self.show_gpu,
            "/history/slices/{uuid:path}": self.show_slice,
            "/history/pods/{namespace}/{name}": self.show_pod,
        }

    async def show_gpu(self, request: Request) -> Response:
        """Show a GPU, and its slices that pods hold."""
        name = request.path_params["name"]
        gpu = self._frame.model.world().gpus.get(name)
        if gpu is None:
            return self._frame.not_found(request, f"GPU {name}", needs.GPU, "GPU", name)
        return await self._show(
            request,
            name,
            gpu.spec.node_name,
            lambda now_s: history.of_gpu_and_slices(self._live.exporters.history, gpu, now_s),
        )

    async def show_slice(self, request: Request) -> Response:
        """Show a slice."""
        uuid = request.path_params["uuid"]
        found_slice = details.find_slice(self._frame.model.world(), uuid)
        if found_slice is None:
            return self._frame.not_found(request, f"slice {uuid}", needs.GPU, SLICE, uuid)
        return await self._show(
            request,
            uuid,
            found_slice.gpu.spec.node_name,
            lambda now_s: history.of_slices(self._live.exporters.history, [found_slice], now_s),
        )

    async def show_pod(self, request: Request) -> Response:
        """Show the slices that a pod holds."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        held_slices = details.slices_of(self._frame.model.world(), namespace, name)
        if not held_slices:
            subject = f"pod {namespace}/{name} with a slice"
            return self._frame.not_found(request, subject, needs.GPU, "Pod", f"{namespace}/{name}")
        record = self._frame.model.pods.get(f"{namespace}/{name}")

        def find(now_s: float) -> Sequence[Device]:
            age_s = history.age_of(record, datetime.datetime.now(datetime.UTC))
            return history.of_slices(self._live.exporters.history, held_slices, now_s, age_s)

        node = held_slices[0].gpu.spec.node_name  # a pod is on one node
        return await self._show(request, f"{namespace}/{name}", node, find)

    async def _show(
        self, request: Request, title: str, node: str, find: Callable[[float], Sequence[Device]]
    ) -> Response:
        readings = await self._live.read_one(node)
        self.keep_reading([node])
        devices = find(self._live.exporters.clock())
        values = {"devices": devices, "problem": readings.problem, "node": node, "again": AGAIN_S}
        title = f"Last minutes of {title}"
        return self._frame.page(request, "history.html", title, "Connection", **values)

    def keep_reading(self, nodes: Collection[str]) -> None:
        """Read these nodes' exporters from now on, if there are few, for as long as a history
        covers.
        """
        if self._live.exporters.proxy is None or len(nodes) > MOST_NODES:
            return
        for node in nodes:
            self._shown.pop(node, None)
            self._shown[node] = self._live.exporters.clock()
        while len(self._shown) > MOST_NODES:
            del self._shown[next(iter(self._shown))]
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_again())

    async def _read_again(self) -> None:
        """Read the nodes that pages have shown, until the last of them is forgotten."""
        while self._shown:
            await asyncio.sleep(_EVERY_S)
            exporters = self._live.exporters
            oldest = exporters.clock() - SPAN_S
            self._shown = {node: at for node, at in self._shown.items() if at >= oldest}
            for node in tuple(self._shown):
                await exporters.scrape(node)
