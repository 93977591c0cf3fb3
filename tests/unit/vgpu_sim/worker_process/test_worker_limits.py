"""A worker's own limits, each at its last valid value and one beyond, and the effects of a
refusal.
"""

import errno
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import pytest

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.address_map import (
    CHUNK_ALIGN_BYTES as CHUNK,
    DEVICE_BYTES,
    DEVICE_OFFSET,
    GPU_WINDOW_BYTES,
    HOST_BYTES,
    HOST_OFFSET,
    MODULE_BYTES_PER_CONTEXT,
    MODULE_OFFSET,
)
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import ChunkKind, MessageType
from vgpu_sim.worker import chunks as chunks_module, segments as segments_module, wire
from vgpu_sim.worker.channel import Channel, GpudGoneError
from vgpu_sim.worker.chunks import BadChunkError, ChunkRequest, Chunks, OutOfBudgetError
from vgpu_sim.worker.compiling import children
from vgpu_sim.worker.compiling.children import Child, Outcome, allowed_seconds
from vgpu_sim.worker.exports import Exports
from vgpu_sim.worker.sandbox import Level
from vgpu_sim.worker.segments import Segment, Segments
from vgpu_sim.worker.usage import Timed, Usage
from vgpu_sim.worker.wire import ProtocolError

WINDOW = 3 * GPU_WINDOW_BYTES


@dataclass
class CallRecorder:
    """A runtime and a channel that record calls; those named in ``fails`` raise that error."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)
    grants: bool = True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            if name in self.fails:
                raise self.fails[name]
            return self.grants if name == "reserve" else None

        return call

    def take(self) -> list[tuple[Any, ...]]:
        taken, self.calls = self.calls, []
        return taken


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> tuple[Chunks, CallRecorder, list[int]]:
    made: list[int] = []

    def populate(name: str, size: int) -> int:
        made.append(os.memfd_create(name))
        return made[-1]

    monkeypatch.setattr(chunks_module, "create_populated", populate)
    recorder = CallRecorder()
    one = Chunks(recorder, recorder, 3)  # type: ignore[arg-type]
    return one, recorder, made


BEGINS = {
    ChunkKind.DEVICE: (DEVICE_OFFSET, DEVICE_BYTES),
    ChunkKind.HOST: (HOST_OFFSET, HOST_BYTES),
}


@pytest.mark.parametrize("kind", BEGINS)
def test_a_chunk_is_anywhere_in_its_range_and_nowhere_else(chunks: Any, kind: ChunkKind) -> None:
    one, recorder, made = chunks
    begin, size = BEGINS[kind]
    begin += WINDOW
    good = [
        (begin, CHUNK),
        (begin, size),
        (begin + size - CHUNK, CHUNK),
        (begin + CHUNK, size - CHUNK),
    ]
    for offset, length in good:
        one._check(ChunkRequest(offset, length, kind))
    bad = [
        (begin - CHUNK, CHUNK),
        (begin, size + CHUNK),
        (begin + size, CHUNK),
        (begin + CHUNK, size),
    ]
    bad += [
        (begin, 0),
        (begin + 1, CHUNK),
        (begin, CHUNK + 1),
        (begin - WINDOW, CHUNK),
        (begin, -CHUNK),
    ]
    for offset, length in bad:
        with pytest.raises(BadChunkError):
            one.allocate(ChunkRequest(offset, length, kind))
    with pytest.raises(BadChunkError, match="unknown kind"):
        one.allocate(ChunkRequest(begin, CHUNK, 2))
    assert (recorder.take(), made) == ([], [])


@pytest.mark.parametrize(
    ("failure", "error", "held"),
    [
        (FileExistsError(), BadChunkError, False),
        (OSError(errno.ENOMEM, "no"), OutOfBudgetError, False),
    ],
)
def test_a_chunk_that_cannot_be_mapped_costs_nothing_and_can_be_requested_again(
    chunks: Any, failure: OSError, error: type[Exception], held: bool
) -> None:
    one, recorder, made = chunks
    wanted = ChunkRequest(WINDOW + DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE)
    recorder.fails["map_chunk"] = failure
    with pytest.raises(error):
        one.allocate(wanted)
    assert [call[0] for call in recorder.take()] == ["reserve", "map_chunk", "release"]
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(made[0])
    with pytest.raises(BadChunkError, match="no such chunk"):
        one.free(wanted)
    recorder.fails.clear()
    descriptor = one.allocate(wanted)
    assert recorder.take() == [("reserve", CHUNK), ("map_chunk", wanted.offset, CHUNK, descriptor)]
    for other in (
        ChunkRequest(wanted.offset, 2 * CHUNK, ChunkKind.DEVICE),
        ChunkRequest(wanted.offset + CHUNK, CHUNK, ChunkKind.DEVICE),
        ChunkRequest(wanted.offset, CHUNK, ChunkKind.HOST),
    ):
        with pytest.raises(BadChunkError):
            one.free(other)
    one.free(wanted)
    assert recorder.take() == [("unmap_chunk", wanted.offset, CHUNK), ("release", CHUNK)]
    with pytest.raises(BadChunkError):
        one.free(wanted)
    os.close(descriptor)


def test_shared_memory_cannot_be_opened_over_a_chunk_or_a_view(chunks: Any) -> None:
    """gpud receives no request, so the chunk's own share stays noted."""
    one, recorder, _made = chunks
    begin = WINDOW + DEVICE_OFFSET
    os.close(one.allocate(ChunkRequest(begin + CHUNK, CHUNK, ChunkKind.DEVICE)))
    one.map_view(begin + 4 * CHUNK, begin + CHUNK, CHUNK)
    recorder.take()
    shared = messages.SharedMemory(chunk_units=2, kind=ChunkKind.DEVICE)
    for at in (0, CHUNK, 3 * CHUNK, 4 * CHUNK):
        with pytest.raises(BadChunkError, match="overlaps"):
            one.open_shared(shared, begin + at)
    assert recorder.take() == []


