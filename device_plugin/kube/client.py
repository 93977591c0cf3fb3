"""A minimal client of the API server: GPU objects of one node and their status, events, pods."""

import contextlib
import datetime
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.dynamic.client import DynamicClient
from kubernetes.dynamic.resource import Resource

from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.gpu_object import GpuObject, read
from device_plugin.kube.node_status import NodeStatus, read as read_node
from device_plugin.kube.pod_facts import PodFacts, read as pod_facts
from gpu_operator.api import documents, events
from gpu_operator.api.v1alpha1 import API_VERSION, GROUP, NODE_LABEL, VERSION
from gpu_operator.api.v1alpha1.gpu import GPUStatus

FIELD_MANAGER = "tessera-node-agent"
_TIMEOUT_S = (5.0, 10.0)  # for the connection; between two reads from it
_WATCH_TIMEOUT_S = 300  # at least; the connection has keep-alive, so that its loss is noticed
_PAGE = 500  # objects per page of a list
_STRICT = ("fieldValidation", "Strict")
_log = logging.getLogger(__name__)
_jitter = random.Random()  # private to this module: the shared generator may be seeded


@contextlib.contextmanager
def convert_to_cluster_errors() -> Iterator[None]:
    """Convert every error of a request to ClusterError."""
    try:
        yield
    except ApiException as err:
        raise ClusterError(f"API server: {err.status} {_message(err)}", err.status) from err
    # The library reads the account's token again every minute, so that may fail at any request; and
    # it does not check the lines of a watch.
    except (urllib3.exceptions.HTTPError, OSError, ConfigException, ValueError, KeyError) as err:
        raise ClusterError(f"API server: {type(err).__name__}: {err}") from err


def _message(err: ApiException) -> str:
    try:
        return str(documents.read(err.body)["message"])
    except (KeyError, TypeError, ValueError):
        return str(err.body or err.reason).strip()[:200]


def connect() -> ApiClient:
    """Return a client for the pod's service account, or for the KUBECONFIG file.

    Raises:
        ClusterError: there is neither a service account nor a KUBECONFIG file.
    """
    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except ConfigException as no_account:
        from kubernetes.config.kube_config import (
            load_kube_config,
        )  # the package is large and not needed in pods

        try:
            load_kube_config(client_configuration=configuration, persist_config=False)
        except (ConfigException, OSError) as err:
            raise ClusterError(
                f"cannot configure access to the API server: {no_account}; {err}"
            ) from err
    configuration.retries = False  # the loop logs this and tries again
    client = ApiClient(configuration)
    client.user_agent = FIELD_MANAGER
    return client


class _NoDiscovery:
    """Replaces the client's discovery of resources.

    All resources are known here, so no discovery request is made and no cache file is kept.
    """

    def __init__(self, client: DynamicClient, cache_file: str | None) -> None:
        del client, cache_file


