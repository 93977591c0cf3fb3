"""Fails a test that leaves hundreds of descriptors open, under its own name.

A few do no harm, but after a thousand ``select()`` rejects the numbers that another test gets. A
full collection closes objects in reference cycles, and a process of many tests rarely runs one
by itself, so one runs before a test is failed.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest

MOST = 900  # ``select()`` is limited to 1,024, and a fixture of one module has 600


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test after which more than ``MOST`` descriptors are open."""
    result = yield
    if len(os.listdir("/proc/self/fd")) > MOST:
        gc.collect()
        left = os.listdir("/proc/self/fd")
        assert len(left) <= MOST, f"{item.nodeid}: {len(left)} descriptors are open: {_named(left)}"
    return result


def _named(descriptors: list[str]) -> str:
    """Return the most frequent targets of these descriptors."""
    found: Counter[str] = Counter()
    for descriptor in descriptors:
        try:
            found[os.readlink(f"/proc/self/fd/{descriptor}").partition("[")[0]] += 1
        except OSError:
            continue
    return ", ".join(f"{count} {name}" for name, count in found.most_common(3))
