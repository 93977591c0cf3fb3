"""Requests that an administration socket refuses; ``code`` is what the reply carries.

RequestError         "internal"
├── InvalidRequest   "invalid"    malformed, or names what cannot exist
├── NotFound         "not_found"  names an object that does not exist
├── Conflict         "conflict"   contradicts what exists
└── InUse            "in_use"     would destroy what is being used
"""


class RequestError(Exception):
    """A refused administration request."""

    code = "internal"


class InvalidRequest(RequestError):
    """Malformed, or names something that cannot exist."""

    code = "invalid"


class NotFound(RequestError):
    """Names an object that does not exist."""

    code = "not_found"


class Conflict(RequestError):
    """Contradicts what exists."""

    code = "conflict"


class InUse(RequestError):
    """Would destroy what is in use."""

    code = "in_use"
