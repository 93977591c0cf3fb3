"""The pages about hardware: topologies and metrics of nodes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from console.model.pods import PodRecord
from console.model.readings import MOST_NODES
from console.pages.frame import AGAIN_S, Frame
from console.pages.inference import InferenceTables
from console.pages.traffic import LiveTraffic
from console.views import metrics, needs, places, topology, traffic, usage

_LONGEST_TEXT = 253


class DevicePages:
    """The handlers of these pages."""

    def __init__(self, frame: Frame, live: LiveTraffic, tables: InferenceTables) -> None:
        self._frame = frame
        self._live = live
        self._tables = tables

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {
            "/topology": self.show_topologies,
            "/topology/{name}": self.show_topology,
            "/metrics": self.show_metrics,
            "/metrics/{name}": self.show_node_metrics,
        }

    async def show_topologies(self, request: Request) -> Response:
        """List the nodes with GPUs and their topologies."""
        text = request.query_params.get("node", "")[:_LONGEST_TEXT]
        rows, hidden_count = topology.rows(self._frame.model.world(), text)
        values = {"rows": rows, "more": hidden_count, "text": text}
        values["missing"] = self._frame.missing_of(needs.TOPOLOGY)
        live = "GPU GPUPool Connection"
        return self._frame.page(request, "topologies.html", "Topology", live, **values)

    async def show_topology(self, request: Request) -> Response:
        """Draw how the devices of one node are connected."""
        name, world = request.path_params["name"], self._frame.model.world()
        if name not in world.gpus_by_node():
            return self._frame.not_found(request, f"node {name} with GPUs", needs.GPU, "Node", name)
        readings = await self._live.read_one(name)
        links = traffic.links_of(readings)
        node_topology = await self._frame.compute(topology.view, world, name, links)
        values = {"name": name, "found": node_topology, "again": AGAIN_S}
        values |= {
            "problem": readings.problem,
            "seconds": readings.seconds,
            "has_traffic": bool(links),
        }
        values["has_hcas"] = any(link_name.startswith("HCA ") for link_name in links)
        values["missing"] = self._frame.missing_of(needs.TOPOLOGY)
        live = "GPU GPUPool Connection"
        return self._frame.page(request, "topology.html", f"Topology of {name}", live, **values)

    async def show_metrics(self, request: Request) -> Response:
        """Show inference pods, and the memory in use on every node, as GPU objects state it."""
        text = request.query_params.get("node", "")[:_LONGEST_TEXT]
        space = request.query_params.get("namespace", "")[:_LONGEST_TEXT]
        model = self._frame.model

        def is_wanted(pod: PodRecord) -> bool:
            return text in pod.node and space in ("", pod.namespace)

        values = await self._tables.values(is_wanted)
        values |= await self._users(text, space, request.query_params.get("sort", ""))
        nodes, hidden_count = metrics.memory(model.world(), text)
        spaces = {record.namespace for record in model.pods.values() if record.metrics is not None}
        values |= {"nodes": nodes, "more": hidden_count, "text": text, "namespace": space}
        values |= {"missing": self._frame.missing_of(needs.GPU), "spaces": sorted(spaces)}
        return self._frame.page(request, "metrics.html", "Metrics", "GPU Connection", **values)

    async def _users(self, text: str, space: str, order: str) -> dict[str, Any]:
        """Return the pods that use most, with what the template needs."""
        pods = usage.pods_by_memory(self._frame.model.world(), text, space)
        by_activity = order == usage.BY_ACTIVITY
        shown_pods = pods if by_activity else pods[: usage.SHOWN]
        nodes = usage.nodes_of(shown_pods)
        usage.add_activity(shown_pods, await self._tables.read_activity(nodes))
        if by_activity:
            shown_pods = usage.sort_by_activity(shown_pods)[: usage.SHOWN]
        return {
            "users": shown_pods,
            "other_users": len(pods) - len(shown_pods),
            "unread_nodes": max(len(nodes) - MOST_NODES, 0),
            "order": usage.BY_ACTIVITY if by_activity else usage.BY_MEMORY,
            "orders": usage.ORDERS,
        }

    async def show_node_metrics(self, request: Request) -> Response:
        """Show what the exporter of one node answers now."""
        name, world = request.path_params["name"], self._frame.model.world()
        if name not in world.gpus_by_node():
            return self._frame.not_found(request, f"node {name} with GPUs", needs.GPU, "Node", name)
        scrape = await self._live.exporters.scrape(name)
        devices = metrics.devices_of(world, name)
        tables = await self._frame.compute(metrics.tables, scrape, devices)
        tables = places.name_slices(tables, world.gpus_by_node()[name])
        values = {"name": name, "tables": tables, "problem": scrape.problem, "pod": scrape.pod}
        values["gpus"] = {str(gpu.spec.index): gpu.name for gpu in world.gpus_by_node()[name]}
        values["slices"] = places.pages_of_slices(world.gpus_by_node()[name])
        values["again"] = AGAIN_S
        title, live = f"Metrics of {name}", "GPU Connection"
        return self._frame.page(request, "node_metrics.html", title, live, **values)
