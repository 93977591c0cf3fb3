"""Fixtures of the HCA's engine; a ``conftest.py`` imports those that its folder uses."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hca.binding.engine import Engine
from support.rigs import hca_rig


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine of the HCA that the tests of a module share."""
    with hca_rig.running_engine() as running:
        yield running


@pytest.fixture
def fresh_engine() -> Iterator[Engine]:
    """An engine of the HCA that no other test uses."""
    with hca_rig.running_engine() as running:
        yield running


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    """Two engines of the HCA, as two nodes on a wire."""
    with ExitStack() as stack:
        yield [stack.enter_context(hca_rig.running_engine()) for _ in range(2)]


@pytest.fixture
def pair(engine: Engine) -> Iterator[hca_rig.Pair]:
    """Two clients of the module's engine with connected queue pairs."""
    made = hca_rig.Pair(engine)
    yield made
    made.close()
