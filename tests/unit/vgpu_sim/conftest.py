"""Fixtures that several test files here share."""

from collections.abc import Iterator

import pytest

from support.processes.worker_client import Zygote, running_zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A zygote that the tests of a module share."""
    with running_zygote() as running:
        yield running
