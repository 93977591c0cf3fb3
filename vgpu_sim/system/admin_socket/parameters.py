"""Strict reading of a request's parameters."""

from typing import Any

from vgpu_sim.system.admin_socket.errors import InvalidRequest


def fields(params: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    """Return the parameters when just these are there, of these types.

    Raises:
        InvalidRequest: otherwise.
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
