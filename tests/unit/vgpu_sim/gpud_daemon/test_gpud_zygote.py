"""gpud's supervision of the zygote: one that is slow or hangs, and a node that cannot confine
workers.
"""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import ClassVar, cast

import pytest

from support.processes.worker_client import worker_config
from support.rigs import a30_slice
from vgpu_sim import zygote as forking
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.contexts import zygote as zygote_module
from vgpu_sim.gpud.contexts.launching import Launcher
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.errors import HelloRefused, WorkerStartError
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.model import Owner
from vgpu_sim.gpud.slices import hello as hellos
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import MAX_MESSAGE_BYTES, MessageType
from vgpu_sim.system.peers import Peer, PodUid


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
            with client:  # it received 802 but stays connected
                async with asyncio.timeout(10):
                    status = await ended
        supervision.cancel()
        return status

    assert asyncio.run(start_too_late()) == signal.SIGKILL


@asynccontextmanager
async def supervision() -> AsyncIterator[Zygote]:
    """Supervise a zygote, which is ready."""
    zygote = Zygote(lambda _pid, _status: None)
    zygote.begin()
    try:
        async with asyncio.timeout(60):
            while zygote.sandbox is None:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
        yield zygote
    finally:
        await zygote.end()


@contextmanager
def worker_request(zygote: Zygote) -> Iterator[asyncio.Task[int]]:
    """Request a worker; its client hangs up in the end, which ends the worker."""
    client, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with client, theirs, mine, channel:
        yield asyncio.create_task(zygote.start_worker(worker_config(), theirs, channel))


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a zygote that does not answer for two seconds."""
    monkeypatch.setattr(zygote_module, "MOST_SILENT_SECONDS", 2)
    monkeypatch.setattr(zygote_module, "_CHECK_SECONDS", 0.1)


@pytest.mark.parametrize("ending", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.usefixtures("short_silence")
def test_a_request_that_a_zygote_had_not_begun_is_served_by_the_next(caplog, ending):
    async def scenario() -> None:
        async with supervision() as zygote:
            with worker_request(zygote) as first_request:
                worker = await first_request
                victim = zygote.pid
                assert victim is not None
                os.kill(victim, signal.SIGSTOP)
                with worker_request(zygote) as second_request:
                    await asyncio.sleep(0.1)
                    os.kill(victim, ending)
                    assert await second_request != worker
                assert zygote.pid != victim
                with pytest.raises(ProcessLookupError):
                    os.kill(victim, 0)
                os.kill(worker, 0)

    asyncio.run(asyncio.wait_for(scenario(), 60))
    hangs = "reason='it hangs: no answer for 2 s'" in caplog.text
    assert hangs == (ending == signal.SIGSTOP)


@pytest.mark.usefixtures("short_silence")
def test_a_zygote_is_not_ended_for_a_time_in_which_gpud_did_not_run():
    async def scenario() -> None:
        async with supervision() as zygote:
            number = zygote.pid
            assert number is not None
            os.kill(number, signal.SIGSTOP)
            with worker_request(zygote) as request:
                await asyncio.sleep(0.1)
                time.sleep(4)  # noqa: ASYNC251 - gpud is stopped too
                os.kill(number, signal.SIGCONT)
                assert await request
            assert zygote.pid == number

    asyncio.run(asyncio.wait_for(scenario(), 60))


HANGING = """
import os, socket, sys, time
from vgpu_sim.hal.compute import spawn
with open({log!r}, "a") as log:
    print(os.getpid(), file=log)
gpud = socket.socket(fileno=int(sys.argv[1]))
if {when!r} == "begun":
    gpud.send(spawn.encode({{"type": "ready", "sandbox": {{}}}}))
    request = spawn.decode(gpud.recv(65536))["request"]
    gpud.send(spawn.encode({{"type": "begun", "request": request}}))
