"""Keeps the zygote running and requests workers from it (contract: ``vgpu_sim.hal.compute.spawn``).

The zygote is executed, never forked from gpud. When it dies, or does not answer, it is restarted
after a pause, which grows with repeated failures; its workers keep running, and gpud watches them
by their pidfds. Requests that the zygote had not begun are sent to the next one.
"""

import asyncio
import itertools
import logging
import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from vgpu_sim.gpud.errors import WorkerStartError
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.records import dataclass
from vgpu_sim.system import processes, python_process, seqpacket

logger = logging.getLogger("tessera.gpud")

ZYGOTE_MODULE = "vgpu_sim.zygote"
# Shorter than the minute for which programs wait. A zygote needs a second for its imports; it
# starts in time even on a machine whose load is twenty times its number of CPUs.
SPAWN_TIMEOUT_SECONDS = 45.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
STEADY_SECONDS = 30.0  # after this time a zygote counts as healthy, and the pause is reset
# A silent zygote is ended in time for programs that wait for it: the next one serves them. Seconds
# are counted by gpud's loop, so a gpud that was itself stopped, or starved, ends no zygote.
MOST_SILENT_SECONDS: Final = 20
_CHECK_SECONDS: Final = 1.0
_END_SECONDS: Final = 1.0
_MESSAGE_BYTES = 64 << 10


@dataclass(slots=True)
class _Request:
    """A request for a worker. ``outcome`` gets the worker's pid, or None if another zygote must
    get the request.

    ``is_begun`` says that the zygote has begun to start the worker, which may serve the client.
    """

    outcome: asyncio.Future[int | None]
    is_begun: bool = False


