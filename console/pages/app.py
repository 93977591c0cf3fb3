"""The application: its routes, and what every page has in common."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from console.model.budgets import read_budgets
from console.model.cluster import ClusterModel
from console.model.departures import SLICE
from console.model.exporters import Exporters
from console.pages import cards, queries, rendering, stream
from console.pages.access import Access
from console.pages.devices import DevicePages
from console.pages.events import EventPages
from console.pages.forms import read_form
from console.pages.frame import STATE, Busy, Frame, answer_busy
from console.pages.history import HistoryPages
from console.pages.inference import InferenceTables
from console.pages.lists import ListPages
from console.pages.predictions import PredictionPages
from console.pages.queries import BadQuery
from console.pages.rdma import RdmaPages
from console.pages.rollouts import RolloutPages
from console.pages.traffic import LiveTraffic
from console.views import (
    details,
    faults,
    fleet,
    impact,
    layout_diff,
    manifest,
    metrics,
    needs,
    pods,
    rollout,
)
from console.views.geometry import draw
from console.views.labels import SelectorError
from console.views.waiting import why
from drawing import documents
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World

_Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """The handlers of all routes. They only read the model."""

    def __init__(
        self, model: ClusterModel, cluster: str, exporters: Exporters | None = None
    ) -> None:
        """Initialize; ``cluster`` is the name that the pages show for the cluster.

        Without ``exporters`` the page of metrics has what GPU objects state, and nothing else.
        """
        self._model = model
        self._frame = Frame(model, cluster)
        self._namespaces = fleet.Namespaces()
        self._cards = cards.CardCache(self._frame.templates)
        exporters = exporters or Exporters(None)
        self._lister = exporters.proxy
        self._tables = InferenceTables(self._frame, exporters)
        self._live = LiveTraffic(self._frame, exporters)
        self._devices = DevicePages(self._frame, self._live, self._tables)
        self._history = HistoryPages(self._frame, self._live)
        self._predictions = PredictionPages(self._frame)
        self._events = EventPages(self._frame)
        self._rollouts = RolloutPages(self._frame, self._events.entries)
        self._rdma = RdmaPages(self._frame)
        self._lists = ListPages(self._frame)
        self.is_over = False

    def routes(self) -> list[Route | Mount]:
        """Return the routes of the application."""
        pages: Mapping[str, _Handler] = {
            "/": self.show_fleet,
            "/parts/nodes": self.show_node_parts,
            "/nodes/{name}": self.show_node,
            "/gpus/{name}": self.show_gpu,
            "/slices/{uuid:path}": self.show_slice,
            "/pods/{namespace}/{name}": self.show_pod,
            "/why": self.show_why,
            "/why/{namespace}/{name}": self.show_why_pod,
            "/rdma/traffic": self._live.show_rdma,
            STATE: self._frame.show_state,
            "/stream": self.follow_changes,
            **self._devices.handlers(),
            **self._history.handlers(),
            **self._rollouts.handlers(),
            **self._rdma.handlers(),
            **self._events.handlers(),
            **self._lists.handlers(),
        }
        static = Mount("/static", StaticFiles(directory=rendering.STATIC))
        style = Route("/static/drawing.css", _send_style)
        forms = [
            Route(path, queries.check_first(path, page), methods=["GET", "POST"])
            for path, page in {"/layout": self.show_layout, **self._rdma.forms()}.items()
        ]
        checked = [Route(path, queries.check_first(path, page)) for path, page in pages.items()]
        own = [Route(path, page) for path, page in self._predictions.handlers().items()]
        return [*checked, *own, *forms, style, static]

    async def show_fleet(self, request: Request) -> Response:
        """Show all nodes."""
        chosen, problem = _filter(request), ""
        world = self._model.world()
        self._history.keep_reading(world.gpus_by_node())
        try:
            nodes = fleet.choose_nodes(world, chosen, self._namespaces, *self._known())
        except SelectorError as err:
            nodes, problem = [], str(err)
        detailed = len(nodes) <= fleet.DETAILED
        node_cards = self._cards.render(world, nodes, chosen, detailed=detailed)
        values = {
            "cards": node_cards,
            "sums": cards.add_up(node_cards),
            "choices": fleet.choices(world, self._namespaces),
            "detailed": detailed,
            "moving": rollout.unfinished_layouts(world),
            "sick": faults.sick_gpus(world, (gpu for node in nodes for gpu in node.gpus)),
        }
        live = "GPU Node GPUPool MIGLayout GPUFault Connection"
        missing = self._frame.missing_of((*needs.FLEET, *needs.FAULTS))
        values |= {"chosen": chosen, "missing": missing}
        status = 422 if problem else 200
        return self._frame.page(
            request, "fleet.html", "Fleet", live, status, problem=problem, **values
        )

    async def show_node_parts(self, request: Request) -> Response:
        """Return the cards of some nodes, for the script that replaces changed ones."""
        chosen, world = _filter(request), self._model.world()
        names = request.query_params.getlist("name")[: stream.MOST_NODES]
        try:
            nodes = fleet.choose_named(world, names, chosen, self._namespaces, *self._known())
        except SelectorError as err:
            return PlainTextResponse(f"{err}\n", 422)
        detailed = "detailed" in request.query_params
        node_cards = self._cards.render(world, nodes, chosen, detailed=detailed)
        return HTMLResponse("".join(card.html for card in node_cards))

    async def warm_up(self) -> None:
        """Render the maps of all nodes, so that the first viewer does not wait for them."""
        world, chosen = self._model.world(), fleet.Filter()
        nodes = fleet.choose_nodes(world, chosen, self._namespaces)
        if len(nodes) > fleet.DETAILED:
            for node in nodes:
                self._cards.render(world, (node,), chosen, detailed=False)
                await asyncio.sleep(0)

    async def show_node(self, request: Request) -> Response:
        """Show one node with its GPUs."""
        name, world = request.path_params["name"], self._model.world()
        gpus = world.gpus_by_node().get(name, ())
        if name not in world.nodes and not gpus:
            return self._frame.not_found(request, f"node {name}", needs.NODE, "Node", name)
        chosen_node = fleet.Chosen(name, world.nodes.get(name), tuple(gpus), *self._known())
        node_view = fleet.view_node(world, chosen_node, "state")
        events = self._events.entries("Node", name)
        live = "GPU Node Event GPUFault MIGLayout Connection"
        values: dict[str, Any] = {"events": events}
        values |= {"taints": self._model.taints().get(name, ())}
        values |= {"sick": faults.sick_gpus(world, [gpu_view.gpu for gpu_view in node_view.gpus])}
        values |= {"memory": metrics.memory_of_node(world, name), "layouts": world.layouts}
        missing = self._frame.missing_of((*needs.NODE, *needs.FAULTS))
        return self._frame.page(
            request, "node.html", name, live, node=node_view, missing=missing, **values
        )

    async def show_gpu(self, request: Request) -> Response:
        """Show one GPU with its slices."""
        name = request.path_params["name"]
        world = self._model.world()
        gpu = world.gpus.get(name)
        if gpu is None:
            return self._frame.not_found(request, f"GPU {name}", needs.GPU, "GPU", name)
        behind = faults.faults_of(world, gpu)
        values = {"gpu": gpu, "picture": draw(gpu), "events": self._events.entries("GPU", name)}
        values |= {"faults": behind, "memory": metrics.memory_of_gpu(gpu)}
        values |= {"layouts": world.layouts, **await self._rollouts.values_of(gpu)}
        values["missing_faults"] = self._frame.missing_of(needs.FAULTS)
        values["node_problem"] = self._silence_of(gpu)
        is_hit = faults.is_sick(gpu) or any(fault.is_behind for fault in behind)
        values["affected"] = impact.holders_of(gpu) if is_hit else None
        values["remedies"] = impact.remedies_of(gpu)
        live = "GPU Event GPUFault MIGLayout Node Pod Holder Connection"
        return self._frame.page(request, "gpu.html", name, live, **values)

    async def show_slice(self, request: Request) -> Response:
        """Show one slice and the pods that hold it."""
        uuid = request.path_params["uuid"]
        found_slice = details.find_slice(self._model.world(), uuid)
        if found_slice is None:
            return self._frame.not_found(request, f"slice {uuid}", needs.GPU, SLICE, uuid)
        gpu, world = found_slice.gpu, self._model.world()
        behind = [fault for fault in faults.faults_behind(world, gpu) if fault.slice in ("", uuid)]
        values = {"found": found_slice, "picture": draw(gpu), "faults": behind}
        values |= {"node_problem": self._silence_of(gpu)}
        values |= {
            "layouts": world.layouts,
            "is_withdrawn": details.is_withdrawn_by_layout(found_slice),
        }
        keys = [f"{holder.namespace}/{holder.name}" for holder in found_slice.holders]
        records = self._model.pods
        values["containers"] = {
            key: details.containers_of(found_slice, records.get(key)) for key in keys
        }
        live = "GPU GPUFault Node Pod Holder Connection"
        return self._frame.page(request, "slice.html", uuid, live, **values)

    async def show_pod(self, request: Request) -> Response:
        """Show one pod: the slices that it holds, its HCA, its events."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        key = f"{namespace}/{name}"
        held_slices = details.slices_of(self._model.world(), namespace, name)
        record = self._model.pods.get(key)
        if not held_slices and record is None:
            subject = f"pod {key} with a slice, an HCA or a request for one"
            unknown = (*needs.GPU, *needs.PENDING)
            return self._frame.not_found(request, subject, unknown, "Pod", key)
        values: dict[str, Any] = {
            "namespace": namespace,
            "name": name,
            "held": held_slices,
            "sick": impact.sick_slices(self._model.world(), held_slices),
            "record": record,
            "explicable": record is not None and why.is_explicable(self._model.world(), record),
            "line": pods.describe_pod(self._model, namespace, name),
            "missing": self._frame.missing_of(needs.GPU),
        }
        values |= await self._tables.values(lambda pod: pod.key == key)
        events = self._events.entries("Pod", name, namespace)
        return self._frame.page(
            request, "pod.html", key, "GPU GPUFault Pod Holder Event", events=events, **values
        )

    async def show_why(self, request: Request) -> Response:
        """List the pods that wait for devices."""
        space, world = request.query_params.get("namespace", ""), self._model.world()
        every = why.pending_pods(world, self._model.pods.values())
        values = {
            "pods": [pod for pod in every if space in ("", pod.namespace)],
            "spaces": sorted({pod.namespace for pod in every}),
            "starting": why.starting_pods(self._model.pods.values(), space),
            "namespace": space,
            "missing": self._frame.missing_of(needs.PENDING),
        }
        live = "Pod Holder GPUPolicy Connection"
        return self._frame.page(request, "why.html", "Why", live, **values)

    async def show_why_pod(self, request: Request) -> Response:
        """Explain why one pod waits."""
        key = f"{request.path_params['namespace']}/{request.path_params['name']}"
        model = self._model
        pod, world = model.pods.get(key), model.world()
        if pod is None or not why.is_explicable(world, pod):
            return self._frame.not_found(
                request,
                f"pod {key} that waits for a node or for its containers",
                needs.PENDING,
                "Pod",
                key,
            )
        claims, classes = dict(model.claims), dict(model.classes)
        explanation = await self._frame.compute(
            why.explain, self._frame.survey(), pod, claims, classes, model.connection
        )
        live = "Pod Holder GPU Node GPUPolicy MIGLayout ResourceClaim Connection"
        return self._frame.page(request, "why_pod.html", f"Why {key}", live, found=explanation)

    async def show_layout(self, request: Request) -> Response:
        """Show what a pasted MIGLayout would change."""
        text, problem, difference, status = "", "", None, 200
        missing = self._frame.missing_of(needs.LAYOUT)
        if request.method == "POST":
            try:
                text = await read_form(request)
                document = await asyncio.to_thread(manifest.read_layout, text)
                if not missing:
                    difference = await self._frame.compute(
                        layout_diff.diff, self._model.world(), document
                    )
            except manifest.ManifestError as err:
                problem, status = str(err), 422
        else:
            name = request.query_params.get("name", "")
            if name and name not in self._model.world().layouts:
                return self._frame.not_found(
                    request, f"MIGLayout {name}", needs.LAYOUT, "MIGLayout", name
                )
            text = _initial_layout(self._model.world(), request.query_params)
        names = sorted(self._model.world().layouts)
        limits = None
        if difference is not None and difference.evicts and difference.pods:
            limits = await read_budgets(self._lister, difference.pods)
        values: dict[str, Any] = {
            "text": text,
            "problem": problem,
            "diff": difference,
            "limits": limits,
        }
        values |= await self._rollouts.values()
        values |= {"layouts": names, "missing": missing if request.method == "POST" else {}}
        return self._frame.page(request, "layout.html", "Layout", "", status, **values)

    async def refuse_query(self, request: Request, err: Exception) -> Response:
        """Name what is wrong with a query, and what is known."""
        problem = str(err)
        return self._frame.page(
            request, "notices/bad_query.html", "Not a valid query", "", 400, problem=problem
        )

    async def refuse_path(self, request: Request, err: Exception) -> Response:
        """Report that the console has no such page, with the menu of those that it has."""
        del err
        path = request.url.path
        return self._frame.page(request, "notices/no_page.html", "No page", "", 404, unknown=path)

    async def follow_changes(self, request: Request) -> Response:
        """Report changes of the model until the viewer disconnects."""
        version_text = request.headers.get("last-event-id") or request.query_params.get("after", "")
        events = stream.follow(self._model, queries.number(version_text) or 0, lambda: self.is_over)
        return StreamingResponse(events, media_type="text/event-stream")

    def _silence_of(self, gpu: Gpu) -> str:
        node = self._model.world().nodes.get(gpu.spec.node_name)
        return fleet.silence_of(node, self._knows_nodes())

    def _knows_nodes(self) -> bool:
        return not self._frame.missing_of(("Node",))

    def _known(self) -> tuple[bool, bool]:
        """Return whether nodes and whether GPUFaults are known."""
        return self._knows_nodes(), not self._frame.missing_of(needs.FAULTS)


