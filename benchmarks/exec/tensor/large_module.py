"""The first launch of a large kernel: until its first tier has run, CPU time of all tiers, and in a
process that finds it in the cache.
"""

import os
import resource
import sys
import tempfile
from pathlib import Path

from benchmarks import on_slice
from benchmarks.report import Row, Section

NAME = "large-module"
FOLDER, FILE = "TESSERA_TRITON_PTX", "_attn_bwd.ptx"
_TIMES = 5


def measure(quick: bool) -> Section:
    """Launch Triton's backward kernel of attention. Raises ProgramFailed."""
    path = Path(os.environ.get(FOLDER, "")) / FILE
    if FOLDER not in os.environ or not path.exists():
        why = f"not measured: set {FOLDER} to a folder with {FILE}"
        return Section(NAME, (Row(NAME, "until the first tier has run", 0, "s", 3, missing=why),))
    with tempfile.TemporaryDirectory() as cache:
        start_cpu_s = _cpu_seconds()
        first = _launch(path, cache, "wait")
        spent = _cpu_seconds() - start_cpu_s
        again = min(_launch(path, cache) for _ in range(1 if quick else _TIMES))
    size = f"{path.stat().st_size / 1e3:.0f} kB"
    return Section(
        NAME,
        (
            Row(NAME, f"{size}, until the first tier has run", first, "s", 3),
            Row(NAME, f"{size}, CPU time of all tiers and of the run", spent, "s", 30),
            Row(NAME, f"{size}, in a new process", again * 1e3, "ms", 50),
        ),
    )


def _launch(path: Path, cache: str, *more: str) -> float:
    command = [sys.executable, "-m", "benchmarks.exec.tensor.module_client", str(path), *more]
    return float(on_slice.run(command, {"XDG_CACHE_HOME": cache}))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
