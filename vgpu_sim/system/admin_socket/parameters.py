"""Strict validation of a request's parameters."""

from typing import Any

from vgpu_sim.system.admin_socket.errors import InvalidRequest


def fields(params: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    """Return a request's parameters after checking that exactly these are present and have these
    types.

    Raises:
        InvalidRequest: a parameter is missing, unknown or of another type.
    """
    missing, unknown = set(kinds) - set(params), set(params) - set(kinds)
    if missing or unknown:
        raise InvalidRequest(
            f"parameters {sorted(kinds)}: missing {sorted(missing)}, unknown {sorted(unknown)}"
        )
    for name, value in params.items():
        if type(value) is not kinds[name]:
            raise InvalidRequest(f"{name} is not {kinds[name].__name__}")
    return params
