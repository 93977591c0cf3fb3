"""A build without the address clamp, with which the cost of the clamp is measured.

Only this benchmark has it: every Python process started from here reads
``no_address_clamp_site/sitecustomize.py``, which removes the clamp from the code generator. Its
object code has a separate cache.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.on_slice import PYTHONPATH

SITE = Path(__file__).parent / "no_address_clamp_site"


@contextmanager
def environment() -> Iterator[Mapping[str, str]]:
    """Yield the environment variables with which ``tessera run`` uses that build."""
    with tempfile.TemporaryDirectory() as cache:
        yield {
            "PYTHONPATH": os.pathsep.join([str(SITE), PYTHONPATH]),
            "XDG_CACHE_HOME": cache,
        }
