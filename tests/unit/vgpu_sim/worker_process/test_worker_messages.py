"""The control socket: chunks and budget, and messages of a hostile client."""

import ctypes
import mmap
import os
import random
import socket
import time
from collections.abc import Iterator

import pytest

from support.processes.worker_client import MIB, Client, Zygote, running_client
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.abi import FaultKind, ListBody, Opcode, ValueBody, When
from vgpu_sim.hal.compute.address_map import (
    APERTURE_BASES,
    CHUNK_ALIGN_BYTES,
    DEVICE_BYTES,
    DEVICE_OFFSET,
    GPU_WINDOW_BYTES,
    HOST_OFFSET,
    MODULE_OFFSET,
)
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import ChunkKind, MessageType

CHUNK = CHUNK_ALIGN_BYTES


@pytest.fixture(scope="module")
def shared_client(zygote: Zygote) -> Iterator[Client]:
    """A client for requests that are refused and have no effect."""
    with running_client(zygote) as client:
        yield client


@pytest.mark.parametrize(
    ("offset", "size", "kind"),
    [
        (DEVICE_OFFSET + 4096, CHUNK, ChunkKind.DEVICE),
        (DEVICE_OFFSET, CHUNK + 4096, ChunkKind.DEVICE),
        (DEVICE_OFFSET, 0, ChunkKind.DEVICE),
        (DEVICE_OFFSET, DEVICE_BYTES + CHUNK, ChunkKind.DEVICE),
        (DEVICE_OFFSET + DEVICE_BYTES - CHUNK, 2 * CHUNK, ChunkKind.DEVICE),
        (DEVICE_OFFSET - CHUNK, 2 * CHUNK, ChunkKind.DEVICE),
        (0, CHUNK, ChunkKind.DEVICE),
        (MODULE_OFFSET, CHUNK, ChunkKind.DEVICE),
        (HOST_OFFSET, CHUNK, ChunkKind.DEVICE),
        (DEVICE_OFFSET, CHUNK, ChunkKind.HOST),
        (DEVICE_OFFSET, CHUNK, 2),
        (GPU_WINDOW_BYTES + DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE),
        ((1 << 64) - CHUNK, CHUNK, ChunkKind.DEVICE),
        (DEVICE_OFFSET, (1 << 64) - CHUNK, ChunkKind.DEVICE),
    ],
)
def test_a_malformed_chunk_is_refused(
    shared_client: Client, offset: int, size: int, kind: int
) -> None:
    assert shared_client.allocate_raw(offset, size, kind).status == CudaError.INVALID_VALUE
    assert shared_client.gpud.used == 0
    assert shared_client.page.error == 0


@pytest.mark.parametrize(("offset", "size"), [(DEVICE_OFFSET, 5), (0, 0), ((1 << 64) - 1, 1 << 63)])
def test_a_report_of_an_allocation_is_accepted_and_has_no_effect_on_memory(
    shared_client: Client, offset: int, size: int
) -> None:
    body = bytes(messages.Chunk(offset, size, ChunkKind.DEVICE))
    assert shared_client.request(MessageType.ALLOCATION, body).status == CudaError.SUCCESS
    assert shared_client.gpud.used == 0


def test_a_worker_owns_its_own_gpus_window(zygote: Zygote) -> None:
    with running_client(zygote, gpu_index=3) as client:
        offset = 3 * GPU_WINDOW_BYTES + DEVICE_OFFSET
        assert client.allocate_raw(offset, CHUNK, ChunkKind.DEVICE).status == CudaError.SUCCESS
        refused = client.allocate_raw(DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE)
        assert refused.status == CudaError.INVALID_VALUE


