"""The files of the repository, for tests that read all of them."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.kept import kernels

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def tracked_files() -> list[str]:
    """Return the paths of all tracked files that exist, relative to the repository's root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [name for name in listed if (ROOT / name).is_file()]


@pytest.fixture
def changed_source(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str], AbstractContextManager[None]]:
    """Return a context manager in which a file that compiles or executes kernels has changed."""

    @contextlib.contextmanager
    def change(source: str) -> Iterator[None]:
        changed, real = kernels.root() / source, Path.read_bytes
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", lambda path: real(path) + b"#" * (path == changed))
            kernels.sources.cache_clear()
            try:
                yield
            finally:
                kernels.sources.cache_clear()

    return change