time.sleep(600)
"""


def hang(monkeypatch: pytest.MonkeyPatch, root: Path, when: str) -> Path:
    """Replace the zygote by one that hangs; return the file to which each adds its PID."""
    log = root / "log"
    (root / "hanging_zygote.py").write_text(HANGING.format(log=str(log), when=when))
    monkeypatch.syspath_prepend(root)
    monkeypatch.setattr(zygote_module, "ZYGOTE_MODULE", "hanging_zygote")
    return log


@pytest.mark.usefixtures("short_silence")
def test_a_request_is_not_repeated_once_a_worker_may_serve_its_client(monkeypatch, tmp_path):
    hang(monkeypatch, tmp_path, "begun")

    async def scenario() -> None:
        async with supervision() as zygote:
            hangs = pytest.raises(WorkerStartError, match="it hangs")
            with worker_request(zygote) as request, hangs:
                await request

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.usefixtures("short_silence")
def test_a_zygote_that_hangs_while_it_starts_is_started_again(monkeypatch, tmp_path):
    log = hang(monkeypatch, tmp_path, "starting")
    monkeypatch.setattr(zygote_module, "SPAWN_TIMEOUT_SECONDS", 3.0)

    async def scenario() -> None:
        zygote = Zygote(lambda _pid, _status: None)
        zygote.begin()
        try:
            while not log.exists() or len(log.read_text().split()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        finally:
            await zygote.end()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert len(set(log.read_text().split())) == 2


def test_it_reports_the_sandbox_that_workers_will_have():
    async def scenario():
        zygote = Zygote(lambda _pid, _status: None)
        supervision = asyncio.create_task(zygote.supervise())
        async with asyncio.timeout(30):
            while zygote.sandbox is None:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)
        return zygote.sandbox

    sandbox = asyncio.run(scenario())
    assert sandbox["seccomp"]
    assert sandbox["capabilities_dropped"]


class WeakZygote:
    """On a node whose kernel has neither Landlock nor namespaces for it."""

    problem = ""
    sandbox: ClassVar = {"seccomp": True, "landlock": False, "namespaces": False}

    async def start_worker(self, *_: object) -> int:
        raise WorkerStartError("it was requested")


@pytest.mark.parametrize("allowed", [False, True])
def test_no_context_starts_where_workers_cannot_be_confined(tmp_path, allowed):
    async def scenario():
        settings = _settings(tmp_path, weak_sandbox=allowed)
        budget = Budget(1 << 30)
        contexts = ContextTable(budget, EventBus(for_user=True), lambda _: None)
        launcher = Launcher(settings, WeakZygote(), NoCgroups("test"), budget, contexts)
        client, its = socket.socketpair()
        hello = hellos.parse(hello_message(MessageType.HELLO_CONTEXT))
        with client, its, pytest.raises(HelloRefused) as refused:
            await launcher.launch(a30_slice.make(), hello, its, Peer(1, 0), Owner(PodUid(""), ""))
        return launcher.problem, refused.value

    problem, refused = asyncio.run(scenario())
    assert refused.status == CudaError.SYSTEM_NOT_READY
    if allowed:
        assert (problem, str(refused)) == ("", "it was requested")
    else:
        assert problem == str(refused) == spawn.NOT_CONFINED


class DyingZygote:
    """Its workers end while they start: before they answer their client, or after refusing it
    (71).
    """

    problem = ""
    sandbox = None

    def __init__(self, end: str) -> None:
        self._end = end

    async def start_worker(self, *_: object) -> int:
        self._start()
        asyncio.get_running_loop().call_soon(self.process.stdin.close)
        return self.process.pid

    def _start(self) -> None:
        code = {"killed": "kill -9 $$", "refused": "exit 71"}[self._end]
        self.process = subprocess.Popen(["sh", "-c", f"read line; {code}"], stdin=subprocess.PIPE)


def test_a_worker_killed_while_it_starts_is_said_to_be_that(tmp_path):
    """Without an answer the client would see its connection closed, as if there were no gpud."""
    refused = asyncio.run(launch_on(DyingZygote("killed"), tmp_path))
    assert refused.status == CudaError.SYSTEM_NOT_READY
    assert "killed by signal 9" in str(refused)


def test_a_worker_that_has_refused_its_client_is_not_answered_for(tmp_path):
    assert asyncio.run(launch_on(DyingZygote("refused"), tmp_path)) is None


class WaitingZygote:
    """Never answers."""

    problem = ""
    sandbox = None

    def __init__(self) -> None:
        self.requested = asyncio.Event()

    async def start_worker(self, *_: object) -> int:
        self.requested.set()
        return await asyncio.get_running_loop().create_future()


def launcher_on(zygote: object, root: Path) -> Launcher:
    settings = _settings(root, weak_sandbox=True)
    budget = Budget(1 << 30)
    contexts = ContextTable(budget, EventBus(for_user=True), lambda _: None)
    return Launcher(settings, zygote, NoCgroups("test"), budget, contexts)


def test_a_client_that_has_hung_up_costs_no_fork(tmp_path):
    async def scenario():
        zygote = WaitingZygote()
        client, its = socket.socketpair()
        client.close()
        hello = hellos.parse(hello_message(MessageType.HELLO_CONTEXT))
        with its, pytest.raises(ConnectionAbortedError):
            await launcher_on(zygote, tmp_path).launch(
                a30_slice.make(), hello, its, Peer(1, 0), Owner(PodUid(""), "")
            )
        assert not zygote.requested.is_set()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_contexts_that_start_count_until_they_have_or_have_not(tmp_path):
    async def scenario():
        zygote, instance = WaitingZygote(), a30_slice.make()
        launcher = launcher_on(zygote, tmp_path)
        client, its = socket.socketpair()
        hello = hellos.parse(hello_message(MessageType.HELLO_CONTEXT))
        with client, its:
            started = asyncio.create_task(
                launcher.launch(instance, hello, its, Peer(1, 0), Owner(PodUid(""), ""))
            )
            await zygote.requested.wait()
            assert launcher.count(instance.uuid) == 1
            started.cancel()
            await asyncio.gather(started, return_exceptions=True)
        assert launcher.count(instance.uuid) == 0

    asyncio.run(asyncio.wait_for(scenario(), 30))


async def launch_on(zygote: DyingZygote, root: Path) -> HelloRefused | None:
    launcher = launcher_on(zygote, root)
    client, its = socket.socketpair()
    hello = hellos.parse(hello_message(MessageType.HELLO_CONTEXT))
    with client, its:
        try:
            await launcher.launch(a30_slice.make(), hello, its, Peer(1, 0), Owner(PodUid(""), ""))
        except HelloRefused as refused:
            return refused
        finally:
            zygote.process.wait()
    return None


@pytest.mark.parametrize(
    ("message", "descriptors"),
    [
        ({"type": "spawn", "worker": {}}, []),
        ({"type": "spawn", "worker": {}}, [0]),
        ({"type": "spawn", "worker": {}}, [0, 1, 2]),
        ({"type": "other", "worker": {}}, [0, 1]),
        ({"type": "spawn"}, [0, 1]),
        ({"type": "spawn", "worker": []}, [0, 1]),
    ],
)
def test_a_zygote_forks_for_nothing_but_a_whole_spawn_message(monkeypatch, message, descriptors):
    def fork() -> int:
        raise AssertionError("it forked")

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(ValueError, match="spawn message"):
        forking.Zygote._spawn(cast("forking.Zygote", None), message, descriptors)


def _settings(cache_root: Path, *, weak_sandbox: bool) -> WorkerSettings:
    return WorkerSettings(
        backend="interp",
        threads=1,
        capability=None,
        own_uids=False,
        strict_cpu=False,
        cache_root=cache_root,
        weak_sandbox=weak_sandbox,
    )
