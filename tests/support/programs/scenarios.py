"""Programs that run the scenario of a name, and print what they find as JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[2]


def run_scenario(
    program: Path, scenario: str, environment: Mapping[str, str], *more: object
) -> Any:
    """Run a scenario of a program of the tests, and return what it found."""
    paths = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(program), scenario, *map(str, more)],
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
