"""What several files of RDMA's tests share here."""

import pytest

from support.rigs.engine_fixtures import engine, engines, fresh_engine, pair
from support.rigs.hca_parts import Parts

__all__ = ["engine", "engines", "fresh_engine", "pair"]


@pytest.fixture(scope="session")
def compiled_parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Compile parts of the HCA's engine, once."""
    return Parts(tmp_path_factory.mktemp("parts"))
