"""The lists of pods and slices, with a search."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from console.pages.forms import LONGEST_NAME
from console.pages.frame import Frame
from console.pages.queries import BadQuery
from console.views import needs, places, pods, room
from console.views.waiting import why

_LIVE: Final = "GPU Pod Holder Connection"


class ListPages:
    """The handlers of these pages."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {"/pods": self.show_pods, "/slices": self.show_slices}

    async def show_pods(self, request: Request) -> Response:
        """List the pods that hold or request devices."""
        text, space = _search(request)
        model = self._frame.model
        rows, hidden_count = await self._frame.compute(
            pods.list_pods, model, frozenset(model.pods), space, text.strip()
        )
        world = model.world()
        explicable_keys = {
            row.record.key for row in rows if row.record and why.is_explicable(world, row.record)
        }
        values = {"rows": rows, "more": hidden_count, "text": text, "namespace": space}
        values |= {"explicable": explicable_keys}
        values["missing"] = self._frame.missing_of(needs.INFERENCE)
        return self._frame.page(request, "lists/pods.html", "Pods", _LIVE, **values)

    async def show_slices(self, request: Request) -> Response:
        """List the slices that match a search."""
        text, space = _search(request)
        world = self._frame.model.world()
        profile = request.query_params.get("profile", "")[:LONGEST_NAME].strip()
        slices, hidden_count = await self._frame.compute(
            places.find_slices, world, text, space, profile
        )
        values = {"slices": slices, "more": hidden_count, "text": text, "namespace": space}
        values |= {"profile": profile, "room": None}
        if profile:
            found_room = await self._frame.compute(room.find_room, self._frame.survey(), profile)
            if found_room.known:
                known_profiles = ", ".join(found_room.known)
                raise BadQuery(
                    f"profile: “{profile}” is not valid; no board of the cluster has it: known are:"
                    f" {known_profiles}"
                )
            values["room"] = found_room
        values["missing"] = self._frame.missing_of(needs.GPU)
        return self._frame.page(request, "lists/slices.html", "Slices", _LIVE, **values)


def _search(request: Request) -> tuple[str, str]:
    query = request.query_params
    return query.get("text", "")[:LONGEST_NAME], query.get("namespace", "")[:LONGEST_NAME]
