"""Sealed anonymous memory for chunks, module segments and tables."""

import errno
import fcntl
import os


def create_populated(name: str, size: int) -> int:
    """Return a descriptor of memory whose ``size`` bytes are allocated now and whose size is fixed.

    The pages are charged to the caller's memory cgroup, not to the processes that access the
    pages later.

    Raises:
        MemoryError: the system has no memory left.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        os.posix_fallocate(descriptor, 0, size)
        fcntl.fcntl(
            descriptor,
            fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL,
        )
    except OSError as err:
        os.close(descriptor)
        if err.errno in (errno.ENOMEM, errno.ENOSPC, errno.EFBIG):
            raise MemoryError(f"{size} bytes cannot be allocated") from err
        raise
    return descriptor


def create_constant(name: str, content: bytes, size: int = 0) -> int:
    """Return a descriptor of memory that contains ``content`` and is sealed against writes.

    The memory is at least ``size`` bytes long; the part after the content has no pages.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, max(size, len(content)))
    write_all(descriptor, content, 0)
    fcntl.fcntl(
        descriptor,
        fcntl.F_ADD_SEALS,
        fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL,
    )
    return descriptor


def write_all(descriptor: int, content: bytes, offset: int) -> None:
    """Write all of ``content`` at ``offset``."""
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset += written
        view = view[written:]


def read_exactly(descriptor: int, size: int) -> bytes:
    """Return the first ``size`` bytes of a file that another process owns.

    Raises:
        ValueError: the file is shorter.
    """
    parts = []
    offset = 0
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            raise ValueError(f"the file has only {offset} of {size} announced bytes")
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
