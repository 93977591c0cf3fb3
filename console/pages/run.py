"""The page of one `tessera run`: its GPUs, contexts, kernels and the causes of their times."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from console.model.cluster import ClusterModel
from console.pages import rendering, stream
from console.pages.frame import STATE, Frame
from console.pages.predictions import PredictionPages
from drawing import documents

KIND = "Run"  # the kind of the changes that the model reports
MENU = (("/", "Run"), ("/performance", "Performance"))
View = Mapping[str, Any]


class RunPages:
    """The handlers of a run's pages. ``view`` is what the run has reported last."""

    def __init__(self, model: ClusterModel, title: str) -> None:
        self._model = model
        self._frame = Frame(model, title, MENU)
        self._predictions = PredictionPages(self._frame)
        self.view: View | None = None
        self.is_over = False

    def routes(self) -> list[Route | Mount]:
        """Return the routes of the application."""
        pages = {
            "/": self.show,
            "/stream": self.follow,
            STATE: self._frame.show_state,
            **self._predictions.handlers(),
        }
        style = Route("/static/drawing.css", self.send_style)
        static = Mount("/static", StaticFiles(directory=rendering.STATIC))
        return [*(Route(path, page) for path, page in pages.items()), style, static]

    async def show(self, request: Request) -> Response:
        """Show the run as it is now."""
        return self._frame.page(request, "run.html", "Run", KIND, view=self.view)

    async def follow(self, request: Request) -> Response:
        """Report changes until the viewer disconnects."""
        version_text = request.query_params.get("after", "")
        version = (
            int(version_text)
            if version_text.isascii() and version_text.isdecimal() and len(version_text) < 16
            else 0
        )
        events = stream.follow(self._model, version, lambda: self.is_over)
        return StreamingResponse(events, media_type="text/event-stream")

    async def send_style(self, request: Request) -> Response:
        """Send the style of drawings."""
        del request
        return FileResponse(documents.STYLE_FILE, media_type="text/css")