def test_chunks_are_backed_sealed_and_given_back(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        reply = client.allocate_raw(DEVICE_OFFSET, 2 * CHUNK, ChunkKind.DEVICE)
        assert reply.status == CudaError.SUCCESS
        (descriptor,) = reply.descriptors
        assert os.fstat(descriptor).st_blocks * 512 == 2 * CHUNK
        for size in (0, CHUNK, 3 * CHUNK):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        assert client.gpud.used == 2 * CHUNK
        for offset, size in [(DEVICE_OFFSET, CHUNK), (DEVICE_OFFSET + CHUNK, 2 * CHUNK)]:
            overlap = client.allocate_raw(offset, size, ChunkKind.DEVICE)
            assert overlap.status == CudaError.INVALID_VALUE
        free, total = client.memory_info()
        assert total - free == 2 * CHUNK
        whole = messages.Chunk(DEVICE_OFFSET, 2 * CHUNK, ChunkKind.DEVICE)
        for wrong in (
            messages.Chunk(DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE),
            messages.Chunk(DEVICE_OFFSET + CHUNK, CHUNK, ChunkKind.DEVICE),
            messages.Chunk(DEVICE_OFFSET, 2 * CHUNK, ChunkKind.HOST),
        ):
            answer = client.request(MessageType.CHUNK_FREE, bytes(wrong))
            assert answer.status == CudaError.INVALID_VALUE
        assert client.request(MessageType.CHUNK_FREE, bytes(whole)).status == CudaError.SUCCESS
        # The pages are gone, although the client still holds the descriptor.
        assert os.fstat(descriptor).st_blocks == 0
        assert client.memory_info() == (total, total)
        twice = client.request(MessageType.CHUNK_FREE, bytes(whole))
        assert twice.status == CudaError.INVALID_VALUE
        os.close(descriptor)
        again = client.allocate_raw(DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE)
        assert again.status == CudaError.SUCCESS


def test_views_are_of_live_device_chunks_and_cost_no_budget(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        chunk = messages.Chunk(DEVICE_OFFSET, 2 * CHUNK, ChunkKind.DEVICE)
        assert client.allocate_raw(DEVICE_OFFSET, 2 * CHUNK, ChunkKind.DEVICE).status == 0
        assert client.allocate_raw(HOST_OFFSET, CHUNK, ChunkKind.HOST).status == 0
        free_before = client.memory_info()[0]

        def request(kind: MessageType, offset: int, source: int, size: int) -> int:
            return client.request(kind, bytes(messages.View(offset, source, size))).status

        end = DEVICE_OFFSET + DEVICE_BYTES
        place = DEVICE_OFFSET + 8 * CHUNK
        for wrong in (
            (place, DEVICE_OFFSET, 3 * CHUNK),  # more than the chunk
            (place, DEVICE_OFFSET + CHUNK, 2 * CHUNK),
            (place, DEVICE_OFFSET - CHUNK, CHUNK),
            (place, DEVICE_OFFSET + 4096, CHUNK),
            (place, HOST_OFFSET, CHUNK),  # pinned memory
            (place, place, CHUNK),
            (place, (1 << 64) - CHUNK, CHUNK),
            (place, DEVICE_OFFSET, 0),
            (place, DEVICE_OFFSET, (1 << 64) - CHUNK),
            (place + 4096, DEVICE_OFFSET, CHUNK),
            (DEVICE_OFFSET + CHUNK, DEVICE_OFFSET, CHUNK),  # over the chunk itself
            (HOST_OFFSET + 8 * CHUNK, DEVICE_OFFSET, CHUNK),
            (MODULE_OFFSET, DEVICE_OFFSET, CHUNK),
            (end, DEVICE_OFFSET, CHUNK),
            (GPU_WINDOW_BYTES + place, DEVICE_OFFSET, CHUNK),
        ):
            assert request(MessageType.VIEW_MAP, *wrong) == CudaError.INVALID_VALUE, wrong
        assert request(MessageType.VIEW_MAP, place, DEVICE_OFFSET + CHUNK, CHUNK) == 0
        assert client.memory_info()[0] == free_before
        overlap = request(MessageType.VIEW_MAP, place, DEVICE_OFFSET, CHUNK)
        assert overlap == CudaError.INVALID_VALUE
        of_view = request(MessageType.VIEW_MAP, place + CHUNK, place, CHUNK)
        assert of_view == CudaError.INVALID_VALUE
        refused = client.request(MessageType.CHUNK_FREE, bytes(chunk))
        assert refused.status == CudaError.INVALID_VALUE, "it has a view"
        as_chunk = messages.Chunk(place, CHUNK, ChunkKind.DEVICE)
        assert client.request(MessageType.CHUNK_FREE, bytes(as_chunk)).status
        for offset, size in ((place, 2 * CHUNK), (DEVICE_OFFSET, 2 * CHUNK), (place, 0)):
            assert request(MessageType.VIEW_UNMAP, offset, 0, size) == CudaError.INVALID_VALUE
        assert request(MessageType.VIEW_UNMAP, place, 0, CHUNK) == 0
        assert request(MessageType.VIEW_UNMAP, place, 0, CHUNK) == CudaError.INVALID_VALUE
        assert client.request(MessageType.CHUNK_FREE, bytes(chunk)).status == 0


def test_the_budget_is_gpuds_to_grant(zygote: Zygote) -> None:
    with running_client(zygote, budget_bytes=8 * MIB) as client:
        assert client.memory_info() == (8 * MIB, 8 * MIB)
        first = client.allocate(4 * MIB)
        pinned = client.allocate(4 * MIB, ChunkKind.HOST)
        assert client.memory_info() == (0, 8 * MIB)
        offset = DEVICE_OFFSET + 64 * MIB
        refused = client.allocate_raw(offset, CHUNK, ChunkKind.DEVICE)
        assert (refused.status, refused.descriptors) == (CudaError.OUT_OF_MEMORY, [])
        event = client.gpud.event("out_of_memory")
        assert event["requested_bytes"] == CHUNK
        assert client.free(pinned) == client.free(first) == CudaError.SUCCESS
        assert client.memory_info() == (8 * MIB, 8 * MIB)
        assert client.allocate_raw(offset, 8 * MIB, ChunkKind.DEVICE).status == CudaError.SUCCESS


def header(kind: int, payload: bytes = b"", **changes: int) -> bytes:
    fields = {
        "magic": messages.MAGIC,
        "version": messages.PROTOCOL_VERSION,
        "type": kind,
        "payload_bytes": len(payload),
        **changes,
    }
    return bytes(messages.Header(**fields)) + payload


CHUNK_PAYLOAD = bytes(messages.Chunk(DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE))
LOAD_PAYLOAD = bytes(messages.ModuleLoad(16))


@pytest.mark.parametrize(
    ("data", "descriptors"),
    [
        (b"\0", 0),
        (random.Random(24).randbytes(24), 0),
        (header(MessageType.MEMORY_INFO, magic=1), 0),
        (header(MessageType.MEMORY_INFO, version=99), 0),
        (header(MessageType.MEMORY_INFO, payload_bytes=8), 0),
        (header(MessageType.MEMORY_INFO, bytes(8)), 0),
        (header(MessageType.HELLO_QUERY, bytes(ctypes.sizeof(messages.Hello))), 0),
        (header(MessageType.MEMORY_REPORT), 0),
        (header(0xFFFF), 0),
        (header(MessageType.CHUNK_ALLOCATE, CHUNK_PAYLOAD[:-1]), 0),
        (header(MessageType.CHUNK_ALLOCATE, CHUNK_PAYLOAD), 1),
        (header(MessageType.MODULE_LOAD, LOAD_PAYLOAD), 0),
        (header(MessageType.MODULE_LOAD, LOAD_PAYLOAD), 2),
        (header(MessageType.MODULE_LOAD, LOAD_PAYLOAD), 40),
        (header(MessageType.MEMORY_INFO) + bytes(5000), 0),
    ],
)
def test_what_no_client_sends_ends_the_context(
    zygote: Zygote, data: bytes, descriptors: int
) -> None:
    with running_client(zygote) as client:
        opened = [os.memfd_create("x") for _ in range(descriptors)]
        socket.send_fds(client.socket, [data], opened)
        page = client.wait_for_error()
        assert (page.error, page.fault.kind) == (CudaError.LAUNCH_FAILED, FaultKind.PROTOCOL)
        assert page.fault.message
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 70
        for descriptor in opened:
            os.close(descriptor)


@pytest.mark.parametrize("opcode", [Opcode.AWAIT, Opcode.WRITE])
@pytest.mark.parametrize(
    ("address", "width_bytes", "condition"),
    [
        (APERTURE_BASES[0] + DEVICE_OFFSET, 3, 0),
        (APERTURE_BASES[0] + DEVICE_OFFSET, 0, 0),
        (APERTURE_BASES[0] + DEVICE_OFFSET + 2, 4, 0),
        (APERTURE_BASES[0] + DEVICE_OFFSET, 4, 4),
        (APERTURE_BASES[0] + DEVICE_OFFSET, 8, 0),  # no memory there
        (8, 8, 0),  # the worker's own
    ],
)
def test_a_value_outside_of_live_memory_ends_the_context(
    zygote: Zygote, opcode: Opcode, address: int, width_bytes: int, condition: int
) -> None:
    with running_client(zygote) as client:
        slot = client.slot(0, opcode)
        slot.body.value = ValueBody(address, 1, width_bytes, condition)
        client.put(0, bytes(slot))
        page = client.wait_for_error()
        assert page.error in (CudaError.LAUNCH_FAILED, CudaError.ILLEGAL_ADDRESS)
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 70


@pytest.mark.parametrize(
    "body",
    [
        ListBody(address=APERTURE_BASES[0] + DEVICE_OFFSET, slots=1),  # no memory there
        ListBody(address=8, slots=1),  # the worker's own
        ListBody(address=2**64 - 256, slots=2),
        ListBody(slots=0, when=3),
        ListBody(condition=2, when=When.EQUAL),
        ListBody(condition=8, when=When.EQUAL),
    ],
)
def test_a_list_outside_of_live_memory_ends_the_context(zygote: Zygote, body: ListBody) -> None:
    with running_client(zygote) as client:
        slot = client.slot(0, Opcode.LIST)
        slot.body.list = body
        client.put(0, bytes(slot))
        page = client.wait_for_error()
        assert page.error in (CudaError.LAUNCH_FAILED, CudaError.ILLEGAL_ADDRESS)
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 70


def test_an_endless_list_ends_with_its_client(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        slot = client.slot(0, Opcode.LIST)
        slot.body.list = ListBody(when=When.ALWAYS, repeat=1)
        client.put(0, bytes(slot))
        client.socket.shutdown(socket.SHUT_RDWR)
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 0


def test_a_client_that_does_not_read_is_left(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        message = header(MessageType.MEMORY_INFO)
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                client.socket.send(message)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() < deadline
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 0


def test_the_page_cannot_be_written_by_the_client(zygote: Zygote) -> None:
    with running_client(zygote) as client:
        with pytest.raises(PermissionError):
            mmap.mmap(client.page_descriptor, 4096)
        with pytest.raises(PermissionError):
            os.pwrite(client.page_descriptor, b"x", 0)
