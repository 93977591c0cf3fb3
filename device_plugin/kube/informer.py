"""An informer: lists objects of one kind once, then follows them by watches.

Each watch begins where the last one ended. Answers to the agent's own writes are applied at
once. A version of an object that is older than the known one is ignored. Only when the API
server no longer has a version (410 Gone) are the objects listed again.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Never, Protocol

from device_plugin.errors import ClusterError

RETRY_S: Final = 1.0
_GONE: Final = 410
_REMEMBERED_GONE: Final = 1024
_jitter = random.Random()  # private to this module: the shared generator may be seeded


class Source(Protocol):
    """Lists and watches the objects of one kind at the API server. All methods raise
    ClusterError.
    """

    def list(self) -> tuple[list[dict[str, Any]], str]: ...
    def watch(self, version: str, accepted: Callable[[], None]) -> Iterator[dict[str, Any]]: ...


class Informer:
    """The known objects of one kind.

    Only one thread calls ``run`` and ``follow``. Any thread may call the other methods
    (``_lock``).
    """

    def __init__(
        self,
        source: Source,
        changed: Callable[[], None],
        accepted: Callable[[], None] = lambda: None,
    ) -> None:
        """Initialize; ``changed`` is called after changes by others.

        ``accepted`` is called when the API server has accepted a watch.
        """
        self._source = source
        self._changed = changed
        self._accepted = accepted
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}
        self._gone: dict[
            Any, None
        ] = {}  # UIDs of deleted objects: the answer to a write may arrive later
        self._version = ""  # where the next watch begins; empty: list first
        self._listed = False

    def documents(self) -> dict[str, dict[str, Any]] | None:
        """Return the known objects, by name; None before the first list."""
        with self._lock:
            return dict(self._known) if self._listed else None

    def apply_write(self, document: dict[str, Any]) -> None:
        """Update a known object from the API server's answer to one of the agent's own writes."""
        with self._lock:
            if document["metadata"].get("uid") not in self._gone:
                self._store(document)

    def apply_delete(self, name: str) -> None:
        """Remove an object from the known objects, because the agent itself has deleted it."""
        with self._lock:
            if name in self._known:
                self._forget(self._known[name])

    def run(
        self,
        lost: Callable[[ClusterError], None],
        wait: Callable[[float], None] = time.sleep,
        longest_s: float = RETRY_S,
    ) -> Never:
        """Follow the objects forever; call ``lost`` with the reason when a watch or list failed.

        A watch that ends within ``RETRY_S`` is repeated after a pause, which grows to
        ``longest_s``.
        """
        pause_s = RETRY_S
        while True:
            began, failed = time.monotonic(), False
            try:
                self.follow()
            except ClusterError as err:
                lost(err)
                failed = True
            brief = time.monotonic() - began < RETRY_S
            if not brief:
                pause_s = RETRY_S
            # The jitter spreads the nodes, and a server that is shutting down is not retried at
            # once.
            if failed or brief:
                wait(pause_s * _jitter.uniform(0.5, 1.5))
            if brief:
                pause_s = min(2 * pause_s, longest_s)

    def follow(self) -> None:
        """List the objects if necessary, then watch them until the API server ends the watch.

        Raises:
            ClusterError: the API server does not answer, or the connection broke.
        """
        try:
            if not self._version:
                self._list()
            for event in self._source.watch(self._version, self._accepted):
                self._handle_event(event)
        except ClusterError as err:
            if err.status == _GONE:
                self._version = ""
            raise
        except (KeyError, TypeError, AttributeError) as err:
            raise ClusterError(f"API server: not a watch event: {err!r}") from err

    def _list(self) -> None:
        documents, version = self._source.list()
        with self._lock:
            names = {document["metadata"]["name"] for document in documents}
            for name in self._known.keys() - names:
                self._forget(self._known[name])
            # A list replaces everything whatever its versions are: the database may have been
            # restored.
            self._known = {document["metadata"]["name"]: document for document in documents}
            self._version = version
            self._listed = True
        self._changed()

    def _handle_event(self, event: dict[str, Any]) -> None:
        kind, document = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise ClusterError(f"API server: {document.get('message')}", document.get("code"))
        with self._lock:
            changed = False
            if kind in ("ADDED", "MODIFIED"):
                changed = self._store(document)
            elif kind == "DELETED":
                changed = self._forget(document)
            self._version = str(document["metadata"].get("resourceVersion") or self._version)
        if changed:
            self._changed()

    def _store(self, document: dict[str, Any]) -> bool:
        """Keep an object unless a newer version is known; return whether it changed."""
        name = document["metadata"]["name"]
        stored_document = self._known.get(name)
        if stored_document is not None and _version(document) <= _version(stored_document):
            return False
        self._known[name] = document
        return True

    def _forget(self, document: dict[str, Any]) -> bool:
        """Forget an object, but not a successor with its name; return whether it was known."""
        metadata = document["metadata"]
        stored_document = self._known.get(metadata["name"])
        self._gone[metadata.get("uid")] = None
        if len(self._gone) > _REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]
        if stored_document is None or stored_document["metadata"].get("uid") != metadata.get("uid"):
            return False
        del self._known[metadata["name"]]
        return True


def _version(document: dict[str, Any]) -> int:
    """Return an object's resourceVersion as a number; versions are ordered (KEP-5504)."""
    text = str(document["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