def test_refused_or_unanswered_reservations_are_errors(chunks: Any) -> None:
    one, recorder, made = chunks
    wanted = ChunkRequest(WINDOW + DEVICE_OFFSET, CHUNK, ChunkKind.DEVICE)
    recorder.grants = False
    with pytest.raises(OutOfBudgetError, match="more than the slice has free"):
        one.allocate(wanted)
    recorder.fails["reserve"] = GpudGoneError("gone")
    with pytest.raises(OutOfBudgetError, match="gone"):
        one.allocate(wanted)
    assert {call[0] for call in recorder.take()} == {"reserve"}
    assert made == []


# Segments of module variables.


@pytest.fixture
def segments(monkeypatch: pytest.MonkeyPatch) -> tuple[Segments, CallRecorder]:
    monkeypatch.setattr(
        segments_module, "create_populated", lambda name, size: os.memfd_create(name)
    )
    recorder = CallRecorder()
    made = Segments(recorder, recorder, aperture_base=1 << 45, gpu_index=2, context_index=5)  # type: ignore[arg-type]
    return made, recorder


BEGIN = 2 * GPU_WINDOW_BYTES + MODULE_OFFSET + 5 * MODULE_BYTES_PER_CONTEXT


def image(size: int, align: int = 256, bases: list[int] | None = None) -> Any:
    def contents(base: int) -> list[bytes]:
        if bases is not None:
            bases.append(base)
        return [b"xy"]

    module = SimpleNamespace(contents=contents, variables=[SimpleNamespace(offset=3)])
    summary = SimpleNamespace(segment_bytes=size, segment_align=align)
    return SimpleNamespace(summary=summary, decode_variables=lambda: module)


def test_segments_are_whole_pages_one_behind_the_other_and_holes_are_filled(segments: Any) -> None:
    made, recorder = segments
    bases: list[int] = []
    first, second, third = (made.create(image(size, bases=bases)) for size in (1, 4097, 4096))
    assert [first, second, third] == [
        Segment(BEGIN, 4096),
        Segment(BEGIN + 4096, 8192),
        Segment(BEGIN + 12288, 4096),
    ]
    assert bases == [(1 << 45) + one.offset for one in (first, second, third)]
    assert [call[1] for call in recorder.take() if call[0] == "reserve"] == [4096, 8192, 4096]
    made.destroy(second)
    assert recorder.take() == [("unmap_chunk", BEGIN + 4096, 8192), ("release", 8192)]
    assert made.create(image(8193)).offset == BEGIN + 16384
    assert made.create(image(8192)).offset == BEGIN + 4096
    assert made.create(image(1, 1 << 16)).offset == BEGIN + (1 << 16)
    nothing = made.create(image(0))
    recorder.take()
    made.destroy(nothing)
    assert (nothing, recorder.take()) == (Segment(BEGIN, 0), [])


