"""A test that leaves hundreds of descriptors open fails by its own name.

One that leaves a few is not noticed, and after a thousand of them ``select()`` refuses the numbers
that a stranger's test gets. What lies in reference cycles is closed by a full collection, which a
process of many tests hardly ever makes by itself: so it is made before anybody is blamed.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest

MOST = 900  # ``select()`` knows 1,024, and a fixture of one module has 600


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
    """Return what most of them lead to."""
    found: Counter[str] = Counter()
    for descriptor in descriptors:
        try:
            found[os.readlink(f"/proc/self/fd/{descriptor}").partition("[")[0]] += 1
        except OSError:
            continue
    return ", ".join(f"{count} {name}" for name, count in found.most_common(3))
