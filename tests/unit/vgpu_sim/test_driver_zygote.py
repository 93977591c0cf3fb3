"""gpud's supervision of the real zygote when it is slow."""

import asyncio
import os
import signal
import socket

import pytest
from worker_client import worker_config

from vgpu_sim.driver import zygote as zygote_module
from vgpu_sim.driver.errors import WorkerStartError
from vgpu_sim.driver.zygote import Zygote
from vgpu_sim.hal.messages import MAX_MESSAGE_BYTES


def test_a_worker_that_comes_too_late_is_ended_whatever_its_client_does(monkeypatch):
    async def start_too_late() -> int:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        zygote = Zygote(lambda _pid, status: ended.set_result(status))
        supervision = asyncio.create_task(zygote.supervise())
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with one, two, mine, channel:
            await zygote.start_worker(worker_config(), two, channel)
            one.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(one, MAX_MESSAGE_BYTES)

            monkeypatch.setattr(zygote_module, "SPAWN_TIMEOUT_SECONDS", 0.3)
            client, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            os.kill(zygote.pid, signal.SIGSTOP)
            with theirs, pytest.raises(WorkerStartError):
                await zygote.start_worker(worker_config(context_index=1), theirs, channel)
            os.kill(zygote.pid, signal.SIGCONT)
            with client:  # it was told 802 and stays connected all the same
                async with asyncio.timeout(10):
                    status = await ended
        supervision.cancel()
        return status

    assert asyncio.run(start_too_late()) == signal.SIGKILL