def test_a_context_s_share_of_the_range_is_filled_and_no_more(segments: Any) -> None:
    made, recorder = segments
    with pytest.raises(OutOfBudgetError, match="in the context's range"):
        made.create(image(MODULE_BYTES_PER_CONTEXT + 1))
    assert recorder.take() == []
    whole = made.create(image(MODULE_BYTES_PER_CONTEXT))
    assert whole == Segment(BEGIN, MODULE_BYTES_PER_CONTEXT)
    with pytest.raises(OutOfBudgetError, match="in the context's range"):
        made.create(image(1))
    made.destroy(whole)
    recorder.take()
    recorder.fails["map_chunk"] = OSError(errno.ENOMEM, "no")
    with pytest.raises(OSError, match="no"):
        made.create(image(4096))
    assert [call[0] for call in recorder.take()] == ["reserve", "map_chunk", "release"]
    recorder.fails.clear()
    assert made.create(image(4096)).offset == BEGIN


# The client's socket.


def packet(kind: int, body: bytes = b"", **values: int) -> bytes:
    header = messages.Header(messages.MAGIC, messages.PROTOCOL_VERSION, kind, 7, 0, len(body), 0)
    for name, value in values.items():
        setattr(header, name, value)
    return bytes(header) + body


PAYLOADS = {
    MessageType.MODULE_LOAD: (messages.ModuleLoad, 1),
    MessageType.MODULE_LINK: (messages.ModuleLoad, 1),
    MessageType.MODULE_UNLOAD: (messages.Handle, 0),
    MessageType.MODULE_KERNEL: (messages.ModuleKernel, 0),
    MessageType.CHUNK_ALLOCATE: (messages.Chunk, 0),
    MessageType.CHUNK_FREE: (messages.Chunk, 0),
    MessageType.RANGE_SHARE: (messages.Chunk, 0),
    MessageType.SHARE: (messages.Chunk, 0),
    MessageType.SHARE_END: (messages.SharedMemory, 0),
    MessageType.SHARE_OPEN: (messages.ShareOpen, 0),
    MessageType.VIEW_MAP: (messages.View, 0),
    MessageType.VIEW_UNMAP: (messages.View, 0),
    MessageType.ALLOCATION: (messages.Chunk, 0),
    MessageType.MEMORY_INFO: (None, 0),
}


@pytest.mark.parametrize("kind", list(MessageType))
def test_a_request_has_its_payload_and_its_descriptors_and_nothing_more(kind: MessageType) -> None:
    structure, wanted = PAYLOADS.get(kind, (None, 0))
    body = bytes(structure()) if structure is not None else b""

    def attempt(data: bytes, descriptors: int) -> str:
        client, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with client, worker, open(os.devnull, "rb") as file:
            before = len(os.listdir("/proc/self/fd"))
            socket.send_fds(client, [data], [file.fileno()] * descriptors)
            try:
                request = wire.receive(worker)
            except ProtocolError as err:
                assert len(os.listdir("/proc/self/fd")) == before
                return str(err)
            assert request is not None
            assert (request.kind, request.id) == (kind, 7)
            assert (request.descriptor is not None) is (descriptors == 1)
            if request.descriptor is not None:
                os.close(request.descriptor)
            assert len(os.listdir("/proc/self/fd")) == before
            return ""

    if kind not in PAYLOADS:
        assert "is not a request to a worker" in attempt(packet(kind, body), 0)
        return
    assert attempt(packet(kind, body), wanted) == ""
    for other in {0, 1, 2} - {wanted}:
        assert f"has {other} descriptors" in attempt(packet(kind, body), other)
    assert "wrong size" in attempt(packet(kind, body + b"\0"), wanted)
    assert "wrong size" in attempt(packet(kind, body) + b"\0", wanted)
    assert "wrong size" in attempt(packet(kind, body, payload_bytes=len(body) + 1), wanted)
    assert "unknown magic number or version" in attempt(
        packet(kind, body, magic=messages.MAGIC + 1), wanted
    )
    foreign = packet(kind, body, version=messages.PROTOCOL_VERSION + 1)
    assert "unknown magic number or version" in attempt(foreign, wanted)
    assert "no header" in attempt(packet(kind)[:-1], 0)


def answer_until_refused(worker: socket.socket) -> None:
    for _ in range(100_000):
        wire.reply(worker, MessageType.MEMORY_INFO, 5, CudaError.OUT_OF_MEMORY)


