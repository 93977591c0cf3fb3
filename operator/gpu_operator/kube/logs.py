"""Reads the logs of containers; the operator itself needs none."""

from urllib.parse import quote

from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

from gpu_operator.kube.connection import translate_errors

_TIMEOUT_S = 20.0
_MAX_BYTES = 4 << 20


class PodLogs:
    """Reads logs through a client that another object closes."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(
        self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False
    ) -> str:
        """Return the last lines of a container's log, or of its previous run's; at most 4 MiB.

        Raises:
            KubeError: the pod or the previous run does not exist, or the user may not read it.
        """
        query = [("container", container), ("tailLines", str(lines)), ("timestamps", "true")]
        query.append(("limitBytes", str(_MAX_BYTES)))
        if previous:
            query.append(("previous", "true"))
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        with translate_errors(f"log of {namespace}/{pod}"):
            request = await self._client.param_serialize(
                "GET", path, query_params=query, auth_settings=["BearerToken"]
            )
            answer = await self._client.call_api(*request, _request_timeout=_TIMEOUT_S)
            content: bytes = await answer.read()
            if answer.status != 200:
                refusal = ApiException(status=answer.status, reason=answer.reason)
                refusal.body = content
                raise refusal
        return content.decode("utf-8", "replace")
