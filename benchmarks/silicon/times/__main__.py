"""Times of a real GPU (docs/silicon.md): ``python -m benchmarks.silicon.times COMMAND``.

record DIRECTORY               write a bundle of kernels and the program that times them
run DIRECTORY RESULTS          time the bundle on the first GPU of this machine
predict DIRECTORY FILE         predict the bundle's points, without a GPU
compare DIRECTORY RESULTS... FILE  print measured beside predicted times, by class
"""

import argparse
import json
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.silicon.times import (
    caches,
    chains,
    compare,
    contention,
    programs,
    shared_memory,
    streams,
    tensor,
    warp_groups,
)
from benchmarks.silicon.times.predict import predict
from vgpu_sim.perf.kernels import chip_of

_HERE: Final = Path(__file__).parent
_SECONDS: Final = 38  # after which a bundle starts no further point
_BUNDLES: Final = {
    "one": (chains, shared_memory),
    "two": (streams, programs),
    "three": (tensor,),
    "four": (contention, caches),
    "five": (warp_groups,),
}


def record(directory: Path) -> None:
    """Write the bundles, the programs that time them, and the script that runs them."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("runner.py", "contents.py", "clocks.py", "facts.py", "run.sh"):
        shutil.copy(_HERE / name, directory / name)
    for name, rooms in _BUNDLES.items():
        points = [point.as_dict() for room in rooms for point in room.points()]
        text = json.dumps({"points": points, "limit_s": _SECONDS})
        (directory / f"bundle_{name}.json").write_text(text, encoding="utf-8")


def run(directory: Path, results: Path) -> None:
    """Time the bundles on this machine's first GPU."""
    results.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "OUT": str(results.resolve())}
    subprocess.run(["bash", str(directory / "run.sh")], env=environment, check=True)
    subprocess.run(["tar", "xzf", "times.tar.gz"], cwd=results, check=True)


def _points(directory: Path) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    for path in sorted(directory.glob("bundle_*.json")):
        points += json.loads(path.read_text(encoding="utf-8"))["points"]
    return points


def _measured(results: Path) -> dict[str, Any]:
    measurements: dict[str, Any] = {}
    for path in sorted(results.glob("*.json")):
        measurements |= json.loads(path.read_text(encoding="utf-8")).get("points", {})
    return compare.with_events(measurements)


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.silicon.times")
    parser.add_argument("command", choices=("record", "run", "predict", "compare"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--board", default="h100-80gb", help="the board that was measured")
    parser.add_argument("--all", action="store_true", help="compare: also print each point")
    parser.add_argument("--only", default="", help="predict: points whose names contain this")
    chosen = parser.parse_args()
    chip = chip_of(chosen.board)
    match chosen.command, chosen.paths:
        case "record", [directory]:
            record(directory)
        case "run", [directory, results]:
            run(directory, results)
        case "predict", [directory, file]:
            points = [point for point in _points(directory) if chosen.only in point["name"]]
            with ProcessPoolExecutor(2) as pool:
                guesses = list(pool.map(partial(predict, chosen.board), points))
            named = {p["name"]: guess for p, guess in zip(points, guesses, strict=True)}
            file.write_text(json.dumps(named), encoding="utf-8")
        case "compare", [directory, *runs, file] if runs:
            predicted = json.loads(file.read_text(encoding="utf-8"))
            measured: dict[str, Any] = {}
            for results in reversed(runs):  # of several runs, the first that has a point
                measured |= _measured(results)
            rows = compare.rows_of(chip, _points(directory), measured, predicted)
            if chosen.all:
                print(*compare.listing(rows), sep="\n")
            for text, is_fitting in (("half for fitting", True), ("half for checking", False)):
                print(f"\n{text}")
                chosen_rows = [
                    row for row in rows if compare.is_for_fitting(row.name) is is_fitting
                ]
                print(*compare.summary(chosen_rows), sep="\n")
        case _:
            parser.error(f"wrong number of paths for {chosen.command}")


if __name__ == "__main__":
    main()
