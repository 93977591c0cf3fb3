"""Records the answers of the GPU that programs on this machine find."""

import json
import tarfile
import tempfile
import time
from pathlib import Path

from benchmarks.silicon.driver import shards

SILENCE_S = {"commands": 60.0}


def main(out: Path, chosen: list[str], within_s: float, processes: int) -> int:
    """Write one file of answers for each group into an archive; print a summary."""
    until = time.monotonic() + within_s
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        answers_by_group = {}
        for group in chosen:
            begun = time.monotonic()
            answers_by_group[group] = record(group, folder, until, processes)
            took = time.monotonic() - begun
            write(out, folder, answers_by_group)
            summarize(group, answers_by_group[group], took)
    return 0


def record(group: str, folder: Path, until: float, processes: int) -> dict[str, object]:
    """Return the answers of one group."""
    silence_s = SILENCE_S.get(group, 9.0)
    parts = [shards.Shard(group, i, processes, folder, silence_s) for i in range(processes)]
    shards.supervise(parts, until)
    return shards.gather(parts)


def write(out: Path, folder: Path, answers_by_group: dict[str, dict[str, object]]) -> None:
    """Write what there is so far: an interrupted recording is a recording."""
    for group, answers in answers_by_group.items():
        (folder / f"{group}.json").write_text(json.dumps(answers, indent=0, sort_keys=True))
    part = out.with_suffix(".part")
    with tarfile.open(part, "w:gz") as archive:
        for path in sorted(folder.iterdir()):
            if path.suffix in (".json", ".err"):
                archive.add(path, path.name)
    part.rename(out)


def summarize(group: str, answers: dict[str, object], took_s: float) -> None:
    """Print how many questions were answered, and which workers ended."""
    ended = [key for key, value in answers.items() if isinstance(value, str)]
    print(
        f"{group}: {len(answers)} questions, {len(ended)} not answered, {took_s:.1f} s", flush=True
    )
    for key in ended[:5]:
        print(f"  {key}: {answers[key]}", flush=True)
