"""Serves the page of one `tessera run` on loopback. `tessera run` loads this module by its name."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette

from console import serving
from console.model.cluster import ClusterModel
from console.pages.access import Access
from console.pages.frame import Busy, answer_busy
from console.pages.run import KIND, RunPages, View

_PAUSE_S: Final = 1.0


def serve(read: Callable[[], View | None], title: str, on_ready: Callable[[str], None]) -> None:
    """Serve until ``read``, which is called once a second in a thread, returns None.

    ``on_ready`` receives the URL, which has the token that every request needs.

    Raises:
        OSError: no port is free.
    """
    asyncio.run(_serve(read, title, on_ready))


async def _serve(
    read: Callable[[], View | None], title: str, on_ready: Callable[[str], None]
) -> None:
    model = ClusterModel()
    pages = RunPages(model, title)
    app = Starlette(routes=pages.routes(), exception_handlers={Busy: answer_busy})
    app.router.redirect_slashes = False
    listeners = serving.listen(0)
    port, host, token = listeners[0].getsockname()[1], serving.new_host(), serving.new_token()
    server = serving.Server(Access(app, token, host, port))
    task = asyncio.create_task(server.serve(sockets=listeners))
    on_ready(f"http://{host}:{port}/?token={token}")
    try:
        while (view := await asyncio.to_thread(read)) is not None:
            if view != pages.view:
                pages.view = view
                model.note(KIND)
            await asyncio.sleep(_PAUSE_S)
    finally:
        pages.is_over = True
        model.note(KIND)
        server.should_exit = True
        await asyncio.wait({task}, timeout=2)
        for listener in listeners:
            listener.close()
