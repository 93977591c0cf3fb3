"""The RDMA pages: the matrix of verbs, explanations, what a pasted policy would change."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from console.pages import queries
from console.pages.forms import LONGEST_NAME, read_form
from console.pages.frame import Frame
from console.pages.rendering import shorten
from console.views import needs, reach, what_if
from console.views.manifest import ManifestError
from console.views.operation import enforcement, memory_access
from rdma.enforcement import lacking, verdict_of, write_lines
from rdma.explain import Explanation, QuestionError

_LIVE: Final = "Pod Namespace RDMANetwork RDMANetworkPolicy Connection"


class RdmaPages:
    """The handlers of these pages."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._model = frame.model

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {"/rdma": self.show_matrix, "/rdma/explain": self.show_pair}

    def forms(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers that take forms, by path."""
        return {"/rdma/what-if": self.show_what_if}

    async def show_matrix(self, request: Request) -> Response:
        """Show which pods may use which verbs on which others."""
        space = request.query_params.get("namespace", "")
        first = queries.number(request.query_params.get("first", "")) or 0
        missing = self._frame.missing_of(needs.RDMA)
        matrix = reach.matrix(self._model.fabric, space, first) if not missing else reach.EMPTY
        values = {"matrix": matrix, "namespace": space, "first": first, "letters": reach.LEGEND}
        values["missing"] = missing
        problems = [p for p in self._model.fabric.policies.values() if p.problem]
        names = sorted(self._model.fabric.policies)
        values["late"] = lacking(enforcement.find_enforcement(self._model.fabric, names))
        values["layers"] = enforcement.find_second_layers(self._model.fabric, names)
        return self._frame.page(request, "rdma.html", "RDMA", _LIVE, broken=problems, **values)

    async def show_pair(self, request: Request) -> Response:
        """Explain the verdict about each verb from one pod to another."""
        source = request.query_params.get("from", "")
        destination = request.query_params.get("to", "")
        problem = ""
        explanations: tuple[Explanation, ...] = ()
        missing = self._frame.missing_of(needs.RDMA)
        try:
            if not missing:
                explanations = tuple(reach.explain_pair(self._model.fabric, source, destination))
        except QuestionError as err:
            problem = str(err)
        values: dict[str, Any] = {"source": source, "destination": destination}
        values["missing"] = missing
        fabric = self._model.fabric
        values["policies"] = enforcement.states_behind(fabric, *explanations)
        names = [policy.name for policy in values["policies"]]
        values["layers"] = enforcement.find_second_layers(fabric, names)
        values["removed"] = memory_access.removed_by(fabric, names)
        values["states_of"] = partial(enforcement.states_behind, fabric)
        values |= {"verdict_of": verdict_of, "write_lines": write_lines}
        title = f"{shorten(source, 36)} → {shorten(destination, 36)}: RDMA"
        return self._frame.page(
            request, "rdma_pair.html", title, _LIVE, found=explanations, problem=problem, **values
        )

    async def show_what_if(self, request: Request) -> Response:
        """Show what pasted RDMA policies and networks would change.

        A link can name a policy or a network of the cluster, to be edited.
        """
        text, problem, outcome, status = "", "", None, 200
        query, fabric = request.query_params, self._model.fabric
        space = query.get("namespace", "")[:LONGEST_NAME]
        first = queries.number(query.get("first", "")) or 0
        missing = self._frame.missing_of(needs.RDMA)
        if request.method == "POST":
            try:
                text = await read_form(request)
                fabric_copy = fabric.copy()
                proposal = await asyncio.to_thread(what_if.read, text, fabric_copy)
                if not missing:
                    outcome = await self._frame.predict(
                        what_if.evaluate, fabric_copy, proposal, space, first
                    )
            except ManifestError as err:
                problem, status = str(err), 422
        elif chosen := query.get("object", ""):
            text = what_if.write_object(fabric, chosen)
            if not text:
                return self._frame.not_found(request, chosen, needs.RDMA)
        values: dict[str, Any] = {"text": text, "problem": problem, "found": outcome}
        values |= {"namespace": space, "first": first, "objects": what_if.list_objects(fabric)}
        values["missing"] = missing
        return self._frame.page(request, "what_if.html", "RDMA what-if", "", status, **values)
