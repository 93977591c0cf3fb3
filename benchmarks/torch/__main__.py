"""Compare PyTorch's operators, or models, on the device with the CPU (`make torch`)."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from benchmarks.clients.catalogue.stock_wheels import PYTORCH
from benchmarks.clients.environment import OUT, TESSERA, install, python_of
from benchmarks.on_slice import BOARD, REPOSITORY
from benchmarks.torch import models, other_types, table, training
from benchmarks.torch.rules import coverage, report, sweep

_CLIENT = dataclasses.replace(
    PYTORCH,
    name="pytorch-operators",
    packages=(*PYTORCH.packages, "expecttest==0.3.0", "transformers==5.24.0"),
)
_PROGRAM = REPOSITORY / "benchmarks" / "torch" / "program" / "sweep.py"
_TRAIN = _PROGRAM.with_name("train.py")
_MODELS = _PROGRAM.with_name("models.py")
_RULES = _PROGRAM.with_name("rules.py")
_CONTEXT_FAILED = 3  # the sweep's exit status: a new process goes on
_MOST_PROCESSES = 100
_SAMPLES = 2  # of an operator, unless the command line names another number


def main() -> int:
    """Exit status: 0 the sweep reached its end, 1 it did not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run found")
    parser.add_argument("--only", action="append", default=[], help="an operator's name")
    parser.add_argument("--dtype", default="float32", help="the samples' type")
    parser.add_argument("--samples", type=int, default=_SAMPLES, help="of each operator; 0: all")
    parser.add_argument("--train", action="store_true", help="train models instead")
    parser.add_argument("--models", action="store_true", help="run Hugging Face's models instead")
    parser.add_argument("--rules", action="store_true", help="compare with CUDA's rules instead")
    parser.add_argument("--python", type=Path, help="an environment that has the packages")
    parser.add_argument("--record", action="store_true", help="record the outcomes, for the page")
    parser.add_argument("--page", action="store_true", help="update docs/pytorch.md, and end")
    options = parser.parse_args()
    if options.page:
        table.update_page()
        return 0
    folder = OUT / _CLIENT.name
    folder.mkdir(parents=True, exist_ok=True)
    compared = options.dtype
    if options.samples != _SAMPLES:
        kind = f"{options.samples}-samples" if options.samples else other_types.ALL_SAMPLES
        compared = f"{compared}.{kind}"
    is_usual = compared == "float32"
    recorded = table.RECORDED if is_usual else other_types.path_of(compared)
    name = "operators" if is_usual else f"operators.{compared}"
    out = folder / f"{name}.jsonl"
    if options.fresh:
        out.unlink(missing_ok=True)
    if options.python is None:
        install(_CLIENT)
    python = options.python or python_of(_CLIENT)
    if options.train:
        return _run(_command(python, _TRAIN), training, options.record)
    if options.models:
        return _run(_command(python, _MODELS), models, options.record)
    if options.rules:
        return _compare_with_rules(python, folder, options.fresh, options.only)
    samples = ["--samples", str(options.samples)]
    chosen = ["--dtype", options.dtype, *samples, "--commit", _commit(), *options.only]
    ended = _sweep(_command(python, _PROGRAM), out, chosen)
    outcomes = table.read(out)
    print(table.render(outcomes))
    if options.record:
        table.record(recorded, outcomes, _commit())
    return 0 if ended else 1


def _command(python: Path, program: Path) -> list[str]:
    return [*TESSERA, "run", "--board", BOARD, "--preload", "13", "--", str(python), str(program)]


def _compare_with_rules(python: Path, folder: Path, is_fresh: bool, only: list[str]) -> int:
    """Compare rows with the device, and operators without a row with the CPU."""
    out, without_rules = folder / "rules.jsonl", folder / "operators.without-rules.jsonl"
    if is_fresh:
        out.unlink(missing_ok=True)
        without_rules.unlink(missing_ok=True)
    ended = sweep.run(_command(python, _RULES), out, only)
    # The program compares all operators with the CPU if none is named.
    if coverage.without_rows() and not only:
        names = ["--dtype", "float32", "--samples", str(_SAMPLES), "--commit", _commit()]
        compared = [*names, *coverage.without_rows()]
        ended &= _sweep(_command(python, _PROGRAM), without_rules, compared)
    records, on_cpu = report.read(out), table.read(without_rules)
    print(report.render(records, on_cpu))
    is_right = report.is_as_expected(records) and all(map(report.is_right, on_cpu))
    return 0 if ended and is_right else 1


def _run(command: list[str], page: ModuleType, is_recorded: bool) -> int:
    """Run a program that prints a line of JSON for each model; return the exit status."""
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    runs = [json.loads(line) for line in process.stdout.splitlines()]
    print(page.render(runs))
    if is_recorded and process.returncode == 0:
        today = datetime.now(UTC).date().isoformat()
        document = {"commit": _commit(), "date": today, "runs": runs}
        page.RECORDED.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if process.returncode else 0


def _sweep(command: list[str], out: Path, options: list[str]) -> bool:
    """Run the program until it has reached its end; return whether it has."""
    for _ in range(_MOST_PROCESSES):
        process = subprocess.run([*command, str(out), *options], env=dict(os.environ), check=False)
        if process.returncode == 0:
            return True
        running = Path(f"{out}.running")
        if process.returncode != _CONTEXT_FAILED:
            if not running.exists():
                return False
            line = {
                "name": running.read_text(),
                "forward": "died",
                "forward reason": f"status {process.returncode}",
            }
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            running.unlink()
    return False


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