def _initial_layout(world: World, query: QueryParams) -> str:
    """Return the layout that a link names: one of the cluster, or a draft; empty if neither."""
    layout = world.layouts.get(query.get("name", ""))
    if layout is not None:
        return layout_diff.write_layout(layout)
    profile, node = query.get("profile", "")[:63], query.get("node", "")[:253]
    if not profile or not node:
        return ""
    indices = [queries.number(index_text) or 0 for index_text in query.getlist("index")[:64]]
    return layout_diff.draft_layout(
        node, indices, profile, max(queries.number(query.get("count", "")) or 0, 1)
    )


def make_app(pages: Pages, token: str, host: str, port: int | None) -> Access:
    """Return the application behind its access control."""
    handlers = {Busy: answer_busy, BadQuery: pages.refuse_query, 404: pages.refuse_path}
    app = Starlette(routes=pages.routes(), exception_handlers=handlers)
    app.router.redirect_slashes = False  # the path may be a name that others chose
    return Access(app, token, host, port)


async def _send_style(request: Request) -> Response:
    """Send the style of drawings, which the console shares with files."""
    del request
    return FileResponse(documents.STYLE_FILE, media_type="text/css")


def _filter(request: Request) -> fleet.Filter:
    query = request.query_params
    return fleet.Filter(
        pool=query.get("pool", ""),
        namespace=query.get("namespace", ""),
        board=query.get("board", ""),
        node=query.get("node", ""),
        labels=query.get("labels", ""),
        colour=query.get("colour", "state"),
    )
