"""The build whose kernels may reach anything: what the address clamp costs is measured against it.

It exists here alone: every Python process below reads ``unclamped_site/sitecustomize.py``, which
takes the bound out of the code generator. Its object code has a cache of its own.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.on_slice import PYTHONPATH

SITE = Path(__file__).parent / "unclamped_site"


@contextmanager
def environment() -> Iterator[Mapping[str, str]]:
    """Yield the variables under which ``tessera run`` is that build."""
    with tempfile.TemporaryDirectory() as cache:
        yield {
            "PYTHONPATH": os.pathsep.join([str(SITE), PYTHONPATH]),
            "XDG_CACHE_HOME": cache,
        }
