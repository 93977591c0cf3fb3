"""Errors of administration requests; ``code`` is the code in the reply.

RequestError         "internal"
├── InvalidRequest   "invalid"    malformed, or names something impossible
├── NotFound         "not_found"  names an object that does not exist
├── Conflict         "conflict"   contradicts what exists
└── InUse            "in_use"     would destroy an object in use
"""


class RequestError(Exception):
    """A refused administration request."""

    code = "internal"


class InvalidRequest(RequestError):
    """A request is malformed, or names something that cannot exist."""

    code = "invalid"


class NotFound(RequestError):
    """A request names an object that does not exist."""

    code = "not_found"


class Conflict(RequestError):
    """A request conflicts with the present state or configuration."""

    code = "conflict"


class InUse(RequestError):
    """A request would destroy an object that is in use."""

    code = "in_use"
