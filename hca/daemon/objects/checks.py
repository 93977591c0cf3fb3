"""What every kind of object is checked with. A refusal is an ``OSError`` with the verb's errno."""

import errno
import os
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from hca.contract.hca import HCA_PAGE_BYTES
from hca.daemon.common import shared_memory

_T = TypeVar("_T")


@contextmanager
def descriptor_of(name: str, size: int) -> Iterator[int]:
    """Make shared memory that is the caller's unless something goes wrong."""
    descriptor = shared_memory.shared(name, size)
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def refused(number: int) -> OSError:
    """Return the refusal of that errno."""
    return OSError(number, os.strerror(number))


def limit(table: Sized, most: int) -> None:
    """Raise OSError (ENOMEM) where a table is full."""
    if len(table) >= most:
        raise refused(errno.ENOMEM)


def check_range(value: int, least: int, most: int) -> None:
    """Raise OSError (EINVAL) where a value is outside its range, ends included."""
    if not least <= value <= most:
        raise OSError(errno.EINVAL, f"{value}: must be {least} to {most}")


def get(table: dict[int, _T], handle: int) -> _T:
    """Return what a client names by a handle. Raises OSError (EINVAL)."""
    try:
        return table[handle]
    except KeyError:
        raise refused(errno.EINVAL) from None


def power_of_two(count: int) -> int:
    """Return the least power of two that is not less."""
    return 1 << max(count - 1, 0).bit_length()


def pages(size: int) -> int:
    """Return a number of bytes, rounded up to whole pages."""
    return -(-size // HCA_PAGE_BYTES) * HCA_PAGE_BYTES
