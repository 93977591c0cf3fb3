"""What several files of tests share here."""

from collections.abc import Iterator

import pytest

from support.processes.worker_client import Zygote, running_zygote
from support.rigs.engine_fixtures import engine, engines, fresh_engine, pair
from support.rigs.hca_parts import Parts

__all__ = ["engine", "engines", "fresh_engine", "pair"]


@pytest.fixture(scope="session")
def compiled_parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Compile parts of the HCA's engine, once."""
    return Parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A zygote that the tests of a module share."""
    with running_zygote() as running:
        yield running
