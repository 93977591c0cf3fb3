"""Inside a slice: all contenders of one contest, each run when the parent names it.

``python -m benchmarks.exec.client CONTEST [--quick] [--only CONTENDER]...`` under ``tessera run``.
Prints one line of JSON when all are built and their results checked. Then it answers each line that
names a contender with the seconds of one run of it.
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.compile_c import CompilerMissing
from benchmarks.exec import native
from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.contest import (
    NATIVE,
    OURS,
    POCL,
    Buffers,
    Contest,
    KernelMissing,
    Problem,
    Rival,
    Work,
    WrongResult,
)
from benchmarks.exec.opencl import OpenCl, OpenClMissing, opencl_source
from benchmarks.exec.ours import Ours, read_ptx

_SAMPLE_S = 2e-3  # short work is repeated for this long in each round, and its median counts
_MOST_REPEATS = 2000
_WARM_S = 0.2  # each contender first runs this long, so that better code can be compiled meanwhile


class Contenders:
    """The contenders, their descriptions of themselves, and the reasons for absent ones."""

    def __init__(
        self, contest: Contest, quick: bool, only: frozenset[str] = frozenset(), timed: bool = True
    ) -> None:
        self._contest = contest
        self._problem: Problem = contest.make(quick)
        self._only, self._timed = only, timed
        self._repeats: dict[str, int] = {}
        self.works: dict[str, Work] = {}
        self.missing: dict[str, str] = {}
        self.wrong: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def enter_all(self) -> None:
        """Build, check and calibrate all contenders."""
        self._enter(OURS, self._ours)
        if opencl_source(self._contest.source).exists():
            self._enter(POCL, self._pocl)
        if self._problem.native is not None:
            self._enter(NATIVE, self._native)
        for name, rival in self._problem.rivals.items():
            self._enter(name, functools.partial(self._rival, rival))
        for name, make in self._problem.libraries.items():

            def library(
                make: Callable[[Buffers], Work] = make,
            ) -> tuple[Work, Callable[[], Buffers]]:
                buffers = native.align_to_pages(self._problem.buffers)
                return make(buffers), lambda: buffers

            self._enter(name, library)
        for name, measure in self._problem.yardsticks.items():
            if self._is_selected(name):
                self._calibrate(name, measure())

    def run(self, name: str) -> float:
        """Return the seconds of one run: the median of a sample, after a warm-up."""
        work = self.works[name]
        work()
        return statistics.median(_seconds(work) for _ in range(self._repeats[name]))

    def _enter(self, name: str, make: Callable[[], tuple[Work, Callable[[], Buffers]]]) -> None:
        if not self._is_selected(name):
            return
        try:
            work, results = make()
        except (OpenClMissing, CompilerMissing, KernelMissing) as err:
            self.missing[name] = str(err)
            return
        work()
        try:
            self._problem.check(results())
        except WrongResult as err:
            self.wrong[name] = str(err)
            return
        self._calibrate(name, work)

    def _is_selected(self, name: str) -> bool:
        return not self._only or name in self._only

    def _calibrate(self, name: str, work: Work) -> None:
        self.works[name] = work
        if not self._timed:
            return
        once, begun = _seconds(work), time.perf_counter()
        while time.perf_counter() - begun < _WARM_S:
            once = min(once, _seconds(work))
        self._repeats[name] = max(1, min(_MOST_REPEATS, int(_SAMPLE_S / once)))

    def _ours(self) -> tuple[Work, Callable[[], Buffers]]:
        ptx = self._problem.ptx or read_ptx(self._contest.source)
        return self._rival(Rival(ptx, self._problem.launches))

    def _rival(self, rival: Rival) -> tuple[Work, Callable[[], Buffers]]:
        ours = Ours(rival.ptx, self._problem.buffers, rival.launches)
        return ours.work(), ours.results

    def _pocl(self) -> tuple[Work, Callable[[], Buffers]]:
        opencl = OpenCl(self._contest.source, self._problem.buffers, self._problem.launches)
        self.versions[POCL] = opencl.version
        return opencl.work(), opencl.results

    def _native(self) -> tuple[Work, Callable[[], Buffers]]:
        assert self._problem.native is not None
        buffers = native.align_to_pages(self._problem.buffers)
        with tempfile.TemporaryDirectory() as folder:
            library = native.build(self._contest.source, Path(folder))
            work = native.work(library, self._problem.native, buffers)
        self.versions[NATIVE] = native.version()
        return work, lambda: buffers


def _seconds(work: Work) -> float:
    begun = time.perf_counter()
    own = work()
    return time.perf_counter() - begun if own is None else own


def main() -> None:
    """Serve the parent until it closes the pipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contest", choices=CONTESTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    contenders = Contenders(CONTESTS[options.contest], options.quick, frozenset(options.only))
    try:
        contenders.enter_all()
    except subprocess.CalledProcessError as err:
        sys.exit(f"{err.cmd[0]} refused the C source: {err}")
    contenders.versions["numpy"] = np.__version__
    about = {
        "contenders": list(contenders.works),
        "missing": contenders.missing,
        "wrong": contenders.wrong,
        "versions": contenders.versions,
    }
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        print(contenders.run(line.rstrip("\n")), flush=True)


if __name__ == "__main__":
    main()