class Zygote:
    """Supervises the zygote. ``on_exit`` gets (pid, wait status) of every worker that ends.

    ``worker_uid`` is a uid that workers may have, or None if they run as gpud's user.
    ``sandbox`` maps each sandbox mechanism to its availability, as reported by the zygote; None
    before that report.
    """

    def __init__(self, on_exit: Callable[[int, int], None], worker_uid: int | None = None) -> None:
        self.on_exit = on_exit
        self._worker_uid = worker_uid
        self.sandbox: dict[str, bool] | None = None
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[int, _Request] = {}
        self._unanswered = 0  # requests, also those whose client no longer waits
        self._is_ready = False
        self._silent_checks = 0
        self._numbers = itertools.count(1)
        self._up = asyncio.Event()
        self._last_failure = ""
        self._supervisor: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Keep the zygote running in the background until ``end``."""
        self._supervisor = asyncio.create_task(self.supervise())

    async def end(self) -> None:
        """End the zygote; its workers keep running."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervisor

    @property
    def problem(self) -> str:
        """The reason why no worker can start now; empty if one can."""
        return "" if self._up.is_set() else self._last_failure

    @property
    def pid(self) -> int | None:
        """The zygote's pid while it runs."""
        return self._process.pid if self._process is not None else None

    async def start_worker(
        self, config: WorkerConfig, client: socket.socket, channel: socket.socket
    ) -> int:
        """Start a worker that gets the sockets ``client`` and ``channel``, and return its pid.

        Raises:
            WorkerStartError: the zygote refused, died, or did not answer in time.
        """
        try:
            async with asyncio.timeout(SPAWN_TIMEOUT_SECONDS):
                while True:
                    await self._up.wait()
                    pid = await self._request_worker(config, client, channel)
                    if pid is not None:
                        return pid
        except TimeoutError as err:
            reason = self._last_failure or "no answer"
            raise WorkerStartError(f"zygote: {reason}") from err
        except OSError as err:
            raise WorkerStartError(f"zygote: {err}") from err

    async def _request_worker(
        self, config: WorkerConfig, client: socket.socket, channel: socket.socket
    ) -> int | None:
        """Request a worker from this zygote; return None if it ended before it began. Raises
        OSError, WorkerStartError.
        """
        if self._channel is None:
            raise WorkerStartError("the zygote is not running")
        number = next(self._numbers)
        request = _Request(asyncio.get_running_loop().create_future())
        message = {"type": "spawn", "request": number, "worker": config.to_json()}
        self._waiting[number] = request
        try:
            descriptors = [client.fileno(), channel.fileno()]
            await seqpacket.send(self._channel, spawn.encode(message), descriptors)
            self._unanswered += 1
            return await request.outcome
        finally:
            self._waiting.pop(number, None)

    async def request_spare(self, config: WorkerConfig) -> None:
        """Request a spare worker (``worker.spare``) for a later context with settings as in
        ``config``.

        Raises:
            WorkerStartError: the zygote is not running.
            OSError: the request cannot be sent.
        """
        try:
            async with asyncio.timeout(SPAWN_TIMEOUT_SECONDS):
                await self._up.wait()
                if self._channel is None:
                    raise WorkerStartError("the zygote is not running")
                message = {"type": "expect", "worker": config.to_json()}
                await seqpacket.send(self._channel, spawn.encode(message), [])
        except TimeoutError as err:
            raise WorkerStartError("the zygote did not answer") from err

    async def supervise(self) -> None:
        """Run the zygote, restarting it when it dies, until cancelled."""
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await self._run_once()
            except (OSError, ValueError) as err:
                self._last_failure = str(err)
            finally:
                self._stop()
            if loop.time() - started > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            logger.error("zygote_ended reason=%r restart_in_s=%.1f", self._last_failure, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _launch(self) -> socket.socket:
        mine, its = seqpacket.pair()
        mine.setblocking(False)
        user = [] if self._worker_uid is None else [str(self._worker_uid)]
        with its:
            self._process = subprocess.Popen(
                python_process.module_command(ZYGOTE_MODULE, str(its.fileno()), *user),
                env=python_process.module_environment() | spawn.ZYGOTE_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(),),
                start_new_session=True,
            )
        return mine

    async def _run_once(self) -> None:
        """Run a zygote until it ends. Raises OSError, ValueError; TimeoutError if it hangs."""
        channel = self._channel = self._launch()
        self._is_ready, self._unanswered, self._silent_checks = False, 0, 0
        self._up.set()
        logger.info("zygote_started pid=%s", self.pid)
        reading = asyncio.create_task(self._read(channel))
        try:
            while not (await asyncio.wait([reading], timeout=_CHECK_SECONDS))[0]:
                self._check_silence()
            await reading
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        self._last_failure = "it closed its channel"

    async def _read(self, channel: socket.socket) -> None:
        while True:
            packet = await seqpacket.receive(channel, _MESSAGE_BYTES)
            if not packet.data or packet.truncated:
                return
            self._silent_checks = 0
            self._handle(packet.data)

    def _check_silence(self) -> None:
        """Count a check since which the zygote owes an answer and has sent nothing.

        Raises:
            TimeoutError: there were too many. A zygote may take as long to start as a worker.
        """
        if self._is_ready and not self._unanswered:
            self._silent_checks = 0
            return
        self._silent_checks += 1
        limit_s = MOST_SILENT_SECONDS if self._is_ready else SPAWN_TIMEOUT_SECONDS
        if self._silent_checks * _CHECK_SECONDS > limit_s:
            raise TimeoutError(f"it hangs: no answer for {limit_s:.0f} s")

    def _handle(self, data: bytes) -> None:
        match spawn.decode(data):
            case {"type": "ready", "sandbox": dict(sandbox)}:
                self.sandbox, self._is_ready = sandbox, True
                logger.info(
                    "zygote_ready sandbox=%s", ",".join(sorted(w for w in sandbox if sandbox[w]))
                )
            case {"type": "begun", "request": int(number)}:
                if number in self._waiting:
                    self._waiting[number].is_begun = True
            case {"type": "spawned", "request": int(number), "pid": int(pid)}:
                self._settle(number, pid)
            case {"type": "failed", "request": int(number), "error": str(text)}:
                self._settle(number, WorkerStartError(text))
            case {"type": "exited", "pid": int(pid), "status": int(status)}:
                self.on_exit(pid, status)
            case message:
                logger.error("zygote_message_unknown %r", message)

    def _settle(self, number: int, outcome: int | WorkerStartError) -> None:
        self._unanswered -= 1
        request = self._waiting.get(number)
        if request is None or request.outcome.done():
            if isinstance(outcome, int):
                _end_unclaimed(outcome)
            return
        if isinstance(outcome, int):
            request.outcome.set_result(outcome)
        else:
            request.outcome.set_exception(outcome)

    def _stop(self) -> None:
        self._up.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        for request in self._waiting.values():
            if request.outcome.done():
                continue
            if request.is_begun:
                error = WorkerStartError(f"zygote ended: {self._last_failure}")
                request.outcome.set_exception(error)
            else:
                request.outcome.set_result(None)
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # the kernel may be unable to end it
                self._process.wait(_END_SECONDS)
            self._process = None


def _end_unclaimed(pid: int) -> None:
    """End a worker that started after its requester stopped waiting, and so belongs to no
    context.
    """
    logger.warning("worker_unclaimed pid=%d", pid)
    pidfd = processes.open_process(pid)
    if pidfd is not None:
        processes.kill(pidfd)
        os.close(pidfd)
