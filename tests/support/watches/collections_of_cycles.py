"""Makes the collections of reference cycles rarer, as the zygote does for workers.

A process of thousands of collected tests has a million objects that stay. A compiler creates many
more, and hardly any cycles: at Python's thresholds a seventh of the time of conformance tests goes
into collections that find nothing. The collected tests are never searched.
"""

import gc
from collections.abc import Iterator

import pytest

THRESHOLD = 20_000  # the zygote's, too


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Search no cycles while tests are collected, and never among what was collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(THRESHOLD)
        gc.enable()
