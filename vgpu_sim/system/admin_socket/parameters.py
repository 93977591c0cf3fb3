"""Strict validation of a request's parameters."""

from typing import Any

from vgpu_sim.system.admin_socket.errors import InvalidRequest


def fields(params: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    """Check a request's parameters and return them. ``kinds`` maps the name of each required
    parameter to its type; no others are allowed.

    Raises:
        InvalidRequest: a parameter is missing, unknown or of another type.
    """
    missing, unknown = set(kinds) - set(params), set(params) - set(kinds)
    if missing or unknown:
        raise InvalidRequest(
            f"the parameters must be {sorted(kinds)}: missing {sorted(missing)},"
            f" unknown {sorted(unknown)}"
        )
    for name, value in params.items():
        if type(value) is not kinds[name]:
            raise InvalidRequest(f"{name!r} is not of type {kinds[name].__name__}")
    return params
