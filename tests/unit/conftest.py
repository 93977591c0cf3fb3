"""The files of the repository, for tests that read all of them."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tracked_files() -> list[str]:
    """Return the paths of all tracked files that exist, relative to the repository's root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [name for name in listed if (ROOT / name).is_file()]
