"""kopf's part: watch, remember, enqueue. Only ``on.event``: kopf never writes to an object."""

import logging
from collections.abc import Callable
from typing import Any

import kopf

from gpu_operator import kinds
from gpu_operator.engine.store import Store

Changed = Callable[[str, str], None]  # kind and name of what changed

_SERVER_TIMEOUT_S = 300  # an integer: the API server refuses 300.0


def registry(store: Store, changed: Changed) -> kopf.OperatorRegistry:
    """Return kopf's registry with one event handler a kind."""
    handlers = kopf.OperatorRegistry()
    for kind in kinds.watched():
        resource = (
            (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
        )
        filters: dict[str, Any] = {"labels": {kind.label: kopf.PRESENT}} if kind.label else {}
        kopf.on.event(*resource, id=kind.name, registry=handlers, **filters)(
            _remember(kind.name, store, changed)
        )
    kopf.on.login(registry=handlers)(_login)
    return handlers


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