def test_a_client_that_has_gone_sends_none_and_one_that_does_not_read_has_gone() -> None:
    client, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with worker:
        with client, pytest.raises(ConnectionError, match="does not read"):
            answer_until_refused(worker)
        assert wire.receive(worker) is None
    client, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with client, worker:
        body = messages.MemoryInfo(3, 4)
        wire.reply(worker, MessageType.MEMORY_INFO, 5, CudaError.OUT_OF_MEMORY, body)
        data = client.recv(4096)
        header = messages.Header.from_buffer_copy(data)
        assert (header.magic, header.version) == (messages.MAGIC, messages.PROTOCOL_VERSION)
        assert (header.type, header.request, header.status) == (MessageType.MEMORY_INFO, 5, 2)
        assert header.payload_bytes == len(bytes(body))
        assert data[len(bytes(header)) :] == bytes(body)
        with pytest.raises(TypeError, match="is not a Chunk"):
            wire.Request(MessageType.CHUNK_FREE, 1, body, None).payload_as(messages.Chunk)


# gpud's channel.


def test_held_memory_is_what_was_granted_and_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, gpud = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    interrupt = os.eventfd(0, os.EFD_CLOEXEC)
    answers: list[dict[str, Any]] = []
    fences: list[tuple[str, int]] = []
    with mine, gpud:
        channel = Channel(mine, interrupt, lambda *fence: fences.append(fence), lambda *_: None)
        requested = channel._ask_once

        def answer_once(message: dict[str, Any], kind: str) -> dict[str, Any]:
            number = channel._requests + 1
            for answer in answers:
                gpud.send(spawn.encode({"type": kind, "request": number} | answer))
            answers.clear()
            return requested(message, kind)

        monkeypatch.setattr(channel, "_ask_once", answer_once)

        def sent_messages() -> list[dict[str, Any]]:
            found = []
            while True:
                try:
                    found.append(spawn.decode(gpud.recv(4096, socket.MSG_DONTWAIT)))
                except BlockingIOError:
                    return found

        # Other answers are skipped: to another request, and of another type.
        answers += [{"request": 9, "granted": False}, {"type": "memory", "granted": False}]
        answers += [{"granted": True}]
        assert channel.reserve(100) is True
        for answer in ({"granted": False}, {}, {"granted": 1}):
            answers.append(answer)
            assert channel.reserve(50) is False
        answers.append({"granted": True})
        assert channel.reserve(7) is True
        assert [one["request"] for one in sent_messages()] == [1, 2, 3, 4, 5]
        channel.release(30)
        channel.resume(launches=4)
        release, resume = sent_messages()
        assert release == {"type": "release", "bytes": 30}
        assert (resume["held_bytes"], resume["allocations"], resume["launches"]) == (77, 2, 4)
        channel.release_all()
        channel.release_all()
        assert sent_messages() == [{"type": "release", "bytes": 77}]
        answers.append({"free": 3, "total": 9})
        assert channel.memory() == (3, 9)
        for answer in ({"free": 3}, {"free": "3", "total": 9}, {"free": 3, "total": None}):
            answers.append(answer)
            with pytest.raises(GpudGoneError, match="lacks the sizes"):
                channel.memory()
        for message in ({"reason": "moved"}, {"reason": "xid", "error": 214}, {}):
            gpud.send(spawn.encode({"type": "fence"} | message))
            channel.read()
        assert fences == [("moved", 0), ("xid", 214), ("", 0)]
        gpud.send(b"no json")
        channel.read()
        assert channel.alive
        gpud.close()
        channel.read()
        assert not channel.alive
        assert channel.descriptors() == set()
    os.close(interrupt)


MECHANISMS = ("seccomp", "namespaces", "landlock")


@pytest.mark.parametrize("standing", range(8))
def test_a_worker_is_confined_by_a_filter_and_one_of_two_mechanisms(standing: int) -> None:
    mechanisms = {name: bool(standing >> bit & 1) for bit, name in enumerate(MECHANISMS)}
    confined = mechanisms["seccomp"] and (mechanisms["namespaces"] or mechanisms["landlock"])
    assert spawn.is_confined(mechanisms) is confined
    assert (
        spawn.is_confined({name: True for name, stands in mechanisms.items() if stands}) is confined
    )
    assert Level(**mechanisms).confined is confined
    others = {one.name for one in fields(Level)} - set(MECHANISMS)
    assert not spawn.is_confined(dict.fromkeys(others, True))


def test_a_level_reports_only_active_mechanisms() -> None:
    assert Level().to_json() == dict.fromkeys(
        ("own_user", "capabilities_dropped", "no_new_privileges", *MECHANISMS[1:], MECHANISMS[0]),
        False,
    ) | {"cache": True}


