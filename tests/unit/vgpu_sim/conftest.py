"""What several files of tests share here."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.rigs import hca_rig
from support.rigs.hca_parts import Parts
from vgpu_sim.fabric.engine import Engine


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    """Two engines of the HCA: two nodes of a wire."""
    with ExitStack() as stack:
        yield [stack.enter_context(hca_rig.running_engine()) for _ in range(2)]


@pytest.fixture(scope="session")
def compiled_parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Compile parts of the HCA's engine, once."""
    return Parts(tmp_path_factory.mktemp("parts"))
