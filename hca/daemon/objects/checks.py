"""Checks that all kinds of objects use. A check refuses by an ``OSError`` with the verb's errno."""

import errno
import os
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from hca.contract.hca import HCA_PAGE_BYTES
from hca.daemon.common import shared_memory

_T = TypeVar("_T")


@contextmanager
def new_page_descriptor(name: str, size: int) -> Iterator[int]:
    """Make shared memory and yield its descriptor; close it if the body raises."""
    descriptor = shared_memory.new_shared_memory(name, size)
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def os_error(number: int) -> OSError:
    """Return the OSError with an errno value and its usual text."""
    return OSError(number, os.strerror(number))


def check_room(table: Sized, limit: int) -> None:
    """Raise OSError (ENOMEM) if a table is full: it may have ``limit`` entries."""
    if len(table) >= limit:
        raise os_error(errno.ENOMEM)


def check_range(value: int, minimum: int, maximum: int) -> None:
    """Raise OSError (EINVAL) if a value is less than ``minimum`` or more than ``maximum``."""
    if not minimum <= value <= maximum:
        raise OSError(errno.EINVAL, f"{value}: must be {minimum} to {maximum}")


def get(table: dict[int, _T], handle: int) -> _T:
    """Return the object in a client's table that a handle names. Raises OSError (EINVAL)."""
    try:
        return table[handle]
    except KeyError:
        raise os_error(errno.EINVAL) from None


def round_up_to_power_of_two(count: int) -> int:
    """Return the least power of two that is at least ``count``."""
    return 1 << max(count - 1, 0).bit_length()


def round_up_to_pages(size: int) -> int:
    """Return a size in bytes, rounded up to whole pages."""
    return -(-size // HCA_PAGE_BYTES) * HCA_PAGE_BYTES
