"""A child process: Atheris (libFuzzer for Python) drives a target, guided by the code it covers.

``python -m hostile_text.guided STAGE FOLDER RUNS SEED``. What fails is written to ``FOLDER/found``
and the run goes on; the texts that reached new code stay in ``FOLDER/corpus``. libFuzzer ends the
process for a hang in native code, and says so in ``FOLDER/found``, too.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from random import Random

import atheris

_INSTRUMENTED = {
    "parse": ["vgpu_sim.compiler.ptx"],
    "isa": ["vgpu_sim.compiler", "vgpu_sim.isa.verify"],
    "llvm": ["vgpu_sim.compiler.lower", "vgpu_sim.exec.jit"],
}
_HANG_SECONDS = 300  # of wall time: native code that no timer of Python's can end
_NOTED_EVERY = {"parse": 200, "isa": 100, "llvm": 10}
_FRESH = {
    "parse": 0.1,
    "isa": 0.4,
    "llvm": 0.6,
}  # share of mutations of a text that every run begins with
_GENERIC = 0.15  # share of libFuzzer's own mutations


def main(stage: str, folder: Path, runs: int, seed: int) -> None:
    """Run ``runs`` inputs."""
    with atheris.instrument_imports(include=_INSTRUMENTED[stage]):
        from hostile_text import seeds
        from hostile_text.mutations import mutate
        from hostile_text.targets import Target
    target = Target(stage)
    texts = [*seeds.texts(), *seeds.corpus()]
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    (folder / "found").mkdir(exist_ok=True)
    for text in texts:
        data = text.encode()
        (folder / "corpus" / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(
            data
        )
    done = 0

    def note() -> None:
        state = {"runs": done, "reached": target.reached}
        (folder / "child.new").write_text(json.dumps(state))
        os.replace(folder / "child.new", folder / "child.json")

    def one(data: bytes) -> None:
        nonlocal done
        failure = target.examine(data)
        done += 1
        if failure is not None:
            keep(folder, failure.kind, failure.detail, data)
        if done % _NOTED_EVERY[stage] == 0 or done >= runs:
            note()

    def change(data: bytes, most: int, number: int) -> bytes:
        random = Random(number)
        if random.random() < _GENERIC:
            return bytes(atheris.Mutate(data, most))
        text = data.decode(errors="replace")
        if random.random() < _FRESH[stage]:
            text = random.choice(texts)
        return mutate(text, random, texts, most).encode(errors="replace")[:most]

    arguments = [
        *(f"-runs={runs}", f"-seed={seed}", f"-max_len={seeds.MAX_BYTES}", "-len_control=0"),
        *(
            f"-timeout={_HANG_SECONDS}",
            "-rss_limit_mb=4096",
            "-report_slow_units=100000",
            "-print_final_stats=0",
        ),
        *(f"-artifact_prefix={folder}/found/", "-verbosity=0", "-reload=0", str(folder / "corpus")),
    ]
    atheris.Setup([sys.argv[0], *arguments], one, custom_mutator=change)
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
