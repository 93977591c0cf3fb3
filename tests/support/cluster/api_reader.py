"""Reads of the API server over connections that stay open, for tests that poll.

``kubectl get`` takes about 60 ms of CPU for each call, to load itself and to authenticate anew; the
end-to-end tests read some thousand times. The official client discovers the API once per process.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, new_client_from_config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.resource import Resource
from urllib3.exceptions import HTTPError

from support.cluster.cluster_lock import own_folder

_SELECTORS = {
    "-l": "label_selector",
    "--selector": "label_selector",
    "--field-selector": "field_selector",
}
TIMEOUT_S = 60


class Query(NamedTuple):
    """The arguments of one ``kubectl get`` that this reader understands."""

    kind: str
    name: str = ""
    namespace: str = ""
    """The namespace; empty: all namespaces."""
    selectors: tuple[tuple[str, str], ...] = ()


def parse(namespace: str, arguments: tuple[str, ...]) -> Query | None:
    """Parse the arguments of ``kubectl get``; None if this reader does not know one of them."""
    named: list[str] = []
    selectors = []
    words = iter(arguments)
    for word in words:
        option, _, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _SELECTORS:
            selectors.append((_SELECTORS[option], value or next(words, "")))
        elif word in ("-n", "--namespace"):
            namespace = next(words, "")
        elif word in ("-A", "--all-namespaces"):
            namespace = ""
        elif word.startswith("-"):
            return None
        else:
            named += word.split("/")
    if not 1 <= len(named) <= 2 or any("," in one for one in named) or (named[1:] and selectors):
        return None
    return Query(named[0], named[1] if named[1:] else "", namespace, tuple(selectors))


@functools.cache
def open_client() -> DynamicClient:
    """Return the client of this process, whose connections stay open."""
    # Not in the library's own cache, which outlives a cluster and its CRDs.
    return DynamicClient(new_client_from_config(), cache_file=f"{own_folder().name}/discovery.json")


@functools.cache
def find_resource(word: str) -> Resource:
    """Return the resource with a plural, singular or short name, of the preferred version."""
    found: Iterator[Resource] = (
        one
        for one in open_client().resources.search(preferred=True)
        if isinstance(one, Resource)
        and word in (one.name, one.singular_name, *(one.short_names or ()))
        and "/" not in one.name
    )
    # As in kubectl: the core group precedes others (pods before metrics.k8s.io's).
    return min(found, key=lambda one: (one.group or "") != "")


def read_log(namespace: str, pod: str) -> str | None:
    """Return the output of a pod's only container; None if the request failed.

    The caller then runs kubectl, which also knows a default among several containers.
    """
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    try:
        answer = open_client().request("get", path, serialize=False, _request_timeout=TIMEOUT_S)
    except (ApiException, ConfigException, HTTPError, OSError):
        return None
    return str(answer.data.decode(errors="replace"))


def read(query: Query) -> Any | None:
    """Return an object, or a list of objects as kubectl prints one; None if the request failed.

    The caller then runs kubectl, whose message has the cause.
    """
    try:
        resource = find_resource(query.kind)
        path = resource.path(
            name=query.name or None,
            namespace=(query.namespace or None) if resource.namespaced else None,
        )
        answer = open_client().request(
            "get", path, **dict(query.selectors), serialize=False, _request_timeout=TIMEOUT_S
        )
        found = json.loads(answer.data)
    except (ApiException, ConfigException, HTTPError, OSError, ValueError):
        return None
    for one in found.get("items", [found]):
        one.setdefault("apiVersion", resource.group_version)
        one.setdefault("kind", resource.kind)
        one["metadata"].pop("managedFields", None)
    return found
