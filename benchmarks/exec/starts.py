"""Time from a module's text to the end of its first launch, with an empty cache."""

import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks import on_slice
from benchmarks.exec import long_kernels
from benchmarks.exec.contest import KERNELS
from benchmarks.report import Row, Section

NAME = "first-launch"
CORPUS = "TESSERA_PTX_CORPUS"
_TIMES = 5
_LENGTH = 5000
# Pauses between the start of gpud and client and the context: none, and as long as a program's
# imports take.
_RESTS_S = {"cold": 0, "cold, rested": 2}
_MARK = '["'


def measure(quick: bool) -> Section:
    """Run every kernel in new processes with a new cache each; the best time counts.

    Raises:
        ProgramFailed: a client failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        length = _LENGTH // 10 if quick else _LENGTH
        for generator in (long_kernels.straight, long_kernels.branchy):
            (folder / f"{generator.__name__}.ptx").write_text(generator(length))
        rows = [
            _row(f"{title}, {when}", path, (rest_s, *arguments), goal_ms, 1 if quick else _TIMES)
            for when, rest_s in _RESTS_S.items()
            for title, path, arguments, goal_ms in (
                ("vecadd", KERNELS / "vecadd.ptx", ("vecadd", 256, 1, 256), 25),
                ("naive sgemm", KERNELS / "sgemm_naive.ptx", ("sgemm_naive", 32, 8, 32), 60),
                (f"{length} straight", folder / "straight.ptx", ("straight", 256, 1), 600),
                (f"{length} branchy", folder / "branchy.ptx", ("branchy", 256, 1), 1500),
            )
        ]
    return Section(NAME, (*rows, _worst()))


def _row(title: str, path: Path, arguments: tuple[object, ...], goal_ms: float, times: int) -> Row:
    best = float("inf")
    for _ in range(times):
        with tempfile.TemporaryDirectory() as cache:
            rest_s, *kernel_arguments = arguments
            client = "benchmarks.exec.start_client"
            command = [sys.executable, "-m", client, rest_s, path, *kernel_arguments]
            printed = on_slice.run([str(word) for word in command], {"XDG_CACHE_HOME": cache})
        best = min(best, float(printed))
    return Row(NAME, title, best * 1e3, "ms", goal_ms)


def _worst() -> Row:
    goal_ms, folder = 2000, os.environ.get(CORPUS)
    if not folder:
        why = f"not measured: set {CORPUS}"
        return Row(NAME, "worst of the corpus", 0, "ms", goal_ms, missing=why)
    path = os.pathsep.join([on_slice.PYTHONPATH, str(on_slice.REPOSITORY / "tests")])
    with tempfile.TemporaryDirectory() as cache:
        printed = on_slice.run(
            [sys.executable, "-m", "benchmarks.exec.start_client", "corpus", folder],
            {"XDG_CACHE_HOME": cache, "PYTHONPATH": path},
        )
    # The kernels' own output is mixed in, and not always in whole lines.
    cases = [json.loads(line) for line in printed.splitlines() if line.startswith(_MARK)]
    file, kernel, seconds, _ = max(cases, key=lambda line: line[2])
    failed = [f"{line[0]}/{line[1]}" for line in cases if line[3]]
    failures_text = f", {len(failed)} not right: {', '.join(failed)}" if failed else ""
    title = f"worst of {len(cases)} of the corpus ({file}/{kernel}{failures_text})"
    return Row(NAME, title, seconds * 1e3, "ms", goal_ms)
