"""Reads from a pod's port through the API server's proxy, with the caller's rights.

The API server evaluates the right ``get`` on ``pods/proxy``. The pod may be hostile: the answer has
a bound, nothing of it is interpreted here, and no redirection is followed: it could lead to any
other path of the API server, with the caller's rights, or to another server.
"""

from types import SimpleNamespace
from typing import Final
from urllib.parse import quote

from aiohttp import ClientSession, TraceConfig, TraceRequestRedirectParams
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

from gpu_operator import errors

_PROXIED: Final = "/proxy/"
_TIMEOUT_S: Final = 5.0
_CHUNK: Final = 64 * 1024
_LONGEST_ERROR: Final = 4096


def refuse_redirections(client: ApiClient) -> None:
    """Have a client that has not connected yet follow no redirection of a pod.

    The client library has no option for it.
    """
    trace = TraceConfig()
    trace.on_request_redirect.append(_refuse_redirection)
    trace_configs = getattr(client.configuration, "trace_configs", None) or ()
    client.configuration.trace_configs = [*trace_configs, trace]


async def _refuse_redirection(
    session: ClientSession, context: SimpleNamespace, request: TraceRequestRedirectParams
) -> None:
    del session, context
    if _PROXIED in request.url.raw_path:
        raise errors.Refused("the pod redirects the request, which is not followed")


async def read_port(
    client: ApiClient, namespace: str, pod: str, port: int, path: str, most_bytes: int
) -> bytes:
    """Return what a pod answers to GET on one of its ports.

    Raises:
        ApiException: the API server or the pod refuses.
        Refused: the answer has more than ``most_bytes``.
    """
    names = f"{quote(namespace, safe='')}/pods/{quote(pod, safe='')}:{port}"
    request = await client.param_serialize(
        "GET",
        f"/api/v1/namespaces/{names}/proxy/{path.lstrip('/')}",
        header_params={"Accept": "text/plain"},
        auth_settings=["BearerToken"],
    )
    answer = await client.call_api(*request, _request_timeout=_TIMEOUT_S, _preload_content=False)
    body = bytearray()
    try:
        while chunk := await answer.response.content.read(_CHUNK):
            body += chunk
            if answer.status >= 400 and len(body) > _LONGEST_ERROR:
                break
            if len(body) > most_bytes:
                raise errors.Refused(f"the answer has more than {most_bytes} bytes")
    finally:
        answer.response.close()
    if answer.status != 200:
        failure = ApiException(status=answer.status, reason=answer.reason)
        failure.body = body.decode(errors="replace")
        raise failure
    return bytes(body)
