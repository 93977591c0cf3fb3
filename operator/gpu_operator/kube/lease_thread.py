"""The Lease in its own thread, so that computations of the operator cannot delay a renewal."""

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
    """Runs an elector in its own thread, on its own event loop and connection.

    ``connect`` is called in that thread. Methods are awaited on the operator's loop; ``fence``
    and ``is_leader`` are thread-safe.
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
        """Start the thread. Raises ConfigError if there is no access to a cluster."""
        self._thread.start()
        try:
            await self._run_in_thread(self._prepare())
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
            await self._run_in_thread(self._leave())
        finally:
            self._end()

    @property
    def is_leader(self) -> bool:
        """Return whether this process certainly holds the lease."""
        return self._elector is not None and self._elector.is_leader

    def fence(self) -> None:
        """Raise NotLeader unless this process holds the lease."""
        if self._elector is None:
            raise errors.NotLeader("the lease has not been requested yet")
        self._elector.fence()

    async def acquire(self) -> None:
        """Wait until this process holds the lease."""
        await self._run_in_thread(self._get_elector().acquire())

    async def keep(self) -> None:
        """Renew the lease regularly. Raises NotLeader when renewal has failed for too long."""
        await self._run_in_thread(self._get_elector().keep())

    async def _prepare(self) -> None:
        self._kube = await self._connect()
        self._elector = self._candidate(self._kube)

    async def _leave(self) -> None:
        try:
            await self._get_elector().release()
        finally:
            if self._kube is not None:
                await self._kube.close()

    def _get_elector(self) -> Elector:
        assert self._elector is not None, "enter the context first"
        return self._elector

    async def _run_in_thread(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the thread's loop; if this call is cancelled, so is the coroutine."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