# Compile helpers.


@pytest.mark.parametrize(
    ("size", "seconds"),
    [(0, 5), (100_000, 6), (1_000_000, 15), (59_500_000, 600), (59_600_000, 600), (1 << 28, 600)],
)
def test_code_may_be_generated_for_so_long(size: int, seconds: float) -> None:
    assert allowed_seconds(size) == pytest.approx(seconds)
    assert children.MAX_BYTES == 1 << 28


@pytest.mark.parametrize(
    ("status", "code", "outcome", "sent_messages"),
    [
        (0, b"code", Outcome.CODE, b"code"),
        (1, b"why", Outcome.ERROR, b"why"),
        (
            -signal.SIGKILL,
            b"",
            Outcome.KILLED,
            b"code generation was ended by SIGKILL: LLVM at 0x..",
        ),
        (
            -signal.SIGSEGV,
            b"",
            Outcome.ERROR,
            b"code generation was ended by SIGSEGV: LLVM at 0x..",
        ),
    ],
)
def test_what_has_become_of_a_request(
    status: int, code: bytes, outcome: Outcome, sent_messages: bytes
) -> None:
    child = Child(at_leisure=False)
    os.pwrite(child._code, code, 0)
    os.pwrite(child._words, b"LLVM at 0x7fff1234abcd\nmore", 0)
    assert child.result(status) == (outcome, sent_messages)
    child.close()


def test_an_answer_that_is_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "MAX_BYTES", 4)
    child = Child(at_leisure=False)
    os.pwrite(child._code, b"1234", 0)
    assert child.result(0) == (Outcome.CODE, b"1234")
    os.pwrite(child._code, b"12345", 0)
    assert child.result(0) == (Outcome.ERROR, b"5 bytes of code are too many")
    child.close()
    assert child.result(0)[0] is Outcome.KILLED


# A context's usage.


@pytest.mark.parametrize(
    ("kernels", "parts"), [(0, [0]), (32, [32]), (33, [32, 1]), (65, [32, 32, 1])]
)
def test_usage_is_reported_in_parts_of_32_kernels(kernels: int, parts: list[int]) -> None:
    usage = Usage(compiled=1, cached=2, provisional=3, improved=4, swapped=5, refused=6)
    usage.modules.add(7, 70)
    usage.shapes.add(8, 80)
    for number in range(kernels):
        usage.add_kernel(f"k{number:03}", 1, 10)
        usage.add_kernel(f"k{number:03}", 2, 5)
    usage.add_kernel("never", 0, 99)
    first, *others = usage.messages()
    assert [len(one["kernels"]) for one in (first, *others)] == parts
    rows = [row for one in (first, *others) for row in one["kernels"]]
    assert rows == [[f"k{number:03}", 3, 15] for number in range(kernels)]
    assert {name: value for name, value in first.items() if name != "kernels"} == {
        "modules": 7,
        "modules_ns": 70,
        "compiled": 1,
        "cached": 2,
        "shapes": 8,
        "shapes_ns": 80,
        "provisional": 3,
        "improved": 4,
        "swapped": 5,
        "refused": 6,
    }
    assert all(set(one) == {"kernels"} for one in others)


def test_what_fails_is_measured_too() -> None:
    timed = Timed()
    with pytest.raises(ZeroDivisionError):
        timed.measure(lambda: 1 // 0)
    assert timed.measure(lambda: 5) == 5
    assert timed.count == 2
    assert timed.ns > 0


# Exports to an HCA.


def test_a_request_for_a_range_inside_a_chunk_exports_the_chunk() -> None:
    exports = Exports()
    files = [os.memfd_create(f"chunk{n}") for n in range(2)]
    for place, descriptor in enumerate(files):
        exports.keep(1000 + place * 100, 100, descriptor)
        os.close(descriptor)
    for offset, size, begin in (
        (1000, 100, 1000),
        (1099, 1, 1000),
        (1100, 100, 1100),
        (1150, 50, 1100),
    ):
        assert exports._chunk_of(offset, size)[0] == begin
    for offset, size in ((999, 1), (1099, 2), (1000, 101), (1200, 1), (1150, 51)):
        with pytest.raises(KeyError):
            exports._chunk_of(offset, size)
    for offset, size in ((1000, 100), (4096, 0)):
        with pytest.raises(KeyError, match="whole pages"):
            exports.share(offset, size)
    for place in range(2):
        exports.revoke(1000 + place * 100)
    with pytest.raises(KeyError):
        exports._chunk_of(1000, 1)
