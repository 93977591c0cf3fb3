"""What is watched is remembered, and what has changed by that is enqueued.

kopf follows what people write, with ``on.event`` only: it never writes to an object. Of what there
is as much as nodes, or more, a reflector takes each event in a fraction of the time and memory.
"""

import logging
from collections.abc import Callable
from typing import Any

import kopf

from gpu_operator import kinds
from gpu_operator.engine.store import Store
from gpu_operator.kube.port import Chosen, Document, Source
from gpu_operator.kube.reflector import Reflector

Changed = Callable[[str, str], None]  # kind and name of what changed

_SERVER_TIMEOUT_S = 300  # an integer: the API server refuses 300.0


def registry(store: Store, changed: Changed) -> kopf.OperatorRegistry:
    """Return kopf's registry with one event handler for each kind of which there are few."""
    handlers = kopf.OperatorRegistry()
    for kind in kinds.watched():
        if kind.many:
            continue
        resource = (
            (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
        )
        filters: dict[str, Any] = {"labels": {kind.label: kopf.PRESENT}} if kind.label else {}
        kopf.on.event(*resource, id=kind.name, registry=handlers, **filters)(
            _remember(kind.name, store, changed)
        )
    kopf.on.login(registry=handlers)(_login)
    return handlers


def reflectors(
    source: Source, store: Store, changed: Changed, namespace: str
) -> tuple[Reflector, ...]:
    """Return what follows the kinds of which there are many; of namespaced ones in a namespace."""

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
        for kind in kinds.watched()
        if kind.many
    )


def settings() -> kopf.OperatorSettings:
    """Return settings for a kopf that watches and does nothing else."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True  # needs neither namespaces nor CRDs to be listed
    chosen.watching.server_timeout = _SERVER_TIMEOUT_S
    chosen.watching.client_timeout = _SERVER_TIMEOUT_S + 10
    chosen.watching.connect_timeout = 10
    return chosen


def _remember(kind: str, store: Store, changed: Changed) -> Any:
    async def handler(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        document = dict(body)
        metadata = dict(document["metadata"])
        name = metadata["name"]
        if type == "DELETED":
            differs = store.remove(kind, name, metadata.get("uid", ""))
        else:
            differs = store.put(kind, document)
        if differs:
            changed(kind, name)

    return handler


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    logging.getLogger(__name__).debug("logging in")
    account = kopf.login_with_service_account(**kwargs)
    return account if account is not None else kopf.login_with_kubeconfig(**kwargs)
