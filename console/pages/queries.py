"""What pages accept in queries. Anything else is answered with status 400 and what is known.

A filter that is not understood must not look like one that matches everything.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from console.views import fleet, labels, timeline, usage

Handler = Callable[[Request], Awaitable[Response]]
LONGEST: Final = 317  # "namespace/name" of a pod
_MOST_DIGITS: Final = 15
_SHOWN: Final = 80  # characters of a wrong value


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query. ``known`` are its values; without them, any text is accepted.

    An empty value is that of a form's field without an entry, and is always accepted.
    """

    known: tuple[str, ...] = ()
    is_number: bool = False
    is_time: bool = False
    repeats: bool = False
    longest: int = LONGEST

    def problem(self, value: str) -> str:
        """Return what is wrong with a value; empty if nothing is."""
        if self.known and value not in ("", *self.known):
            return f"known are: {', '.join(self.known)}"
        if self.is_number and value and number(value) is None:
            return f"a whole number of at most {_MOST_DIGITS} digits is expected"
        if self.is_time and value and timeline.read_time(value) is None:
            return "a time such as 2026-01-31T09:30 or 2026-01-31T09:30:00Z is expected, in UTC"
        if len(value) > self.longest:
            return f"more than {self.longest} characters"
        return ""


TEXT: Final = Parameter()
NUMBER: Final = Parameter(is_number=True)
_TIME: Final = Parameter(is_time=True)
_FLEET: Final = {
    "pool": TEXT,
    "namespace": TEXT,
    "board": TEXT,
    "node": TEXT,
    "labels": Parameter(longest=labels.LONGEST),
    "colour": Parameter(tuple(fleet.COLOURS)),
    "token": TEXT,  # the printed URL, opened again
}
_MATRIX: Final = {"namespace": TEXT, "first": NUMBER}
PAGES: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "/": _FLEET,
    "/parts/nodes": {**_FLEET, "name": Parameter(repeats=True), "detailed": Parameter(("1",))},
    "/why": {"namespace": TEXT},
    "/rdma": _MATRIX,
    "/rdma/traffic": _MATRIX,
    "/rdma/what-if": {**_MATRIX, "object": Parameter(longest=LONGEST + 32)},
    "/rdma/explain": {"from": TEXT, "to": TEXT},
    "/events": {
        "lane": Parameter(timeline.LANES),
        "period": Parameter(tuple(timeline.PERIODS)),
        "since": _TIME,
        "until": _TIME,
        "text": TEXT,
        "all": Parameter(("1",)),
    },
    "/topology": {"node": TEXT},
    "/metrics": {"node": TEXT, "namespace": TEXT, "sort": Parameter(tuple(usage.ORDERS))},
    "/pods": {"text": TEXT, "namespace": TEXT},
    "/slices": {"text": TEXT, "namespace": TEXT, "profile": TEXT},
    "/rollout": {"layout": TEXT},
    "/layout": {
        "name": TEXT,
        "profile": TEXT,
        "node": TEXT,
        "index": Parameter(is_number=True, repeats=True),
        "count": NUMBER,
    },
    "/stream": {"after": NUMBER},
}
"""The parameters of each page, by its route. Other pages have none, except for /performance, whose
form has messages of its own."""


class BadQuery(Exception):
    """A query has a parameter or a value that its page does not know; the message names it."""


def number(text: str) -> int | None:
    """Return a whole number that is not negative; None if the text is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


def check(parameters: Mapping[str, Parameter], request: Request) -> None:
    """Check the query of a request.

    Raises:
        BadQuery: a parameter is unknown or repeated, or has an unknown value.
    """
    query = request.query_params
    for name in query:
        parameter = parameters.get(name)
        if parameter is None:
            hint = f"known are: {', '.join(parameters)}" if parameters else "the page has none"
            raise BadQuery(f"parameter {_quote(name)} is unknown; {hint}")
        values = query.getlist(name)
        if len(values) > 1 and not parameter.repeats:
            raise BadQuery(f"parameter {_quote(name)} is given {len(values)} times")
        for value in values:
            if problem := parameter.problem(value):
                raise BadQuery(f"{name}: {_quote(value)} is not valid; {problem}")


def check_first(route: str, handler: Handler) -> Handler:
    """Return a handler that refuses queries which the page of a route does not know."""
    parameters = PAGES.get(route, {})

    async def handle(request: Request) -> Response:
        check(parameters, request)
        return await handler(request)

    return handle


def _quote(text: str) -> str:
    return f"“{text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}”"
