"""Worker processes that examine kernels; a kernel may crash its worker without ending the fuzzer.

The caller defines kernels and how they are examined; ``Task`` is that of ``make fuzz``.

A worker reports each step before it begins. If it dies or hangs, that is the finding: the
kernel's seed, the plan, the signal, and the last lines of stderr.
"""

import ctypes
import faulthandler
import gc
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, Self, TypeVar

from support.execution import native_launch
from support.fuzzers.fuzzing import trial
from support.fuzzers.fuzzing.trial import Finding, Report
from support.kernels.random_kernels import functions, kernels, meetings
from support.kernels.random_kernels.kernels import Kernel

_FORK = multiprocessing.get_context("fork")
MAX_STAGE_SECONDS = 300.0  # of wall time, on a busy machine
_PR_SET_PDEATHSIG = 1
_KERNELS_PER_WORKER = 400  # then a new worker replaces it, which frees LLVM's memory
_GARBAGE_OBJECTS = 100_000  # between collections: a kernel leaves few objects, none of them old


@dataclass(frozen=True)
class Task:
    """A kernel to examine; without ``plans``, under those of ``trial.choose_plans``."""

    kernel: Kernel
    plan_count: int = 0
    plans: tuple[Any, ...] | None = None

    @property
    def seed(self) -> int:
        return self.kernel.seed


class Seeded(Protocol):
    """The input of workers: anything that a seed identifies."""

    @property
    def seed(self) -> int: ...


Given = TypeVar("Given", bound=Seeded)
Examine = Callable[[Any, trial.Progress], Report]


def _examine(task: Task, progress: trial.Progress) -> Report:
    return trial.examine(task.kernel, progress, plans=task.plans, plan_count=task.plan_count)


@dataclass
class _Worker:
    process: Any
    connection: Connection
    log: str
    task: Seeded | None = None
    stage: str = ""
    since: float = field(default_factory=time.monotonic)
    served: int = 0


class Workers:
    """``jobs`` processes. Use as a context manager."""

    def __init__(
        self, jobs: int, max_stage_seconds: float = MAX_STAGE_SECONDS, examine: Examine = _examine
    ) -> None:
        self._examine = examine
        self._max_stage_seconds = max_stage_seconds
        native_launch.prepare()
        self._directory = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._workers = [self._start(i) for i in range(jobs)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
        self._directory.cleanup()

    def examine(
        self, tasks: Iterator[Given], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Given, Report]]:
        """Yield the report of each task when it is ready, until all tasks are done or time runs
        out.

        Tasks that are running when ``stop`` becomes true are abandoned.
        """
        for index in range(len(self._workers)):
            self._give(index, tasks)
        while any(worker.task for worker in self._workers):
            if stop():
                self._abandon()
                return
            for index, worker in enumerate(self._workers):
                if worker.task is None:
                    continue
                task: Any = worker.task
                report = self._take_report(index)
                if report is not None:
                    self._give(index, tasks)
                    yield task, report
            self._sleep()

    def _sleep(self) -> None:
        busy = [worker for worker in self._workers if worker.task]
        waited: list[Any] = [w.connection for w in busy] + [w.process.sentinel for w in busy]
        if waited:
            wait(waited, timeout=1.0)

    def _give(self, index: int, tasks: Iterator[Given]) -> None:
        worker = self._workers[index]
        if worker.served >= _KERNELS_PER_WORKER:
            worker = self._replace(index)
        worker.task = next(tasks, None)
        if worker.task is not None:
            worker.served += 1
            worker.stage, worker.since = "starting", time.monotonic()
            worker.connection.send(worker.task)

    def _take_report(self, index: int) -> Report | None:
        """Return the report of a worker's task if it has ended; a report of its death if the worker
        died.
        """
        worker = self._workers[index]
        try:
            while worker.connection.poll():
                message = worker.connection.recv()
                if isinstance(message, Report):
                    return message
                worker.stage, worker.since = message, time.monotonic()
        except (EOFError, ConnectionResetError):
            worker.process.join()
        hung = time.monotonic() - worker.since > self._max_stage_seconds
        if worker.process.is_alive() and not hung:
            return None
        assert worker.task is not None
        if hung:
            finding = Finding("worker hangs", worker.stage, "no progress")
        else:
            with open(worker.log, encoding="utf-8", errors="replace") as log:
                finding = trial.crash(-(worker.process.exitcode or 0), worker.stage, log.read())
        report = Report(worker.task.seed, [finding])
        self._replace(index)
        return report

    def _replace(self, index: int) -> _Worker:
        old = self._workers[index]
        old.process.kill()
        old.process.join()
        old.connection.close()
        self._workers[index] = self._start(index)
        return self._workers[index]

    def _abandon(self) -> None:
        for index, worker in enumerate(self._workers):
            if worker.task is not None:
                self._replace(index)

    def _start(self, index: int) -> _Worker:
        ours, theirs = _FORK.Pipe()
        log = os.path.join(self._directory.name, f"worker{index}.log")
        process = _FORK.Process(target=_serve, args=(theirs, log, self._examine), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, log)


def _serve(connection: Connection, log: str, examine: Examine) -> None:
    # other workers have the pipe's other end, too
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(descriptor, 2)
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS)
    faulthandler.disable()  # LLVM's message about its end is more useful than our stack
    while True:
        try:
            task = connection.recv()
        except (EOFError, KeyboardInterrupt):
            os._exit(0)
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
        connection.send(examine(task, connection.send))


def tasks(
    seeds: Iterator[int], plan_count: int, *, meet: bool = False, calls: bool = False
) -> Iterator[Task]:
    """Yield a task for each seed's kernel.

    ``meet`` selects kernels whose threads synchronize, ``calls`` kernels with functions and local arrays.
    """
    generate = meetings.generate if meet else functions.generate if calls else kernels.generate
    return (Task(generate(seed), plan_count) for seed in seeds)
