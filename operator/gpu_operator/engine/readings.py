"""Reads changed objects in a thread, so that a large object does not occupy the event loop.

An object may be as large as the API server lets it be, and an editor may change it several times a
second. So only the latest version of each object waits, and namespaces take turns: an object waits
for at most one object of each other namespace, however many changes that namespace makes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Never

from gpu_operator.engine.computing import Computing
from gpu_operator.kube.port import Document
from gpu_operator.kube.reflector import Sink

_log = logging.getLogger(__name__)
Key = tuple[str, str]
"""An object's kind and its "ns/name" or name."""


class Readings:
    """Passes each change that was ``put`` to a sink, after its reader has parsed the object.

    Owned by one event loop.
    """

    def __init__(
        self, name: str, readers: Mapping[str, Callable[[Document], Any]], sink: Sink
    ) -> None:
        """Initialize; ``name`` is the thread's name."""
        self._readers = readers
        self._sink = sink
        self._computing = Computing(name)
        self._waiting: dict[str, dict[Key, Document | None]] = {}
        """The latest versions of changed objects, by namespace; the next namespace comes first."""
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def stuck_for_s(self) -> float:
        """Return the seconds for which the current object has been read."""
        return self._computing.stuck_for_s

    def put(self, kind: str, key: str, document: Document | None) -> None:
        """Add a change; None: the object is gone. It replaces an earlier change that waits."""
        namespace = key.rpartition("/")[0]
        self._waiting.setdefault(namespace, {})[kind, key] = document
        self._idle.clear()
        self._changed.set()

    async def wait_until_idle(self) -> None:
        """Wait until every change has been passed to the sink."""
        await self._idle.wait()

    async def run(self) -> Never:
        """Read changed objects until this task is cancelled."""
        while True:
            await self._changed.wait()
            while self._waiting:
                await self._read_next()
            self._changed.clear()
            self._idle.set()

    def close(self) -> None:
        """Start no further reading."""
        self._computing.close()

    async def _read_next(self) -> None:
        namespace, changes = next(iter(self._waiting.items()))
        (kind, key), document = next(iter(changes.items()))
        del changes[kind, key], self._waiting[namespace]
        if changes:
            self._waiting[namespace] = changes  # behind the other namespaces
        if document is None:
            self._sink(kind, key, None)
            return
        read = self._readers[kind]
        try:
            value = await self._computing.run(lambda: lambda: read(document))
        except Exception:  # noqa: BLE001 - an error in one object must not end the loop
            _log.exception("cannot read %s %s", kind, key)
            return
        self._sink(kind, key, value)
