"""These tests run programs through everything that is ours; without its native parts they cannot."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.tessera_run import LIBCUDA, processes_naming
from support.rigs.engine_fixtures import engine

__all__ = ["engine"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of a short name; afterwards nothing may be left of any run in it."""
    if not LIBCUDA.exists():
        pytest.skip(f"NOT RUN: no {LIBCUDA.name}: python -m vgpu_sim.native.build")
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp") as name:
        yield Path(name)
        assert not list(Path(name).glob("tessera-*")), "a run left its directory behind"
        assert not processes_naming(name), "a run left processes behind"
