"""Run all cases in several processes, each with a context of its own, within a time limit.

A process that loses its context, or stays at a case for too long, is replaced by another one, which
continues with the next case. Results are written as they come.
"""

import collections
import contextlib
import json
import mmap
import os
import signal
import struct
import tarfile
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.silicon.values import bundle, results
from benchmarks.silicon.values.driver import CallError, Driver
from benchmarks.silicon.values.execution import Lost, execute

_POLL_SECONDS = 0.1
_MOST_BYTES = 12 << 20  # of uncompressed results, from which on outputs are cut
_FIRST_BYTES = 1024
_MOST_PACKED = 7 << 20
_packed = mmap.mmap(-1, 8)  # bytes of packed results of all processes


class Worker:
    """A process that runs every ``count``-th case, and what the parent knows of it."""

    def __init__(self, number: int, count: int, folder: Path) -> None:
        self.number, self.count = number, count
        self.file = folder / f"results{number}"
        self.cell = mmap.mmap(-1, 24)  # the case that runs, since when, and bytes of packed results
        self.next, self.pid = number, 0

    def note(self, index: int) -> None:
        struct.pack_into("<qd", self.cell, 0, index, time.monotonic())

    def state(self) -> tuple[int, float]:
        index, since = struct.unpack_from("<qd", self.cell, 0)
        return index, time.monotonic() - since

    def start(self, cases: list[dict[str, Any]], store: bundle.Store) -> None:
        self.note(self.next)
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            self._work(cases, store)
            status = 0
        except BaseException:  # noqa: BLE001 - the child must not continue as the parent
            traceback.print_exc()
        finally:
            os._exit(status)

    def _work(self, cases: list[dict[str, Any]], store: bundle.Store) -> None:
        try:
            driver = Driver()
        except CallError as error:
            self.write({"id": "context", "status": str(error)})
            time.sleep(1)
            os._exit(3)
        for index in range(self.next, len(cases), self.count):
            self.note(index)
            try:
                report = execute(driver, cases[index], store)
            except Lost as lost:
                self.write(lost.args[0])
                self.note(index + self.count)
                os._exit(2)
            except Exception as error:  # noqa: BLE001 - the next case may run
                report = {"id": cases[index]["id"], "status": f"{type(error).__name__} {error}"}
            self.write(report, cases[index].get("known"), cases[index].get("ramp"))
        self.note(len(cases))

    def write(
        self,
        report: dict[str, Any],
        known_digests: list[str] | None = None,
        ramp: list[Any] | None = None,
    ) -> None:
        """Append a report, and those of its outputs whose digests are not in ``known_digests``."""
        outputs = report.pop("outputs", [])
        report["outputs"] = [(n, bundle.digest(data), len(data)) for n, data in outputs]
        kept_outputs = [
            d for _, d in outputs if not known_digests or bundle.digest(d) not in known_digests
        ]
        if ramp:
            from benchmarks.silicon.values import ramps  # needs NumPy

            kept_outputs = [ramps.pack(data, ramp) for data in kept_outputs]
        (packed,) = struct.unpack_from("<q", self.cell, 16)
        if ramp:
            total = struct.unpack_from("<q", _packed)[0] + sum(map(len, kept_outputs))
            if total > _MOST_PACKED:
                report["left out"] = [len(data) for data in kept_outputs]
                kept_outputs = []
            else:
                struct.pack_into("<q", _packed, 0, total)
            struct.pack_into("<q", self.cell, 16, packed + sum(map(len, kept_outputs)))
        size = self.file.stat().st_size if self.file.exists() else 0
        if not ramp and size - packed > _MOST_BYTES // self.count:
            kept_outputs = [data[:_FIRST_BYTES] for data in kept_outputs]
        report["kept"] = [len(data) for data in kept_outputs]
        with self.file.open("ab") as file:
            file.write(json.dumps(report).encode() + b"\n" + b"".join(kept_outputs))


def run(
    folder: Path,
    output: Path,
    seconds: float,
    processes: int,
    each_seconds: float,
    new: bool = False,
) -> Path:
    """Run the cases below ``folder``; return the archive of results in ``output``.

    With ``new``, run only those whose outputs are not known.
    """
    cases, store = bundle.read(folder)
    if new:
        cases = [case for case in cases if not case.get("known")]
    output.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="values-"))
    end = time.monotonic() + seconds
    workers = [Worker(n, processes, scratch) for n in range(processes)]
    for worker in workers:
        worker.start(cases, store)
    hung = 0
    while any(worker.pid for worker in workers) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        for worker in workers:
            hung += _supervise(worker, cases, store, each_seconds)
    for worker in workers:
        if worker.pid:
            _end(worker)
    archive = output / "values.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for path in sorted(scratch.iterdir()):
            file.add(path, path.name)
    elapsed_s = seconds - (end - time.monotonic())
    _summarise(archive)
    print(f"{len(cases)} cases, {processes} processes, {elapsed_s:.1f} s, {hung} ended by a limit")
    return archive


def _summarise(archive: Path) -> None:
    """Print how the cases ended."""
    counts = collections.Counter(report["status"] for report, _ in results.read(archive))
    for status, count in counts.most_common(25):
        print(f"{count:6} {status}")


def _supervise(
    worker: Worker, cases: list[dict[str, Any]], store: bundle.Store, each_seconds: float
) -> int:
    """Replace a process that has ended or hangs; return the number of those that hung."""
    if not worker.pid:
        return 0
    index, since = worker.state()
    ended = os.waitpid(worker.pid, os.WNOHANG)[0] == worker.pid
    limit = cases[index].get("seconds", each_seconds) if index < len(cases) else each_seconds
    hangs = not ended and since > limit
    if not ended and not hangs:
        return 0
    if hangs:
        _end(worker)
    worker.pid = 0
    if index >= len(cases):
        return 0
    again = worker.state()[0]
    lost = ended and again > worker.next
    if not lost or hangs:
        name = cases[index]["id"] if index < len(cases) else "?"
        worker.write({"id": name, "status": "no end" if hangs else "process ended"})
        index += worker.count
    worker.next = index
    if index < len(cases):
        worker.start(cases, store)
    return int(hangs)


def _end(worker: Worker) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(worker.pid, signal.SIGKILL)
        os.waitpid(worker.pid, 0)
    worker.pid = 0