class Kube:
    """Uses the API server with the pod's service account. Several threads may share it."""

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
        self._nodes = Resource(
            prefix="api", group="", api_version="v1", kind="Node", name="nodes", client=self._client
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
        """Return the facts about a pod; None if there is no pod with that name."""
        try:
            document = self._sent(self._client.get, self._pods, name=name, namespace=namespace)
        except ClusterError as err:
            if err.status != 404:
                raise
            return None
        return pod_facts(document)

    def node_status(self) -> NodeStatus:
        """Return the status of this node."""
        return read_node(self._sent(self._client.get, self._nodes, name=self._node))

    def gpus(self) -> list[GpuObject]:
        """Return the GPU objects of this node, by name.

        Raises:
            ClusterError: the API server did not answer. All methods of this class raise this.
        """
        documents, _ = self.list_gpus()
        return sorted(map(read, documents), key=lambda gpu: gpu.name)

    def list_gpus(self) -> tuple[list[dict[str, Any]], str]:
        """Return this node's GPU objects as the API server sent them, and the version of the
        list.
        """
        documents: list[dict[str, Any]] = []
        token = ""
        while True:
            page = self._sent(
                self._client.get,
                self._gpus,
                label_selector=f"{NODE_LABEL}={self._node}",
                limit=_PAGE,
                _continue=token or None,
            )
            documents += page.get("items") or ()
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return documents, str(metadata.get("resourceVersion") or "")

    def watch_gpus(
        self, version: str, accepted: Callable[[], None] = lambda: None
    ) -> Iterator[dict[str, Any]]:
        """Watch for changes of the GPU objects since the version ``version`` of their list.

        Yield events (``type``, ``object``) until the watch ends. ``accepted`` is called when the
        API server has accepted the watch.
        """
        selector = f"{NODE_LABEL}={self._node}"
        return self._watch(self._gpus, _WATCH_TIMEOUT_S, version, accepted, label_selector=selector)

    def apply_status(self, name: str, status: GPUStatus) -> dict[str, Any] | None:
        """Write a GPU's status by server-side apply; return the GPU, or None if it was deleted."""
        document = {
            "apiVersion": API_VERSION,
            "kind": "GPU",
            "metadata": {"name": name},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        try:
            return self._write(
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
            return None

    def pod_event(self, pod: HolderPod, reason: str, message: str, warning: bool = True) -> None:
        """Post an event on a user's pod; a repeated event is counted, not posted again."""
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name}
        self._event({**about, "uid": pod.uid}, pod.namespace, reason, message, warning)

    def gpu_event(self, name: str, uid: str, reason: str, message: str, warning: bool) -> None:
        """Post an event on a GPU object, in namespace ``default``."""
        about = {"apiVersion": API_VERSION, "kind": "GPU", "name": name, "uid": uid}
        self._event(about, "default", reason, message, warning)

    def claim_event(self, claim: ClaimRef, reason: str, message: str) -> None:
        """Post a warning on a ResourceClaim."""
        about = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": claim.name}
        about |= {"namespace": claim.namespace, "uid": claim.uid}
        self._event(about, claim.namespace, reason, message, True)

    def _event(
        self, about: dict[str, str], namespace: str, reason: str, message: str, warning: bool
    ) -> None:
        name = events.event_name(about["name"], f"{about['uid']}/{reason}/{message}")
        timestamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": "tessera", "host": self._node},
            "firstTimestamp": timestamp,
            "lastTimestamp": timestamp,
            "count": 1,
        }
        try:
            self._write(self._client.create, self._events, event)
        except ClusterError as err:
            if err.status != 409:
                raise
            self._count_again(name, namespace, timestamp)

    def _count_again(self, name: str, namespace: str, timestamp: str) -> None:
        existing_event = self._sent(self._client.get, self._events, name=name, namespace=namespace)
        self._write(
            self._client.patch,
            self._events,
            {"count": (existing_event.get("count") or 1) + 1, "lastTimestamp": timestamp},
            name=name,
            namespace=namespace,
            content_type="application/merge-patch+json",
        )

    def _watch(
        self,
        resource: Resource,
        least_s: int,
        version: str,
        accepted: Callable[[], None],
        **selector: str,
    ) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch after ``version``.

        The watch lasts a random time, from ``least_s`` to twice as long, so that not all nodes
        begin a new one at the same moment.
        """
        with convert_to_cluster_errors():
            lasts_s = _jitter.randint(least_s, 2 * least_s)
            answer = self._client.get(
                resource,
                resource_version=version,
                watch="true",
                allow_watch_bookmarks="true",
                timeout_seconds=lasts_s,
                serialize=False,
                _request_timeout=(_TIMEOUT_S[0], lasts_s + 10.0),
                **selector,
            )
            try:
                accepted()
                for line in event_lines(answer):
                    event = documents.read(line)
                    if not isinstance(event, dict):
                        raise ValueError(f"not a watch event: {line[:80]!r}")
                    yield event
            finally:
                answer.close()

    def _write(self, verb: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Send a write; the API server must refuse unknown fields instead of dropping them."""
        return self._sent(verb, *args, query_params=[_STRICT], **kwargs)

    def _sent(self, verb: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with convert_to_cluster_errors():
            answer = verb(*args, serialize=False, _request_timeout=_TIMEOUT_S, **kwargs)
            document: dict[str, Any] = documents.read(answer.data)
            return document


def event_lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the lines of an answer as they arrive; drop an incomplete last line."""
    partial_line = b""
    for chunk in answer.stream(decode_content=True):
        *whole, partial_line = (partial_line + chunk).split(b"\n")
        yield from filter(None, whole)
