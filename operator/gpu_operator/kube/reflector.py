"""Follows the objects of one kind: a list, then a watch from its version, repeatedly.

kopf does the same for kinds with few objects. It is unsuitable for others: it does not support
field selectors, delays every event by a tenth of a second, watches namespaced kinds in the same
namespaces for the whole operator, and keeps a task for each object.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final, Never

from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document, Source

_RETRY_S: Final = 1.0
_LONGEST_S: Final = 0.005  # for which objects of a page are processed before other tasks run
_log = logging.getLogger(__name__)

Sink = Callable[[str, str, Any], None]
"""Receives a kind, a key ("ns/name" or a name) and a value, which is None if the object is gone."""

Lost = Callable[[str, str, str], None]
"""Receives the kind, key and UID of a deleted object."""


class Reflector:
    """Calls ``sink`` for each change of the objects of one kind.

    ``read`` converts an object to a value, or to None if the object is irrelevant.
    """

    def __init__(
        self,
        source: Source,
        kind: str,
        chosen: Chosen,
        read: Callable[[Document], Any],
        sink: Sink,
        retry_s: float = _RETRY_S,
        lost: Lost | None = None,
        stored: Collection[str] | None = None,
    ) -> None:
        """Initialize; ``lost``, if given, is called instead of ``sink`` for deleted objects.

        ``stored`` are the keys of this kind's objects that ``sink`` has stored: with it, which
        excludes ``lost``, the reflector keeps none of its own.
        """
        self._source = source
        self._kind = kind
        self._chosen = chosen
        self._read = read
        self._sink = sink
        self._retry_s = retry_s
        self._lost = lost
        self._known: dict[str, str] = {}  # UIDs by key
        self._stored = self._known if stored is None else stored
        self.listed = asyncio.Event()
        """Set after the first complete list."""

    async def run(self) -> Never:
        """Follow the objects until this task is cancelled; after a failure, list them again."""
        while True:
            try:
                await self.follow()
            except errors.KubeError as err:
                _log.warning("will list again: %s", err)
            await asyncio.sleep(self._retry_s)

    async def follow(self) -> None:
        """List the objects, then watch them; each watch continues where the last one ended.

        Returns when the API server no longer has the version at which the last watch ended.

        Raises:
            KubeError: the API server did not respond.
        """
        version = await self.list_once()
        while version:
            old_version, began = version, time.monotonic()
            version = await self._watch(version)
            if version == old_version and time.monotonic() - began < self._retry_s:
                await asyncio.sleep(self._retry_s)  # the API server is shutting down

    async def list_once(self) -> str:
        """Process a complete list, page by page, and remove objects that it lacks.

        Returns the list's version. Raises KubeError.
        """
        gone = set(self._stored)  # at first empty, however many objects there are
        token = ""
        while True:
            page = await self._source.page(self._kind, self._chosen, token)
            began = time.monotonic()
            for item in page.get("items") or ():
                if time.monotonic() - began > _LONGEST_S:
                    await asyncio.sleep(0)
                    began = time.monotonic()
                gone.discard(self._apply(item))
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            page, item = {}, {}  # free them: the next page takes as much memory
            if not token:
                break
        for key in gone:
            self._remove(key, self._known.get(key, ""))
        self.listed.set()
        return str(metadata.get("resourceVersion") or "")

    async def _watch(self, version: str) -> str:
        """Watch from ``version`` on; return the version from which the next watch continues.

        The result is empty if the objects must be listed again.
        """
        async for event in self._source.watch(self._kind, self._chosen, version):
            document = event.get("object") or {}
            match event.get("type"):
                case "ADDED" | "MODIFIED":
                    self._apply(document)
                case "DELETED":
                    self._remove(_key(document), str(document["metadata"].get("uid") or ""))
                case "BOOKMARK":
                    pass
                case _:  # ERROR, such as 410 Gone within a watch
                    _log.info(
                        "watch %s ended: %s", self._kind, document.get("message", "no reason")
                    )
                    return ""
            version = document["metadata"]["resourceVersion"]
        return version

    def _apply(self, item: Document) -> str:
        """Process an object; return its key, or an empty text if the object is irrelevant."""
        key = _key(item)
        value = self._read(item)
        if value is None:
            self._remove(key, self._known.get(key, ""))
            return ""
        if self._stored is self._known:
            # Without a receiver of UIDs none is stored: there are tens of thousands of pods.
            uid = item["metadata"].get("uid") if self._lost is not None else None
            self._known[key] = str(uid or "")
        self._sink(self._kind, key, value)
        return key

    def _remove(self, key: str, uid: str) -> None:
        if key not in self._stored:
            return
        self._known.pop(key, None)
        if self._lost is not None:
            self._lost(self._kind, key, uid)
        else:
            self._sink(self._kind, key, None)


def _key(item: Document) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
