"""Watches objects: stores each change and enqueues the affected keys.

kopf watches the objects that users write, with ``on.event`` only: it never writes to an object.
For kinds with at least as many objects as nodes, a reflector processes an event in a fraction of
the time and memory.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import kopf

from gpu_operator import kinds
from gpu_operator.engine.store import Store, read
from gpu_operator.kube.port import Chosen, Document, Source
from gpu_operator.kube.reflector import Reflector

Changed = Callable[[str, str], None]  # kind and name of a changed object

_SERVER_TIMEOUT_S = 300  # an integer: the API server refuses 300.0


def make_registry(store: Store, changed: Changed) -> kopf.OperatorRegistry:
    """Return kopf's registry, with an event handler for each kind that has few objects."""
    handlers = kopf.OperatorRegistry()
    for kind in kinds.watched_kinds():
        if kind.many:
            continue
        resource = (
            (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
        )
        filters: dict[str, Any] = {"labels": {kind.label: kopf.PRESENT}} if kind.label else {}
        kopf.on.event(*resource, id=kind.name, registry=handlers, **filters)(
            _make_handler(kind.name, store, changed)
        )
    kopf.on.login(registry=handlers)(_login)
    return handlers


def make_reflectors(
    source: Source, store: Store, changed: Changed, namespace: str
) -> tuple[Reflector, ...]:
    """Return a reflector for each kind that has many objects.

    Namespaced kinds are watched only in ``namespace``.
    """

    def take(kind: str, key: str, document: Document) -> None:
        del key
        if store.put(kind, document):
            changed(kind, document["metadata"]["name"])

    def lose(kind: str, key: str, uid: str) -> None:
        name = key.rpartition("/")[2]
        if store.remove(kind, name, uid):
            changed(kind, name)

    return tuple(
        Reflector(
            source,
            kind.name,
            Chosen(namespace=namespace if kind.namespaced else "", labels=kind.label),
            lambda document: document,
            take,
            lost=lose,
        )
        for kind in kinds.watched_kinds()
        if kind.many
    )


def make_settings() -> kopf.OperatorSettings:
    """Return settings with which kopf only watches objects."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True  # so that namespaces and CRDs need not be listed
    chosen.watching.server_timeout = _SERVER_TIMEOUT_S
    chosen.watching.client_timeout = _SERVER_TIMEOUT_S + 10
    chosen.watching.connect_timeout = 10
    return chosen


def _make_handler(kind: str, store: Store, changed: Changed) -> Any:
    async def handler(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        document = dict(body)
        metadata = dict(document["metadata"])
        name = metadata["name"]
        if type == "DELETED":
            differs = store.remove(kind, name, metadata.get("uid", ""))
        else:
            # The largest objects, such as a ConfigMap with YAML, take up to a second. kopf calls
            # the handler again for the same object only when it has returned.
            value = await asyncio.to_thread(read, kind, document)
            differs = store.put(kind, document, value=value)
        if differs:
            changed(kind, name)

    return handler


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    logging.getLogger(__name__).debug("logging in")
    account = kopf.login_with_service_account(**kwargs)
    return account if account is not None else kopf.login_with_kubeconfig(**kwargs)
