"""Changes of sources, for tests of what stores depend on."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.kept import kernels


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
