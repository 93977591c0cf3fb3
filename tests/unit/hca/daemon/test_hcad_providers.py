"""Device memory that hcad imports: it trusts gpud and does not trust workers."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from hca.daemon.objects import providers
from hca.daemon.objects.providers import Providers
from support.rigs.direct_rig import (
    SIZE,
    FakeGpud,
    Worker,
    borrow,
    lend,
    refuse,
    run,
    serving,
    until,
    vanish,
)
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.system import seqpacket


def send_pipe(end: socket.socket, request: ExportRequest) -> None:
    reading, writing = os.pipe()
    socket.send_fds(end, [bytes(DirectGrant(0, 0, 0, SIZE))], [writing])
    os.close(reading)
    os.close(writing)


def send_unsealed(end: socket.socket, request: ExportRequest) -> None:
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.truncate(memory, SIZE)
    os.posix_fallocate(memory, 0, SIZE)
    socket.send_fds(end, [bytes(DirectGrant(0, 0, 0, SIZE))], [memory])
    os.close(memory)


def send_too_little(end: socket.socket, request: ExportRequest) -> None:
    end.send(b"x")


def test_memory_is_imported_with_the_connection_that_it_depends_on(tmp_path: Path) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        imported = await borrow(served)
        assert (imported.offset, imported.size) == (4096, SIZE)
        assert os.pread(imported.descriptor, 4, imported.offset) == b"moin"
        assert (gpud.requests[0].pid, gpud.requests[0].address, gpud.requests[0].size) == (
            1234,
            0x1000,
            4096,
        )
        gpud.ends[0].close()
        await seqpacket.wait_until_readable(imported.connection.fileno())
        assert imported.connection.recv(1) == b""
        served.release(imported)

    run(tmp_path, body, lend())


def test_contexts_are_tried_one_after_the_other(tmp_path: Path) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        served.release(await borrow(served))
        assert [one.skip for one in gpud.requests] == [0, 1, 2, 0, 1, 2]

    run(tmp_path, body, refuse, refuse, vanish, lend())


def test_what_no_context_has_is_a_bad_address(tmp_path: Path) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        with pytest.raises(OSError, match="no context") as caught:
            await borrow(served)
        assert caught.value.errno == errno.EFAULT

    run(tmp_path, body, refuse, refuse)


@pytest.mark.parametrize(
    "worker",
    [
        send_pipe,
        send_unsealed,
        send_too_little,
        lend(size=SIZE + 4096),
        lend(offset=SIZE),
        lend(offset=SIZE - 1),
        lend(offset=(1 << 64) - 1),
    ],
)
def test_what_is_no_such_memory_is_not_taken(tmp_path: Path, worker: Worker) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match="worker") as caught:
            await borrow(served)
        assert caught.value.errno == errno.EPROTO
        most = before + len(gpud.ends)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= most)  # a thread closes them

    run(tmp_path, body, worker)


def test_a_worker_that_says_nothing_is_waited_for_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "ANSWER_SECONDS", 0.05)

    async def body(served: Providers, gpud: FakeGpud) -> None:
        with pytest.raises(TimeoutError):
            await borrow(served)

    run(tmp_path, body, lambda *_: None)


def test_a_gpud_that_comes_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served:
            asking = asyncio.create_task(borrow(served))
            await asyncio.sleep(0)
            gpud = FakeGpud(tmp_path / "d", lend())
            served.release(await asking)
            gpud.close()

    asyncio.run(main())


def test_without_a_gpud_there_is_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "LINK_SECONDS", 0.05)

    async def body(served: Providers, gpud: FakeGpud) -> None:
        gpud.close()
        await until(lambda: not served._links)
        with pytest.raises(OSError, match="no gpud") as caught:
            await borrow(served)
        assert caught.value.errno == errno.ENODEV

    run(tmp_path, body)


def test_a_gpud_that_ends_meanwhile_is_said(tmp_path: Path) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        gpud.task.cancel()
        asking = asyncio.create_task(borrow(served))
        await asyncio.sleep(0)
        gpud.link.close()
        with pytest.raises(OSError, match="gone"):
            await asking

    run(tmp_path, body)


def test_memory_is_not_imported_for_another_owner_s_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "LINK_SECONDS", 0.05)

    async def main() -> None:
        async with serving(tmp_path) as served:
            gpud = FakeGpud(tmp_path / "d", lend(), token=bytes([8]) * TOKEN_BYTES)
            await until(lambda: bool(served._links))
            with pytest.raises(OSError, match="no gpud"):
                await borrow(served)
            gpud.close()

    asyncio.run(main())
