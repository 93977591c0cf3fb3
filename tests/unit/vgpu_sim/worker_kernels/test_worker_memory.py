"""Memory that is shared with tenants: seals against changes, and complete reads and writes."""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator

import pytest

from support.oracles.refusals import error as refused
from vgpu_sim.worker import memory

SIZE = 3 * mmap.PAGESIZE
CONTENT = bytes(range(256)) * 40
OF_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@pytest.fixture
def populated_file() -> Iterator[int]:
    descriptor = memory.create_populated("tessera-test", SIZE)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def constant() -> Iterator[int]:
    descriptor = memory.create_constant("tessera-test", CONTENT)
    yield descriptor
    os.close(descriptor)


def test_populated_memory_is_there_and_zero(populated_file: int) -> None:
    status = os.fstat(populated_file)
    assert status.st_size == SIZE
    assert status.st_blocks * 512 >= SIZE, "its creator has been charged for all of it"
    assert memory.read_exactly(populated_file, SIZE) == bytes(SIZE)
    assert not os.get_inheritable(populated_file)
    assert os.readlink(f"/proc/self/fd/{populated_file}").startswith("/memfd:tessera-test")


def test_populated_memory_changes_its_content_and_nothing_else(populated_file: int) -> None:
    assert fcntl.fcntl(populated_file, fcntl.F_GET_SEALS) == OF_FIXED_SIZE
    memory.write_all(populated_file, b"end", SIZE - 3)
    assert memory.read_exactly(populated_file, SIZE)[-3:] == b"end"
    assert refused(lambda: os.ftruncate(populated_file, SIZE - 1)) == "EPERM"
    assert refused(lambda: os.ftruncate(populated_file, SIZE + 1)) == "EPERM"
    assert refused(lambda: memory.write_all(populated_file, b"x", SIZE)) == "EPERM"
    more = fcntl.F_SEAL_WRITE
    assert refused(lambda: fcntl.fcntl(populated_file, fcntl.F_ADD_SEALS, more)) == "EPERM"


def test_constant_memory_changes_never(constant: int) -> None:
    seals = OF_FIXED_SIZE | fcntl.F_SEAL_WRITE
    assert fcntl.fcntl(constant, fcntl.F_GET_SEALS) == seals
    assert not os.get_inheritable(constant)
    assert memory.read_exactly(constant, len(CONTENT)) == CONTENT
    assert os.fstat(constant).st_size == len(CONTENT)
    for size in (len(CONTENT) - 1, len(CONTENT) + 1):
        assert refused(lambda size=size: os.ftruncate(constant, size)) == "EPERM"
    assert refused(lambda: os.pwrite(constant, b"x", 0)) == "EPERM"
    assert refused(lambda: mmap.mmap(constant, mmap.PAGESIZE)) == "EPERM", "shared and writable"
    with mmap.mmap(constant, mmap.PAGESIZE, prot=mmap.PROT_READ) as mapped:
        assert mapped[:256] == CONTENT[:256]


@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (errno.ENOMEM, MemoryError),
        (errno.ENOSPC, MemoryError),
        (errno.EFBIG, MemoryError),
        (errno.EPERM, PermissionError),
    ],
)
def test_exhausted_memory_is_distinguished_from_other_errors_and_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, number: int, raised: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(raised):
        memory.create_populated("tessera-test", SIZE)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_what_the_kernel_does_in_parts_is_done_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 1000), at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:1000], at))
    descriptor = os.memfd_create("tessera-test")
    try:
        memory.write_all(descriptor, CONTENT, 5)
        assert memory.read_exactly(descriptor, 5 + len(CONTENT)) == bytes(5) + CONTENT
        assert memory.read_exactly(descriptor, 0) == b""
    finally:
        os.close(descriptor)


def test_a_file_that_is_shorter_than_announced_is_an_error(constant: int) -> None:
    size = len(CONTENT)
    with pytest.raises(ValueError, match=f"only {size} of {size + 1} announced bytes"):
        memory.read_exactly(constant, size + 1)
