"""The Lease in a thread of its own: nothing that the operator computes can delay a renewal."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from gpu_operator import errors
from gpu_operator.kube.lease import Elector
from gpu_operator.kube.port import Kube

_Result = TypeVar("_Result")


class LeaseThread:
    """Runs an elector on an event loop and a connection that nothing else uses.

    ``connect`` is called there. Entered and awaited on the operator's loop; ``fence`` and
    ``is_leader`` may be asked from anywhere.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Kube]], candidate: Callable[[Kube], Elector]
    ) -> None:
        self._connect = connect
        self._candidate = candidate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lease", daemon=True)
        self._kube: Kube | None = None
        self._elector: Elector | None = None

    async def __aenter__(self) -> Self:
        """Start the thread. Raises ConfigError where there is no way to a cluster."""
        self._thread.start()
        try:
            await self._there(self._prepare())
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the Lease and end the thread."""
        try:
            await self._there(self._leave())
        finally:
            self._end()

    @property
    def is_leader(self) -> bool:
        """Return whether the lease is ours beyond doubt."""
        return self._elector is not None and self._elector.is_leader

    def fence(self) -> None:
        """Raise NotLeader unless the lease is ours."""
        if self._elector is None:
            raise errors.NotLeader("nobody has asked for the lease yet")
        self._elector.fence()

    async def acquire(self) -> None:
        """Return once the lease is ours."""
        await self._there(self._prepared().acquire())

    async def keep(self) -> None:
        """Renew the lease until that fails for too long. Raises NotLeader."""
        await self._there(self._prepared().keep())

    async def _prepare(self) -> None:
        self._kube = await self._connect()
        self._elector = self._candidate(self._kube)

    async def _leave(self) -> None:
        try:
            await self._prepared().release()
        finally:
            if self._kube is not None:
                await self._kube.close()

    def _prepared(self) -> Elector:
        assert self._elector is not None, "enter first"
        return self._elector

    async def _there(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run it on the thread's loop; who cancels this here cancels it there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
