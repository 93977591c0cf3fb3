"""A child process: Atheris (libFuzzer for Python) drives a target, guided by the code it covers.

``python -m support.fuzzers.hostile_text.guidance STAGE FOLDER RUNS NUMBER``. Failures are written to
``FOLDER/found`` and the run continues; the texts that reached new code stay in ``FOLDER/corpus``,
where other children find them. ``FOLDER/child-NUMBER.json`` holds the number of texts so far.
libFuzzer ends the process if native code hangs, and records that in ``FOLDER/found``, too.
"""

import gc
import hashlib
import json
import os
import resource
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import atheris

from support.fuzzers.hostile_text.coverage import Coverage
from support.fuzzers.hostile_text.mutations import COUNTS, excerpt, mutate

if TYPE_CHECKING:
    from support.fuzzers.hostile_text.targets import Target

_INSTRUMENTED = {
    "parse": ["vgpu_sim.compiler.ptx"],
    "isa": ["vgpu_sim.compiler", "vgpu_sim.isa.verify", "vgpu_sim.isa.rules"],
    "llvm": ["vgpu_sim.compiler.lower", "vgpu_sim.exec.jit"],
}
_HANG_SECONDS = 300  # of wall time: for native code, which Python's timers cannot interrupt
_NOTED_EVERY = {"parse": 200, "isa": 100, "llvm": 10}
_GARBAGE_OBJECTS = 50_000  # between collections: texts leave no objects behind
_RELOADED_SECONDS = 20  # interval at which other children's texts are read
# Shares of mutations
_FRESH = {"parse": 0.3, "isa": 0.4, "llvm": 0.6}  # of the initial texts
_DEPTH = {"parse": 2, "isa": 1, "llvm": 1}  # maximum number of successive mutations
_COUNTS = {"parse": COUNTS, "isa": (1, 1, 1, 1, 2, 3), "llvm": (1, 1, 1, 1, 2, 3)}  # of changes
_GENERIC = 0.15  # made by libFuzzer itself
_LONG = 0.04  # of texts that are not cut to an excerpt
_SHORT_BYTES = 1500
# One of so many children reports all comparisons to libFuzzer, which doubles the cost of an input.
_COMPARING = 4


class Inputs:
    """Creates texts and has them examined; after ``runs`` of them the process ends."""

    def __init__(self, target: "Target", stage: str, folder: Path, runs: int, number: int) -> None:
        from support.fuzzers.hostile_text import seeds

        self._target, self._stage, self._folder = target, stage, folder
        self._runs = runs
        self._report = folder / f"child-{number}.json"
        self._texts = [*seeds.texts(), *seeds.corpus()]
        self._made = False
        self._done = 0
        for text in self._texts:
            data = text.encode()
            name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
            (folder / "corpus" / name).write_bytes(data)

    def change(self, data: bytes, most: int, number: int) -> bytes:
        """Return a mutation of a text that reached new code, or of one of the initial texts."""
        random = Random(number)
        self._made = True
        text = data.decode(errors="replace")
        generic = random.random() < _GENERIC
        if not generic and random.random() < _FRESH[self._stage]:
            text = random.choice(self._texts)
        if len(text) > _SHORT_BYTES and random.random() > _LONG:
            most = min(most, 2 * _SHORT_BYTES)
            text = excerpt(text, random)
        if generic:
            return bytes(atheris.Mutate(text.encode(errors="replace")[:most], most))
        text = mutate(text, random, self._texts, most, _COUNTS[self._stage])
        return text.encode(errors="replace")[:most]

    def examine(self, data: bytes) -> None:
        """Record a failure. Texts that were made earlier, by any child, do not count."""
        reached = dict(self._target.reached)
        failure = self._target.examine(data)
        if failure is not None:
            keep(self._folder, failure.kind, failure.detail, data)
        if not self._made:
            self._target.reached = reached
            return
        self._made = False
        self._done += 1
        if self._done % _NOTED_EVERY[self._stage] == 0 or self._done >= self._runs:
            self._note()
        if self._done >= self._runs:
            self._target.close()
            os._exit(0)  # libFuzzer also counts earlier texts, and would end too early

    def _note(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        said = {
            "runs": self._done,
            "reached": self._target.reached,
            "cpu_seconds": used.ru_utime + used.ru_stime,
        }
        new = self._report.with_suffix(".new")
        new.write_text(json.dumps(said))
        os.replace(new, self._report)


def main(stage: str, folder: Path, runs: int, number: int) -> None:
    """Run ``runs`` inputs."""
    coverage = Coverage()
    with coverage.instrument(_INSTRUMENTED[stage], number % _COMPARING == 0):
        from support.fuzzers.hostile_text import seeds
        from support.fuzzers.hostile_text.targets import Target
    for name in ("corpus", "found"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    inputs = Inputs(Target(stage), stage, folder, runs, number)
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS)

    def one(data: bytes) -> None:
        coverage.begin()
        inputs.examine(data)
        coverage.tell()

    arguments = [
        *(f"-seed={number}", f"-max_len={seeds.MAX_BYTES}", "-len_control=0"),
        f"-mutate_depth={_DEPTH[stage]}",
        *(f"-timeout={_HANG_SECONDS}", "-rss_limit_mb=4096", "-report_slow_units=100000"),
        *("-print_final_stats=0", "-verbosity=0", f"-reload={_RELOADED_SECONDS}"),
        *(f"-artifact_prefix={folder}/found/", str(folder / "corpus")),
    ]
    atheris.Setup([sys.argv[0], *arguments], one, custom_mutator=inputs.change)
    atheris.Fuzz()


def keep(folder: Path, kind: str, detail: str, data: bytes) -> None:
    """Keep the smallest text of each kind of failure."""
    name = "".join(c if c.isalnum() or c in "._" else "-" for c in kind)[:100]
    text = folder / "found" / f"{name}.ptx"
    if not text.exists() or text.stat().st_size > len(data):
        text.write_bytes(data)
        (folder / "found" / f"{name}.txt").write_text(f"{kind}\n{detail}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
