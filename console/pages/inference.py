"""What pages show of inference pods, which are read when a viewer opens a page."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from console.model.exporters import Exporters
from console.model.inference import WITHIN_S, Inference
from console.model.pods import PodRecord
from console.model.readings import MOST_NODES
from console.pages.frame import AGAIN_S, Frame
from console.views import inference, metrics, needs


class InferenceTables:
    """Makes the tables of inference pods."""

    def __init__(self, frame: Frame, exporters: Exporters) -> None:
        self._frame = frame
        self._exporters = exporters
        self._inference = Inference(exporters.proxy)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def values(self, is_wanted: Callable[[PodRecord], bool]) -> dict[str, Any]:
        """Return the table of the pods that are wanted, with what a template needs."""
        missing = self._frame.missing_of(needs.INFERENCE)
        model = self._frame.model
        pods = inference.find_pods(model.world(), model.pods.values(), is_wanted)
        shown_pods = pods[: inference.SHOWN]
        nodes = sorted({node for pod in shown_pods for node in pod.nodes})[:MOST_NODES]
        busy: dict[str, list[float]] = {}
        reading = self._inference.refresh(pod.target for pod in shown_pods)
        await asyncio.gather(reading, self._read_exporters(nodes, busy))
        return {
            "inference": inference.make_rows(shown_pods, self._inference.history, busy),
            "more_pods": len(pods) - len(shown_pods),
            "unknown_pods": missing,
            "again": AGAIN_S if shown_pods else 0,
        }

    async def read_activity(self, nodes: Iterable[str]) -> dict[str, list[float]]:
        """Return the activity of engines by pod, of the first nodes whose exporters answer soon."""
        busy: dict[str, list[float]] = {}
        await self._read_exporters(list(nodes)[:MOST_NODES], busy)
        return dict(busy)

    async def _read_exporters(self, nodes: Iterable[str], busy: dict[str, list[float]]) -> None:
        """Add the activity of engines; a page does not wait for an exporter that is slow."""
        await self._within(asyncio.create_task(self._read_exporter(node, busy)) for node in nodes)

    async def _read_exporter(self, node: str, busy: dict[str, list[float]]) -> None:
        scrape = await self._exporters.scrape(node)
        busy |= await asyncio.to_thread(metrics.utilisation, scrape.text)

    async def _within(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        waiting = list(tasks)
        for task in waiting:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if waiting:
            await asyncio.wait(waiting, timeout=WITHIN_S)
