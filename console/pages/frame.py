"""What all pages have in common: the frame, what is missing, and long computations."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from console.model.cluster import ClusterModel, Missing
from console.model.departures import SLICE
from console.model.event_log import OPERATOR_SPACE
from console.model.parts import PART
from console.pages import rendering
from console.views import links, pods
from console.views.operation import outages
from console.views.waiting.survey import Survey

MENU: Final = (
    ("/", "Fleet"),
    ("/slices", "Slices"),
    ("/pods", "Pods"),
    ("/why", "Why"),
    ("/layout", "Layout diff"),
    ("/rollout", "Rollout"),
    ("/rdma", "RDMA"),
    ("/topology", "Topology"),
    ("/metrics", "Metrics"),
    ("/performance", "Performance"),
    ("/events", "Events"),
)
_FLEET: Final = ("/", "Fleet")
# The list on which an object would be, by its kind.
_LISTS: Final = {
    "Pod": ("/pods", "all pods"),
    SLICE: ("/slices", "all slices"),
    "MIGLayout": ("/rollout", "all layouts"),
    "GPUFault": ("/faults", "all faults"),
}
AGAIN_S: Final = 5  # between two loads of a page with figures that are read on request
STATE: Final = "/parts/state"  # the notes that every page has, without a page
_PART: Final = "x-part"  # header with which the script requests a page without its frame
_MOST_WAITING: Final = 8  # predictions that wait for another
_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class Busy(Exception):
    """Too many requests wait for a prediction."""


async def answer_busy(request: Request, err: Exception) -> Response:
    """Refuse a prediction while others wait for one."""
    del request, err
    text = "the console computes answers for other requests: try again in some seconds"
    return PlainTextResponse(text, 503, {"retry-after": "2"})


class Frame:
    """Renders pages of one model."""

    def __init__(
        self, model: ClusterModel, cluster: str, menu: Sequence[tuple[str, str]] = MENU
    ) -> None:
        """Initialize; ``cluster`` is the name that the pages show for the cluster, and ``menu`` has
        the addresses and names of the pages at its head.
        """
        self.model = model
        self.templates = rendering.environment()
        self._cluster = cluster
        self._menu = menu
        self._computing = asyncio.Lock()
        self._predicting = asyncio.Lock()
        self._waiting = 0
        self._survey = Survey(model.world(), model.taints())

    async def compute(
        self, function: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Result:
        """Run a long computation in a thread, one at a time, so that others are answered."""
        async with self._computing:
            return await asyncio.to_thread(function, *args, **kwargs)

    async def predict(
        self, function: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Result:
        """Run a computation that depends on a form alone, beside those of ``compute``.

        Raises:
            Busy: eight requests wait for such a computation already.
        """
        if self._waiting >= _MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            async with self._predicting:
                return await asyncio.to_thread(function, *args, **kwargs)
        finally:
            self._waiting -= 1

    def survey(self) -> Survey:
        """Return what explanations share; the same object until the world or a taint changes."""
        world, taints = self.model.world(), self.model.taints()
        if self._survey.world is not world or self._survey.taints is not taints:
            self._survey = Survey(world, taints)
        return self._survey

    def missing_of(self, kinds: Iterable[str]) -> Missing:
        """Return those of some kinds that are not known."""
        return self.model.connection.missing(kinds)

    def unknown_events(self, *, cluster_scoped: bool) -> Missing:
        """Return why events are not known: those about GPUs and nodes are in one namespace."""
        space = self.model.connection.namespace
        if cluster_scoped and space not in ("", OPERATOR_SPACE):
            return {"Event": f"only those of namespace {space} are read"}
        return self.missing_of(("Event",))

    def not_found(
        self, request: Request, subject: str, kinds: Iterable[str], kind: str = "", key: str = ""
    ) -> Response:
        """Report that an object does not exist, unless kinds are not known yet.

        If it is the object ``key`` of ``kind``, the page has the time since when it does not.
        """
        missing = self.missing_of(kinds)
        live = "Connection" if missing else ""
        status = 503 if missing else 404
        values: dict[str, Any] = {"what": subject, "missing": missing}
        values["since"] = self.model.departures.find(kind, key)
        values["lists"] = _LISTS.get(kind, _FLEET)
        return self.page(request, "notices/missing.html", "Not found", live, status, **values)

    async def show_state(self, request: Request) -> Response:
        """Return the notes about outages, for the script of pages that are not loaded again."""
        return self.page(request, "notices/state.html", "State", "")

    def page(
        self,
        request: Request,
        template: str,
        title: str,
        live: str,
        status: int = 200,
        /,
        **values: Any,
    ) -> Response:
        """Render a page; ``live`` are the kinds of objects whose changes it shows.

        With ``again`` among the values, the page is loaded again after this many seconds.
        """
        text = rendering.render(
            self.templates,
            template,
            title=title,
            live=f"{live} {PART}" if live else "",
            outages=outages.find_outages(self.model),
            version=self.model.version,
            cluster=self._cluster,
            menu=self._menu,
            connection=self.model.connection,
            unknown_events=self.unknown_events(cluster_scoped=template != "pod.html"),
            path=request.url.path,
            query=request.url.query,
            frame=_PART not in request.headers,
            page_of=partial(links.find_page, self.model),
            pod_of=partial(pods.describe_pod, self.model),
            split_names=partial(pods.split_names, self.model),
            **{"again": 0, **values},
        )
        return HTMLResponse(text, status)
