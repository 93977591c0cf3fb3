"""A fake gpud that exports device memory as a test specifies, and a client that imports it."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hca.daemon.objects.providers import ImportedMemory, Providers
from vgpu_sim.hal import direct
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.system import seqpacket
from vgpu_sim.worker.memory import create_populated

NODE = bytes(TOKEN_BYTES)
SIZE = 2 << 20
Worker = Callable[[socket.socket, ExportRequest], None]


def lend(size: int = SIZE, offset: int = 4096, status: int = 0) -> Worker:
    def answer(end: socket.socket, request: ExportRequest) -> None:
        memory = create_populated("test", SIZE)
        os.pwrite(memory, b"moin", 4096)
        socket.send_fds(end, [bytes(DirectGrant(status, 0, offset, size))], [memory])
        os.close(memory)

    return answer


def refuse(end: socket.socket, request: ExportRequest) -> None:
    end.send(bytes(DirectGrant(errno.ENOENT)))


def vanish(end: socket.socket, request: ExportRequest) -> None:
    return


class FakeGpud:
    """Connects as a gpud and answers requests with one fake worker for each of its contexts."""

    def __init__(self, place: Path, *workers: Worker, token: bytes = NODE) -> None:
        self.workers = list(workers)
        self.requests: list[ExportRequest] = []
        self.ends: list[socket.socket] = []
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.connect(str(place))
        self.link.setblocking(False)
        self.link.send(token)
        self.task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            await seqpacket.wait_until_readable(self.link.fileno())
            data = self.link.recv(512)
            if not data:
                return
            request = ExportRequest.decode(data)
            self.requests.append(request)
            if request.skip >= len(self.workers):
                self.link.send(direct.encode_answer(request.request, errno.ESRCH))
                continue
            its, end = seqpacket.pair()
            answer = direct.encode_answer(request.request, 0)
            socket.send_fds(self.link, [answer], [its.fileno()])
            its.close()
            worker = self.workers[request.skip]
            if worker is vanish:
                self.workers.remove(worker)
                end.close()
                continue
            worker(end, request)
            self.ends.append(end)

    def close(self) -> None:
        self.task.cancel()
        for one in (self.link, *self.ends):
            one.close()


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[Providers]:
    listener = seqpacket.bind(directory / "d", 0o600)
    served = Providers(listener)
    served.open()
    try:
        yield served
    finally:
        await served.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


def run(
    tmp_path: Path, body: Callable[[Providers, FakeGpud], Awaitable[None]], *workers: Worker
) -> None:
    """Run ``body`` with Providers to which a fake gpud with these workers has connected."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            gpud = FakeGpud(tmp_path / "d", *workers)
            await until(lambda: bool(served._links))
            try:
                await body(served, gpud)
            finally:
                gpud.close()

    asyncio.run(asyncio.wait_for(main(), 20))


async def borrow(served: Providers, size: int = 4096) -> ImportedMemory:
    """Import memory of a context of the fake gpud."""
    return await served.import_memory(bytes([7]) * TOKEN_BYTES, 1234, 0x1000, size)
