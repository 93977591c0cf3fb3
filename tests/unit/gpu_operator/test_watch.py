"""kopf's part: what is seen is remembered and told, and no wait of a watch is without end."""

import asyncio
from typing import Any

import kopf
import pytest

from gpu_operator.engine import watch
from gpu_operator.engine.store import Store


def pool(version: int, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "GPUPool",
        "metadata": {"name": "p", "uid": "u", "resourceVersion": str(version), **metadata},
        "spec": {"nodeSelector": {"a": "b"}, "board": "a30", "count": version},
    }


def test_kopf_watches_and_does_nothing_else() -> None:
    chosen = watch.settings()
    assert not chosen.posting.enabled, "an event for each change, with rights that nobody granted"
    assert chosen.scanning.disabled, "it would list namespaces and definitions"


def test_every_wait_of_a_watch_ends_and_the_server_s_first() -> None:
    """A server that is asked politely ends a watch in order; a client that gives up loses events.

    What is unset waits without end: for a connection to an API server that drops packets, too.
    """
    watching = watch.settings().watching
    assert isinstance(watching.server_timeout, int), "the API server refuses 300.0"
    assert watching.client_timeout is not None
    assert watching.server_timeout < watching.client_timeout <= watching.server_timeout + 60
    assert watching.connect_timeout is not None
    assert 1 <= watching.connect_timeout <= 30


def test_what_is_seen_is_remembered_and_a_change_is_told_once() -> None:
    store, told = Store(), list[tuple[str, str]]()
    handlers = watch.registry(store, lambda kind, name: told.append((kind, name)))
    (handler,) = [h for h in handlers._watching.get_all_handlers() if h.id == "GPUPool"]

    def seen(kind: str | None, document: dict[str, Any]) -> list[tuple[str, str]]:
        told.clear()
        function: Any = handler.fn
        asyncio.run(function(type=kind, body=kopf.Body(document), retry=0))
        return list(told)

    assert seen(None, pool(1)) == [("GPUPool", "p")]  # of the first list
    assert seen("MODIFIED", pool(1)) == []
    assert seen("MODIFIED", pool(2)) == [("GPUPool", "p")]
    assert store.world().pools["p"].spec.count == 2
    assert seen("DELETED", pool(3, uid="of one before")) == []
    assert seen("DELETED", pool(3)) == [("GPUPool", "p")]
    assert store.world().pools == {}
    assert seen("DELETED", pool(3)) == []


@pytest.mark.parametrize("in_a_pod", [True, False])
def test_the_service_account_goes_before_the_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, in_a_pod: bool
) -> None:
    account, file = kopf.ConnectionInfo(server="account"), kopf.ConnectionInfo(server="file")
    monkeypatch.setattr(
        kopf, "login_with_service_account", lambda **_: account if in_a_pod else None
    )
    monkeypatch.setattr(kopf, "login_with_kubeconfig", lambda **_: file)
    assert watch._login() == (account if in_a_pod else file)
