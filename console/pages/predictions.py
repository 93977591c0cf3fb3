"""The performance pages: predictions for real boards, requested by forms."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from console.pages.frame import Frame
from console.views import performance
from vgpu_sim.perf.boards import BOARDS


class PredictionPages:
    """The handlers of the performance pages, which depend on no cluster."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handlers by path."""
        return {"/performance": self.show, "/performance/{operation}": self.show}

    async def show(self, request: Request) -> Response:
        """Show an operation's form, and the prediction that the form requests."""
        name = request.path_params.get("operation", "gemm")
        operation = performance.OPERATIONS.get(name)
        if operation is None:
            return self._frame.not_found(request, f"operation {name[:40]}", ())
        query = request.query_params
        form = {key: value[:64] for key, value in query.items()}
        status, problem, answer = 200, "", None
        boards = query.getlist("board")[:64]
        try:
            chosen = performance.read_boards(boards)
            values = performance.read_values(operation, form)
            if query:
                answer = await self._frame.predict(performance.answer, name, chosen, values)
                problem = answer.problem
                status = 422 if problem else 200
        except performance.FormError as err:
            chosen, problem, status = tuple(boards), str(err), 422
        fields = [(field, form.get(field.name, field.default)) for field in operation.fields]
        page_values = {
            "operation": operation,
            "operations": performance.OPERATIONS.values(),
            "fields": fields,
            "boards": BOARDS,
            "chosen": chosen,
            "found": answer,
            "problem": problem,
            "most_boards": performance.MOST_BOARDS,
        }
        return self._frame.page(
            request, "performance.html", operation.title, "", status, **page_values
        )
