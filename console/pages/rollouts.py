"""The pages about rollouts of layouts."""

import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from console.pages.frame import Frame
from console.views import needs, rollout
from console.views.rollout import LayoutRollout, Phase
from console.views.timeline import Entry
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World

SHOWN: Final = 40  # layouts
_LIVE: Final = "GPU Node GPUPool MIGLayout GPUPolicy Connection"
_LONGEST_TEXT: Final = 253


class RolloutPages:
    """The handlers of these pages; rollouts are computed once for each state of the cluster."""

    def __init__(self, frame: Frame, entries: Callable[[str, str], Sequence[Entry]]) -> None:
        """Initialize; ``entries`` returns the events about an object of a kind and name."""
        self._frame = frame
        self._entries = entries
        self._world: World | None = None
        self._found: tuple[LayoutRollout, ...] = ()

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {"/rollout": self.show_rollouts, "/rollout/{name}": self.show_rollout}

    async def find(self) -> tuple[LayoutRollout, ...]:
        """Return the rollouts of all layouts; none while kinds are missing."""
        if self._frame.missing_of(needs.LAYOUT):
            return ()
        world = self._frame.model.world()
        if world is not self._world:
            self._found = await self._frame.compute(rollout.find_rollouts, world)
            self._world = world
        return self._found

    async def values(self) -> dict[str, Any]:
        """Return what the page of layout diffs shows of rollouts."""
        return {"rollouts": (await self.find())[:SHOWN], "now": _now()}

    async def values_of(self, gpu: Gpu) -> dict[str, Any]:
        """Return what the page of a GPU shows of its layout's rollout; nothing while kinds are
        missing.
        """
        missing = self._frame.missing_of(needs.LAYOUT)
        gpu_rollout = None if missing else rollout.find_rollout(self._frame.model.world(), gpu)
        if (
            gpu_rollout is not None
            and gpu_rollout.phase is Phase.PENDING
            and not gpu_rollout.message
        ):
            gpu_rollout = rollout.find_explained(await self.find(), gpu_rollout)
        return {"rollout": gpu_rollout, "now": _now()}

    async def show_rollouts(self, request: Request) -> Response:
        """List the layouts with the progress of their rollouts."""
        text = request.query_params.get("layout", "")[:_LONGEST_TEXT]
        rollouts = [
            layout_rollout
            for layout_rollout in await self.find()
            if text in layout_rollout.layout.name
        ]
        values = {"rollouts": rollouts[:SHOWN], "more": max(len(rollouts) - SHOWN, 0), "text": text}
        values |= {"now": _now(), "missing": self._frame.missing_of(needs.LAYOUT)}
        return self._frame.page(request, "rollouts.html", "Rollout", _LIVE, **values)

    async def show_rollout(self, request: Request) -> Response:
        """Show one layout's rollout with every GPU that is not done."""
        name = request.path_params["name"]
        layout_rollout = next(
            (
                listed_rollout
                for listed_rollout in await self.find()
                if listed_rollout.layout.name == name
            ),
            None,
        )
        if layout_rollout is None:
            return self._frame.not_found(
                request, f"MIGLayout {name}", needs.LAYOUT, "MIGLayout", name
            )
        values = {"one": layout_rollout, "now": _now(), "events": self._entries("MIGLayout", name)}
        return self._frame.page(request, "rollout.html", f"Rollout of {name}", _LIVE, **values)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
