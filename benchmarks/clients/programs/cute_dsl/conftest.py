"""Fixtures of the tests of kernels that CuTe DSL exported."""

import pytest
from device import Device


@pytest.fixture(scope="session")
def device():
    return Device()
