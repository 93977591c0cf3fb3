"""A narrow client: GPU objects of one node, their status, events, pods by their names."""

import contextlib
import datetime
import hashlib
import json
import logging
from collections.abc import Iterator
from typing import Any

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.dynamic.client import DynamicClient
from kubernetes.dynamic.resource import Resource
from kubernetes.watch import Watch

from device_plugin.errors import ClusterError
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.gpu_object import GpuObject, read
from device_plugin.kube.pod_facts import PodFacts, read as pod_facts
from gpu_operator.api.v1alpha1 import API_VERSION, GROUP, NODE_LABEL, VERSION
from gpu_operator.api.v1alpha1.gpu import GPUStatus

FIELD_MANAGER = "tessera-node-agent"
_TIMEOUT_S = (5.0, 10.0)  # until there is a connection; between two reads from it
_WATCH_TIMEOUT_S = 240
_PAGE = 500  # objects a list asks for at a time
_STRICT = ("fieldValidation", "Strict")
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn whatever a request fails with into ClusterError."""
    try:
        yield
    except ApiException as err:
        raise ClusterError(f"API server: {err.status} {_message(err)}", err.status) from err
    # The library reads the account's token again every minute, so that may fail at any request;
    # and it takes a watch's lines for what they should be.
    except (urllib3.exceptions.HTTPError, OSError, ConfigException, ValueError, KeyError) as err:
        raise ClusterError(f"API server: {type(err).__name__}: {err}") from err


def _message(err: ApiException) -> str:
    try:
        return str(json.loads(err.body)["message"])
    except (KeyError, TypeError, ValueError):
        return str(err.body or err.reason).strip()[:200]


def connect() -> ApiClient:
    """Return a client for the pod's service account, or for what KUBECONFIG names.

    Raises:
        ClusterError: there is neither.
    """
    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except ConfigException as no_account:
        from kubernetes.config.kube_config import load_kube_config  # large, and not for pods

        try:
            load_kube_config(client_configuration=configuration, persist_config=False)
        except (ConfigException, OSError) as err:
            raise ClusterError(f"no way to the API server: {no_account}; {err}") from err
    configuration.retries = False  # the loop tries again, and says so
    client = ApiClient(configuration)
    client.user_agent = FIELD_MANAGER
    return client


class _NoDiscovery:
    """The resources are known: nothing is asked for, and no file of answers is kept."""

    def __init__(self, client: DynamicClient, cache_file: str | None) -> None:
        del client, cache_file


class Kube:
    """Talks to the API server with the pod's service account. May be used by several threads."""

    def __init__(self, node_name: str, client: ApiClient | None = None) -> None:
        """Use the pod's service account, or ``client``.

        Raises:
            ClusterError: there is neither a service account nor a kubeconfig.
        """
        self._node = node_name
        self._client = DynamicClient(client or connect(), discoverer=_NoDiscovery)
        self._gpus = Resource(
            prefix="apis",
            group=GROUP,
            api_version=VERSION,
            kind="GPU",
            name="gpus",
            client=self._client,
            subresources={"status": {"kind": "GPU", "name": "gpus/status"}},
        )
        self._pods = Resource(
            prefix="api",
            group="",
            api_version="v1",
            kind="Pod",
            name="pods",
            namespaced=True,
            client=self._client,
        )
        self._events = Resource(
            prefix="api",
            group="",
            api_version="v1",
            kind="Event",
            name="events",
            namespaced=True,
            client=self._client,
        )

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return what the API server says of a pod; None if there is none of that name."""
        try:
            found = self._sent(self._client.get, self._pods, name=name, namespace=namespace)
        except ClusterError as err:
            if err.status != 404:
                raise
            return None
        return pod_facts(found)

    def gpus(self) -> list[GpuObject]:
        """Return the GPU objects of this node, by name.

        Raises:
            ClusterError: the API server did not answer. So do all methods of this class.
        """
        found: list[GpuObject] = []
        token = ""
        while True:
            page = self._sent(
                self._client.get,
                self._gpus,
                label_selector=f"{NODE_LABEL}={self._node}",
                limit=_PAGE,
                _continue=token or None,
            )
            found += (read(raw) for raw in page.get("items") or ())
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return sorted(found, key=lambda gpu: gpu.name)

    def changes(self) -> Iterator[None]:
        """Yield once for every change of this node's GPU objects; ends when the watch does.

        Each watch begins with all that there is, so nothing is missed between two of them, and
        none can ask for a state that is too old.
        """
        with cluster_errors():
            for _ in Watch().stream(
                self._gpus.get,
                label_selector=f"{NODE_LABEL}={self._node}",
                timeout_seconds=_WATCH_TIMEOUT_S,
                serialize=False,
                _request_timeout=(_TIMEOUT_S[0], _WATCH_TIMEOUT_S + 10.0),
            ):
                yield None

    def apply_status(self, name: str, status: GPUStatus) -> None:
        """Write a GPU's status by server-side apply; a GPU deleted meanwhile is not an error."""
        document = {
            "apiVersion": API_VERSION,
            "kind": "GPU",
            "metadata": {"name": name},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        try:
            self._written(
                self._client.server_side_apply,
                self._gpus.subresources["status"],
                document,
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
            )
        except ClusterError as err:
            if err.status != 404:
                raise
            _log.info("gpu %s is gone", name)

    def pod_event(self, pod: HolderPod, reason: str, message: str, warning: bool = True) -> None:
        """Put an event on a user's own pod; repeated ones are counted, not multiplied."""
        key = hashlib.blake2s(f"{pod.uid}/{reason}/{message}".encode(), digest_size=8).hexdigest()
        name = f"{pod.name[:180]}.{key}"
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": "tessera", "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._written(self._client.create, self._events, event)
        except ClusterError as err:
            if err.status != 409:
                raise
            self._count_again(name, pod.namespace, now)

    def _count_again(self, name: str, namespace: str, now: str) -> None:
        known = self._sent(self._client.get, self._events, name=name, namespace=namespace)
        self._written(
            self._client.patch,
            self._events,
            {"count": (known.get("count") or 1) + 1, "lastTimestamp": now},
            name=name,
            namespace=namespace,
            content_type="application/merge-patch+json",
        )

    def _written(self, verb: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Send a write; a field that the API server does not know is refused, never dropped."""
        return self._sent(verb, *args, query_params=[_STRICT], **kwargs)

    def _sent(self, verb: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with cluster_errors():
            answer = verb(*args, serialize=False, _request_timeout=_TIMEOUT_S, **kwargs)
            document: dict[str, Any] = json.loads(answer.data)
            return document
