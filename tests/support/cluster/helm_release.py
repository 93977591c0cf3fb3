"""The release that ``deploy/install`` made, and its upgrades as users perform them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from support.cluster.kubectl import SYSTEM

CHART = Path(__file__).parents[3] / "charts" / "tessera"
RELEASE = "tessera"
ENDS_S = 360  # the chart's own job waits 4 minutes for the new operator


def values() -> dict[str, Any]:
    """Return the values with which the release was installed."""
    command = ["helm", "get", "values", RELEASE, "-n", SYSTEM, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout) or {}
    return found


def begin_upgrade(wanted: dict[str, Any], *changed: str) -> subprocess.Popen[str]:
    """Begin an upgrade of the release to exactly these values, apart from those in ``changed``."""
    command = ["helm", "upgrade", RELEASE, str(CHART), "-n", SYSTEM, "--reset-values", "-f", "-"]
    running = subprocess.Popen(
        [*command, *(f"--set={one}" for one in changed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None
    with running.stdin as file:
        json.dump(wanted, file)
    return running


def end_upgrade(running: subprocess.Popen[str]) -> None:
    """Wait for an upgrade. Raises AssertionError with helm's own message if it fails."""
    with running:
        assert running.stderr is not None
        said = running.stderr.read()
        assert running.wait(ENDS_S) == 0, said


def upgrade(wanted: dict[str, Any], *changed: str) -> None:
    """Upgrade the release to exactly these values, apart from those in ``changed``."""
    end_upgrade(begin_upgrade(wanted, *changed))
