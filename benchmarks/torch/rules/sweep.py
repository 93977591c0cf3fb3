"""The sweep's processes: a new one continues where a lost one ended."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_CONTEXT_FAILED = 3  # the program's exit status after which a new process continues
_MOST_PROCESSES = 100


def run(command: Sequence[str], out: Path, options: Sequence[str]) -> bool:
    """Run the program until it has reached its end; return whether it has."""
    running = Path(f"{out}.running")
    running.unlink(missing_ok=True)
    for _ in range(_MOST_PROCESSES):
        process = subprocess.run([*command, str(out), *options], env=dict(os.environ), check=False)
        if process.returncode == 0:
            return True
        if process.returncode == _CONTEXT_FAILED:
            continue
        if not running.exists():
            return False
        record_loss(out, running, process.returncode)
    return False


def record_loss(out: Path, running: Path, status: int) -> None:
    """Record that the process ended while it compared a row, so that the next one skips the row."""
    name, dtype = json.loads(running.read_text(encoding="utf-8"))
    reason = f"the process ended with status {status}"
    record = {
        "name": name, "dtype": dtype, "agrees": 0, "refused": 0, "elements": 0,
        "differs": [{"call": "", "label": dtype, "reason": reason}],
    }  # fmt: skip
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    running.unlink()
