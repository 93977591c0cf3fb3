"""Writes to the API server over connections that stay open: creates, replaces and deletes objects.

For the reason of ``api_reader``: each kubectl takes CPU time to load itself and to authenticate.
"""

import json
import time
from typing import Any, NamedTuple

from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ResourceNotFoundError
from kubernetes.dynamic.resource import Resource

from support.cluster.api_reader import TIMEOUT_S, find_resource, open_client

Object = dict[str, Any]
_CONFLICTS = 300  # a pod takes some time to end
_GONE_S = 240.0
_EVERY_S = 0.2
_CONFLICT, _ABSENT = 409, 404


class RefusedError(Exception):
    """The API server refused a request; the text is its message."""


class Chosen(NamedTuple):
    """The arguments of one ``kubectl delete`` that this writer understands."""

    kinds: tuple[str, ...]
    names: tuple[str, ...]
    """The names; empty: all objects of these kinds."""
    namespace: str


def parse_deletion(namespace: str, arguments: tuple[str, ...]) -> Chosen | None:
    """Parse the arguments of ``kubectl delete``; None if this writer does not know one of them."""
    named: list[str] = []
    all_of_them = False
    words = iter(arguments)
    for word in words:
        if word == "--all":
            all_of_them = True
        elif word in ("-n", "--namespace"):
            namespace = next(words, "")
        elif word.startswith("-") or "/" in word:
            return None
        else:
            named.append(word)
    if not named or "." in named[0] or bool(named[1:]) == all_of_them:
        return None  # a kind with its group, for example
    return Chosen(tuple(named[0].split(",")), tuple(named[1:]), namespace)


def _call(method: str, path: str, body: Any = None, **query: str) -> Object:
    answer = open_client().request(
        method,
        path,
        body=body,
        query_params=list(query.items()),
        serialize=False,
        _request_timeout=TIMEOUT_S,
    )
    found: Object = json.loads(answer.data)
    return found


def _message(error: ApiException) -> str:
    """Return the message of the API server's Status."""
    try:
        return str(json.loads(error.body)["message"])
    except (KeyError, TypeError, ValueError):
        return str(error)


def _path(resource: Resource, namespace: str, name: str | None = None) -> str:
    return str(resource.path(name=name, namespace=namespace if resource.namespaced else None))


def _resource_of(manifest: Object) -> Resource:
    found: Resource = open_client().resources.get(
        api_version=manifest["apiVersion"], kind=manifest["kind"]
    )
    return found


def apply(namespace: str, manifest: Object) -> None:
    """Create an object; one that exists keeps its metadata and status, and gets all other fields
    of the manifest in place of its own.

    Raises RefusedError if the API server refuses the object.
    """
    try:
        resource = _resource_of(manifest)
    except ResourceNotFoundError as error:
        raise RefusedError(str(error)) from error
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", namespace)
    strict = {"fieldValidation": "Strict"}
    for _ in range(_CONFLICTS):
        try:
            _call("post", _path(resource, namespace), manifest, **strict)
            return
        except ApiException as error:
            if error.status != _CONFLICT:
                raise RefusedError(_message(error)) from error
        try:
            path = _path(resource, namespace, metadata["name"])
            found = _call("get", path)
            if manifest["kind"] == "Pod" and found["metadata"].get("deletionTimestamp"):
                time.sleep(_EVERY_S)  # until the earlier pod has ended
                continue
            # A pod refuses to lose the defaults that it got when it was created: if the answer to
            # that request was lost, nothing is left to do.
            if manifest["kind"] != "Pod" or not _contains(found, manifest):
                _call("put", path, _replacement(found, manifest), **strict)
            return
        except ApiException as error:  # it was changed or deleted between the requests
            if error.status not in (_CONFLICT, _ABSENT):
                raise RefusedError(_message(error)) from error
            time.sleep(_EVERY_S)
    raise RefusedError(f"{manifest['kind']} {metadata['name']} changes constantly")


def _contains(found: Any, part: Any) -> bool:
    """Return whether an object has all that a manifest states; the API server adds to both maps
    and the ends of lists, and writes quantities as text.
    """
    if isinstance(part, dict) and isinstance(found, dict):
        return all(key in found and _contains(found[key], one) for key, one in part.items())
    if isinstance(part, list) and isinstance(found, list):
        return len(found) >= len(part) and all(map(_contains, found, part))
    return str(found) == str(part)


def _replacement(found: Object, manifest: Object) -> Object:
    kept = {field: found[field] for field in ("metadata", "status") if field in found}
    replaced = {**manifest, **kept}
    for field in ("labels", "annotations"):
        added = manifest["metadata"].get(field)
        if added:
            replaced["metadata"][field] = {**replaced["metadata"].get(field, {}), **added}
    return replaced


def delete(chosen: Chosen) -> None:
    """Delete objects, and return once they are gone; absent ones are ignored.

    Raises RefusedError if the API server refuses that, and TimeoutError if they do not go.
    """
    left: dict[str, str] = {}
    for kind in chosen.kinds:
        resource = find_resource(kind)
        names = chosen.names
        if not names:
            listed = _call("get", _path(resource, chosen.namespace))["items"]
            names = tuple(one["metadata"]["name"] for one in listed)
        for name in names:
            path = _path(resource, chosen.namespace, name)
            if uid := _delete_one(path):
                left[path] = uid
    end = time.monotonic() + _GONE_S
    while left := {path: uid for path, uid in left.items() if _uid(path) == uid}:
        if time.monotonic() > end:
            raise TimeoutError(f"not gone in {_GONE_S} s: {', '.join(left)}")
        time.sleep(_EVERY_S)


def _delete_one(path: str) -> str:
    """Delete an object; return its UID, or an empty string if it was absent."""
    uid = _uid(path)
    try:
        if uid:
            _call("delete", path, propagationPolicy="Background")
    except ApiException as error:
        if error.status == _ABSENT:
            return ""
        raise RefusedError(_message(error)) from error
    return uid


def _uid(path: str) -> str:
    """Return the UID of the object at a path; an empty string if there is none."""
    try:
        return str(_call("get", path)["metadata"]["uid"])
    except ApiException as error:
        if error.status == _ABSENT:
            return ""
        raise RefusedError(_message(error)) from error
