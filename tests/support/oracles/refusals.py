"""The name of the errno with which a call fails."""

import errno
from collections.abc import Callable

import pytest


def error(call: Callable[[], object]) -> str:
    """Return the name of the errno that a call raises, such as ``EINVAL``."""
    with pytest.raises(OSError) as refused:
        call()
    return errno.errorcode[refused.value.errno or 0]
