"""Ranges that a worker names by a descriptor, and the programs that may access them."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from typing import Final

import pytest

from vgpu_sim.hal.direct import RANGE_BYTES, DirectGrant
from vgpu_sim.hal.messages import SHARED_RANGE_MAGIC, SharedRange
from vgpu_sim.worker.exports import Exports
from vgpu_sim.worker.memory import create_populated

CHUNK: Final = 2 << 20
PAGE: Final = 4096
OFFSET: Final = 1 << 34


@pytest.fixture
def memory() -> Iterator[int]:
    made = create_populated("test", CHUNK)
    yield made
    os.close(made)


@pytest.fixture
def exports(memory: int) -> Iterator[Exports]:
    kept = Exports()
    kept.keep(OFFSET, CHUNK, memory)
    yield kept
    kept.revoke(OFFSET)


def range_content(exports: Exports, offset: int = OFFSET + PAGE, size: int = 4 * PAGE) -> bytes:
    """Return the content of a range's descriptor."""
    descriptor = exports.share(offset, size)
    try:
        assert os.fstat(descriptor).st_size == size
        assert os.fstat(descriptor).st_blocks * 512 == PAGE
        assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
        return os.pread(descriptor, RANGE_BYTES, 0)
    finally:
        os.close(descriptor)


def ask(exports: Exports, data: bytes, offset: int = 0, size: int = PAGE) -> DirectGrant:
    """Return the answer to a request; the memory comes with it if, and only if, it is granted."""
    asker, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        exports.export_shared_range(asker, data, offset, size)
        answer, descriptors, _, _ = socket.recv_fds(ours, 64, 4)
        grant = DirectGrant.from_buffer_copy(answer)
        assert len(descriptors) == (grant.status == 0)
        for one in descriptors:
            os.close(one)
        if grant.status:  # otherwise the worker closes it
            asker.close()
        return grant


def test_a_part_of_what_was_named_is_shown(exports: Exports) -> None:
    grant = ask(exports, range_content(exports), 2 * PAGE, 2 * PAGE)
    assert (grant.status, grant.offset, grant.chunk_bytes) == (0, 3 * PAGE, CHUNK)


@pytest.mark.parametrize(("offset", "size"), [(0, 4 * PAGE + 1), (4 * PAGE, 1), (1 << 63, PAGE)])
def test_memory_beside_the_range_is_not_exported(exports: Exports, offset: int, size: int) -> None:
    """Although that memory exists and belongs to the same program."""
    assert ask(exports, range_content(exports), offset, size).status == errno.ENOENT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("magic", 0),
        ("serial", 2),
        ("offset", OFFSET),
        ("bytes", 5 * PAGE),
    ],
)
def test_nothing_of_it_can_be_changed(exports: Exports, field: str, value: int) -> None:
    changed = SharedRange.from_buffer_copy(range_content(exports))
    setattr(changed, field, value)
    assert ask(exports, bytes(changed)).status == errno.ENOENT


def test_a_range_cannot_be_forged(exports: Exports) -> None:
    made_up = SharedRange(SHARED_RANGE_MAGIC, 1, OFFSET + PAGE, 4 * PAGE)
    assert ask(exports, bytes(made_up)).status == errno.ENOENT


def test_another_context_s_is_not_known(exports: Exports, memory: int) -> None:
    """Although it has a chunk at the same offset."""
    other = Exports()
    other.keep(OFFSET, CHUNK, memory)
    assert ask(exports, range_content(exports)).status == 0
    assert ask(exports, range_content(other)).status == errno.ENOENT
    other.revoke(OFFSET)


def test_a_later_chunk_at_its_place_is_another(exports: Exports, memory: int) -> None:
    kept = range_content(exports)
    exports.revoke(OFFSET)
    assert ask(exports, kept).status == errno.ENOENT
    exports.keep(OFFSET, CHUNK, memory)
    assert ask(exports, kept).status == errno.ENOENT
    assert ask(exports, range_content(exports)).status == 0


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        (OFFSET + 1, PAGE),
        (OFFSET, PAGE + 1),
        (OFFSET, 0),
        (OFFSET - PAGE, PAGE),
        (OFFSET, CHUNK + PAGE),
        (OFFSET + CHUNK, PAGE),
    ],
)
def test_a_range_is_of_whole_pages_of_one_chunk(exports: Exports, offset: int, size: int) -> None:
    with pytest.raises(KeyError):
        exports.share(offset, size)


def test_all_receivers_have_one_second_together_at_the_end(exports: Exports, memory: int) -> None:
    """However many connections a program has made its HCA open, and keep open."""
    exports.keep(OFFSET + CHUNK, CHUNK, memory)
    receivers = []
    for offset in (OFFSET, OFFSET, OFFSET + CHUNK):
        asker, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        exports.export_range(asker, offset, PAGE)
        _, (descriptor,), _, _ = socket.recv_fds(ours, 64, 4)
        os.close(descriptor)
        receivers.append(ours)
    began = time.monotonic()
    exports.revoke_all()
    assert 1 <= time.monotonic() - began < 2
    for one in receivers:
        with one:
            assert one.recv(1) == b""
    with pytest.raises(KeyError):
        exports.descriptor_of(OFFSET)
