"""Follows the objects of one kind: a list, then a watch from there on, again and again.

kopf does that for kinds of which there are few. Elsewhere it will not do: it cannot have the API
server choose by fields, it holds every event back for a tenth of a second, it watches a namespaced
kind in one set of namespaces for all of an operator, and it keeps a task for each object.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final, Never

from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document, Source

_RETRY_S: Final = 1.0
_AT_A_TIME: Final = 50  # objects of a page that are taken before others get their turn
_log = logging.getLogger(__name__)

Sink = Callable[[str, str, Any], None]
"""Takes a kind, a key ("ns/name", or a name) and a value; None: it is gone."""

Lost = Callable[[str, str, str], None]
"""Takes the kind, key and UID of an object that is gone."""


class Reflector:
    """Tells ``sink`` of each change. ``read`` makes values of objects; None is not of interest."""

    def __init__(
        self,
        source: Source,
        kind: str,
        chosen: Chosen,
        read: Callable[[Document], Any],
        sink: Sink,
        retry_s: float = _RETRY_S,
        lost: Lost | None = None,
    ) -> None:
        """Tell ``lost`` in place of ``sink`` of what is gone, if it is given."""
        self._source = source
        self._kind = kind
        self._chosen = chosen
        self._read = read
        self._sink = sink
        self._retry_s = retry_s
        self._lost = lost
        self._known: dict[str, str] = {}  # UIDs by key
        self.listed = asyncio.Event()
        """Set after the first complete list."""

    async def run(self) -> Never:
        """Follow until cancelled; whatever fails is tried again, from a new list."""
        while True:
            try:
                await self.follow()
            except errors.KubeError as err:
                _log.warning("will list again: %s", err)
            await asyncio.sleep(self._retry_s)

    async def follow(self) -> None:
        """List, then watch for as long as each watch goes on where the last one ended.

        Raises:
            KubeError: the API server did not answer. When it has forgotten the version, it returns.
        """
        version = await self._list()
        while version:
            before, began = version, time.monotonic()
            version = await self._watch(version)
            if version == before and time.monotonic() - began < self._retry_s:
                await asyncio.sleep(self._retry_s)  # an API server that is on its way out

    async def _list(self) -> str:
        """Take a complete list, page by page; deletions that were missed are made good."""
        there: set[str] = set()
        token = ""
        while True:
            page = await self._source.page(self._kind, self._chosen, token)
            for number, item in enumerate(page.get("items") or ()):
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
                if key := self._take(item):
                    there.add(key)
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                break
        for key in self._known.keys() - there:
            self._lose(key, self._known[key])
        self.listed.set()
        return str(metadata.get("resourceVersion") or "")

    async def _watch(self, version: str) -> str:
        """Return the version that the next watch goes on from; empty: list again."""
        async for event in self._source.watch(self._kind, self._chosen, version):
            found = event.get("object") or {}
            match event.get("type"):
                case "ADDED" | "MODIFIED":
                    self._take(found)
                case "DELETED":
                    self._lose(_key(found), str(found["metadata"].get("uid") or ""))
                case "BOOKMARK":
                    pass
                case _:  # ERROR, as 410 Gone is in a watch
                    _log.info("watch %s ended: %s", self._kind, found.get("message", "no reason"))
                    return ""
            version = found["metadata"]["resourceVersion"]
        return version

    def _take(self, item: Document) -> str:
        """Return the key of an object that is of interest; empty if it is not, or no more."""
        key = _key(item)
        value = self._read(item)
        if value is None:
            self._lose(key, self._known.get(key, ""))
            return ""
        self._known[key] = str(item["metadata"].get("uid") or "")
        self._sink(self._kind, key, value)
        return key

    def _lose(self, key: str, uid: str) -> None:
        if self._known.pop(key, None) is None:
            return
        if self._lost is not None:
            self._lost(self._kind, key, uid)
        else:
            self._sink(self._kind, key, None)


def _key(item: Document) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
