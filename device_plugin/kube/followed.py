"""Objects that were listed once and are followed from then on by watches.

The next watch begins where the last one ended. Answers to our own writes are taken in at once, and
nothing older than what is known is believed. Only when the API server has forgotten a version
(410 Gone) the objects are listed anew.
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
_jitter = random.Random()  # of this module alone: the shared one may be seeded


class Source(Protocol):
    """One kind of object at the API server. All raise ClusterError."""

    def list(self) -> tuple[list[dict[str, Any]], str]: ...
    def watch(self, version: str, standing: Callable[[], None]) -> Iterator[dict[str, Any]]: ...


class Followed:
    """``run`` and ``follow`` belong to one thread; the rest may be called by any (``_lock``)."""

    def __init__(
        self,
        source: Source,
        changed: Callable[[], None],
        standing: Callable[[], None] = lambda: None,
    ) -> None:
        """Call ``changed`` after each change that is not our own writing, and ``standing`` when
        the API server has accepted a watch.
        """
        self._source = source
        self._changed = changed
        self._standing = standing
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}
        self._gone: dict[Any, None] = {}  # UIDs: the answer to a write may come after the deletion
        self._version = ""  # where the next watch begins; empty: with a list
        self._listed = False

    def documents(self) -> dict[str, dict[str, Any]] | None:
        """Return what is known, by name; None while nothing has ever been listed."""
        with self._lock:
            return dict(self._known) if self._listed else None

    def written(self, document: dict[str, Any]) -> None:
        """Take in the answer to a write of ours."""
        with self._lock:
            if document["metadata"].get("uid") not in self._gone:
                self._take(document)

    def deleted(self, name: str) -> None:
        """Take in a deletion of ours."""
        with self._lock:
            if name in self._known:
                self._lose(self._known[name])

    def run(
        self,
        lost: Callable[[ClusterError], None],
        wait: Callable[[float], None] = time.sleep,
        longest_s: float = RETRY_S,
    ) -> Never:
        """Follow without end; ``lost`` is told why a watch or list has failed.

        What ends within ``RETRY_S`` is tried again after a pause, which grows to ``longest_s``.
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
            # Not all nodes at the same moment; nor a server that is on its way out again and again.
            if failed or brief:
                wait(pause_s * _jitter.uniform(0.5, 1.5))
            if brief:
                pause_s = min(2 * pause_s, longest_s)

    def follow(self) -> None:
        """List if that is due, then watch until the API server ends it.

        Raises:
            ClusterError: the API server does not answer, or the connection broke.
        """
        try:
            if not self._version:
                self._list()
            for event in self._source.watch(self._version, self._standing):
                self._heed(event)
        except ClusterError as err:
            if err.status == _GONE:
                self._version = ""
            raise
        except (KeyError, TypeError, AttributeError) as err:
            raise ClusterError(f"API server: no event of a watch: {err!r}") from err

    def _list(self) -> None:
        documents, version = self._source.list()
        with self._lock:
            names = {one["metadata"]["name"] for one in documents}
            for name in self._known.keys() - names:
                self._lose(self._known[name])
            # A list is believed whatever its versions say: the database may have been restored.
            self._known = {one["metadata"]["name"]: one for one in documents}
            self._version = version
            self._listed = True
        self._changed()

    def _heed(self, event: dict[str, Any]) -> None:
        kind, found = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise ClusterError(f"API server: {found.get('message')}", found.get("code"))
        with self._lock:
            changed = False
            if kind in ("ADDED", "MODIFIED"):
                changed = self._take(found)
            elif kind == "DELETED":
                changed = self._lose(found)
            self._version = str(found["metadata"].get("resourceVersion") or self._version)
        if changed:
            self._changed()

    def _take(self, document: dict[str, Any]) -> bool:
        """Keep an object unless a newer state of it is known; return whether it was news."""
        name = document["metadata"]["name"]
        known = self._known.get(name)
        if known is not None and _version(document) <= _version(known):
            return False
        self._known[name] = document
        return True

    def _lose(self, document: dict[str, Any]) -> bool:
        """Forget an object, but no successor of its name; return whether it was known."""
        metadata = document["metadata"]
        known = self._known.get(metadata["name"])
        self._gone[metadata.get("uid")] = None
        if len(self._gone) > _REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]
        if known is None or known["metadata"].get("uid") != metadata.get("uid"):
            return False
        del self._known[metadata["name"]]
        return True


def _version(document: dict[str, Any]) -> int:
    """Return an object's resourceVersion, which the API server makes comparable (KEP-5504)."""
    text = str(document["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
