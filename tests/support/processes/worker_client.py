"""A test client in Python that sends real messages and ring slots to a real worker.

A test can also write slots and messages raw, as a hostile client would.
"""

import array
import ctypes
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import abi, address_map, spawn
from vgpu_sim.hal.compute.abi import Opcode
from vgpu_sim.hal.compute.limits import STACK_BYTES_PER_THREAD
from vgpu_sim.hal.messages import ChunkKind, MessageType

MIB = 1 << 20


class Gpud:
    """The other end of a worker's channel: grants memory from a budget, collects events."""

    def __init__(self, connection: socket.socket, budget_bytes: int) -> None:
        self.connection = connection
        self.total = budget_bytes
        self.used = 0
        self.events: list[dict[str, Any]] = []
        self.closed = threading.Event()
        self.answering = True
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                data = self.connection.recv(65536)
            except OSError:
                data = b""
            if not data:
                self.closed.set()
                return
            message = spawn.decode(data)
            answer = self._answer(message)
            if answer is not None and self.answering:
                with suppress(OSError):
                    self.connection.send(spawn.encode(answer))

    def _answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        free = self.total - self.used
        common = {"request": message.get("request"), "total": self.total}
        match message["type"]:
            case "reserve":
                granted = message["bytes"] <= free
                self.used += message["bytes"] if granted else 0
                return {"type": "reserved", "granted": granted, "free": free, **common}
            case "release":
                self.used -= message["bytes"]
            case "memory":
                return {"type": "memory", "free": free, **common}
            case _:
                self.events.append(message)
        return None

    def fence(self, reason: str) -> None:
        self.connection.send(spawn.encode({"type": "fence", "reason": reason}))

    def event(self, name: str, timeout_s: float = 60, **fields: object) -> dict[str, Any]:
        """Wait for an event with this name and these fields."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for message in self.events:
                if name in (message.get("event"), message["type"]) and fields.items() <= (
                    message.items()
                ):
                    return message
            time.sleep(0.005)
        raise AssertionError(f"no {name} event; got {self.events}")


class Zygote:
    """The real zygote process; ``start`` is the part of the command line that makes Python run
    it.
    """

    def __init__(self, start: tuple[str, str] = ("-m", "vgpu_sim.zygote")) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket = ours
        self.process = subprocess.Popen(
            [sys.executable, *start, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | spawn.ZYGOTE_ENVIRONMENT,
        )
        theirs.close()
        ready = json.loads(ours.recv(65536))
        assert ready["type"] == "ready"
        self.restrictions: dict[str, bool] = ready["sandbox"]
        self._requests = 0
        self.exits: dict[int, int] = {}

    def spawn(self, config: spawn.WorkerConfig, client: socket.socket, gpud: socket.socket) -> int:
        self._requests += 1
        message = {"type": "spawn", "request": self._requests, "worker": config.to_json()}
        descriptors = [client.fileno(), gpud.fileno()]
        socket.send_fds(self.socket, [spawn.encode(message)], descriptors)
        while True:
            answer = self.receive()
            if answer["type"] != "begun" and answer.get("request") == self._requests:
                break
        if answer["type"] != "spawned":
            raise RuntimeError(answer["error"])
        return int(answer["pid"])

    def receive(self) -> dict[str, Any]:
        message = json.loads(self.socket.recv(65536))
        if message["type"] == "exited":
            self.exits[message["pid"]] = message["status"]
        return dict(message)

    def exit_status(self, pid: int, timeout_s: float = 60) -> int:
        """Wait for a worker's end; return its status as from waitpid."""
        self.socket.settimeout(timeout_s)
        while pid not in self.exits:
            self.receive()
        return self.exits[pid]

    def close(self) -> None:
        self.socket.close()
        self.process.wait(60)


@dataclass
class Reply:
    status: int
    payload: bytes
    descriptors: list[int] = field(default_factory=list)


@dataclass
class Memory:
    """A chunk: its device address and the client's alias of its bytes."""

    offset: int
    address: int
    kind: ChunkKind
    alias: mmap.mmap


@dataclass
class LoadedModule:
    handle: int
    status: int
    log: str
    functions: dict[str, messages.FunctionRecord]
    parameters: list[tuple[int, int]]
    variables: dict[str, tuple[int, int]]
    refused: dict[str, str]  # their logs


class Client:
    """One context. This class fills its streams' rings as the client library would."""

    def __init__(self, zygote: Zygote, config: spawn.WorkerConfig, budget_bytes: int) -> None:
        self.config = config
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gpud = Gpud(ours, budget_bytes)
        self.zygote = zygote
        self.pid = zygote.spawn(config, theirs, channel)
        theirs.close()
        channel.close()
        self.socket.settimeout(30)
        self._requests = config.request
        self.ready = self._receive(MessageType.CONTEXT_READY, config.request)
        self._next_offset = {
            ChunkKind.DEVICE: address_map.DEVICE_OFFSET,
            ChunkKind.HOST: address_map.HOST_OFFSET,
        }
        self.values = [0] * abi.MAX_STREAMS
        if self.ready.status == 0:
            self._map(self.ready)

    def _map(self, ready: Reply) -> None:
        sizes = messages.ContextReady.from_buffer_copy(ready.payload)
        assert sizes.client_area_bytes == ctypes.sizeof(abi.ClientArea)
        assert sizes.worker_page_bytes == ctypes.sizeof(abi.WorkerPage)
        area, self.page_descriptor = ready.descriptors
        self._area_map = mmap.mmap(area, sizes.client_area_bytes)
        self._page_map = mmap.mmap(
            self.page_descriptor, sizes.worker_page_bytes, prot=mmap.PROT_READ
        )
        os.close(area)
        self.area = abi.ClientArea.from_buffer(self._area_map)
        self.area.stream_limit = abi.MAX_STREAMS
        self.area.cpu = -1

    @property
    def page(self) -> abi.WorkerPage:
        """Return a copy of the worker's page in its current state."""
        return abi.WorkerPage.from_buffer_copy(self._page_map)

    # Messages.

    def request(
        self, kind: MessageType, payload: bytes = b"", descriptors: tuple[int, ...] = ()
    ) -> Reply:
        self._requests += 1
        header = messages.Header(
            magic=messages.MAGIC,
            version=messages.PROTOCOL_VERSION,
            type=kind,
            request=self._requests,
            payload_bytes=len(payload),
        )
        socket.send_fds(self.socket, [bytes(header) + payload], list(descriptors))
        return self._receive(MessageType(kind + 1), self._requests)

    def _receive(self, kind: MessageType, request: int) -> Reply:
        descriptors = array.array("i")
        data, ancillary, _, _ = self.socket.recvmsg(
            messages.MAX_MESSAGE_BYTES, socket.CMSG_SPACE(4 * descriptors.itemsize)
        )
        if not data:
            raise ConnectionError("the worker has gone")
        for _, _, content in ancillary:
            descriptors.frombytes(content)
        header = messages.Header.from_buffer_copy(data)
        assert (header.magic, header.type, header.request) == (messages.MAGIC, kind, request)
        assert header.payload_bytes == len(data) - ctypes.sizeof(messages.Header)
        return Reply(header.status, data[ctypes.sizeof(messages.Header) :], list(descriptors))

    def load(self, image: bytes, flags: int = 0) -> LoadedModule:
        descriptor = os.memfd_create("image")
        os.write(descriptor, image)
        payload = messages.ModuleLoad(image_bytes=len(image), flags=flags)
        reply = self.request(MessageType.MODULE_LOAD, bytes(payload), (descriptor,))
        os.close(descriptor)
        return self._read_table(reply)

    def load_kernel(self, module: int, index: int) -> LoadedModule:
        """Load a kernel of a lazy module; return the module of that kernel alone."""
        payload = messages.ModuleKernel(module=module, index=index)
        return self._read_table(self.request(MessageType.MODULE_KERNEL, bytes(payload)))

    def _read_table(self, reply: Reply) -> LoadedModule:
        table = b""
        if reply.descriptors:
            table = os.pread(reply.descriptors[0], 1 << 24, 0)
            os.close(reply.descriptors[0])
        handle = messages.ModuleTable.from_buffer_copy(reply.payload).module
        return _parse_table(handle, reply.status, table)

    def unload(self, module: LoadedModule) -> int:
        payload = bytes(messages.Handle(module.handle))
        return self.request(MessageType.MODULE_UNLOAD, payload).status

    def allocate_raw(self, offset: int, size: int, kind: int) -> Reply:
        payload = bytes(messages.Chunk(offset, size, kind))
        return self.request(MessageType.CHUNK_ALLOCATE, payload)

    def allocate(self, size: int, kind: ChunkKind = ChunkKind.DEVICE) -> Memory:
        size = -(-size // address_map.CHUNK_ALIGN_BYTES) * address_map.CHUNK_ALIGN_BYTES
        offset = self._next_offset[kind]
        reply = self.allocate_raw(offset, size, kind)
        if reply.status:
            raise MemoryError(reply.status)
        self._next_offset[kind] = offset + size + address_map.CHUNK_ALIGN_BYTES
        alias = mmap.mmap(reply.descriptors[0], size)
        os.close(reply.descriptors[0])
        return Memory(offset, self.config.aperture_base + offset, kind, alias)

    def free(self, memory: Memory) -> int:
        payload = bytes(messages.Chunk(memory.offset, len(memory.alias), memory.kind))
        return self.request(MessageType.CHUNK_FREE, payload).status

    def memory_info(self) -> tuple[int, int]:
        reply = self.request(MessageType.MEMORY_INFO)
        info = messages.MemoryInfo.from_buffer_copy(reply.payload)
        return info.free_bytes, info.total_bytes

    # Rings.

    def put(self, stream: int, slot: bytes) -> None:
        """Copy raw bytes into the next slot of a ring and publish it."""
        head = self.area.head[stream]
        deadline = time.monotonic() + 20
        while head - self.page.tail[stream] >= abi.SLOTS_PER_STREAM:
            if self.page.error or time.monotonic() > deadline:
                raise RuntimeError("the ring stays full")
        address = ctypes.addressof(self.area.rings[stream].slots[head % abi.SLOTS_PER_STREAM])
        ctypes.memmove(address, slot, abi.SLOT_BYTES)
        self.area.head[stream] = head + 1
        if self.page.sleeping:
            self.ring()

    def ring(self) -> None:
        self.area.bell += 1
        _futex_wake(ctypes.addressof(self.area) + abi.ClientArea.bell.offset)

    def slot(self, stream: int, opcode: int, waits: tuple[tuple[int, int], ...] = ()) -> abi.Slot:
        """Return the next slot of a stream, with an empty body."""
        self.values[stream] += 1
        slot = abi.Slot(
            opcode=opcode,
            wait_count=len(waits),
            order=sum(self.values),
            value=self.values[stream],
        )
        for index, (waited, value) in enumerate(waits):
            slot.waits[index] = abi.Wait(waited, 0, value)
        return slot

    def launch(
        self,
        kernel: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: bytes,
        stream: int = 0,
        waits: tuple[tuple[int, int], ...] = (),
    ) -> int:
        slot = self.slot(stream, Opcode.LAUNCH, waits)
        inline = parameters[: abi.INLINE_PARAMETER_BYTES]
        rest = parameters[abi.INLINE_PARAMETER_BYTES :]
        more = [rest[i : i + abi.SLOT_BYTES] for i in range(0, len(rest), abi.SLOT_BYTES)]
        slot.continuation_slots = len(more)
        slot.body.launch = abi.LaunchBody(
            kernel=kernel,
            grid=grid,
            block=block,
            parameter_bytes=len(parameters),
            stack_bytes=STACK_BYTES_PER_THREAD,
        )
        slot.body.launch.parameters[: len(inline)] = inline
        self.put(stream, bytes(slot))
        for part in more:
            self.put(stream, part.ljust(abi.SLOT_BYTES, b"\0"))
        return self.values[stream]

    def copy(
        self,
        destination: int,
        source: int,
        size: int,
        stream: int = 0,
        waits: tuple[tuple[int, int], ...] = (),
    ) -> int:
        slot = self.slot(stream, Opcode.COPY, waits)
        slot.body.copy = abi.CopyBody(destination, source, size)
        self.put(stream, bytes(slot))
        return self.values[stream]

    def fill(
        self, destination: int, count: int, pattern: int, width_bytes: int, stream: int = 0
    ) -> int:
        slot = self.slot(stream, Opcode.SET)
        slot.body.set = abi.SetBody(destination, count, pattern, width_bytes)
        self.put(stream, bytes(slot))
        return self.values[stream]

    def timestamp(self, index: int, stream: int = 0) -> int:
        slot = self.slot(stream, Opcode.TIMESTAMP)
        slot.body.timestamp = abi.TimestampBody(index)
        self.put(stream, bytes(slot))
        return self.values[stream]

    def wait(self, stream: int, value: int, timeout_s: float = 60) -> None:
        """Wait until a stream has reached a value.

        Raises RuntimeError if the context dies, TimeoutError if nothing happens.
        """
        deadline = time.monotonic() + timeout_s
        while self.page.timeline[stream] < value:
            if self.page.error:
                raise RuntimeError(
                    f"the context died: {self.page.error}, {self.page.fault.message}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(f"stream {stream} is at {self.page.timeline[stream]}")
            time.sleep(0.0005)

    def wait_for_error(self, timeout_s: float = 60) -> abi.WorkerPage:
        """Wait until the context is dead; return its page."""
        deadline = time.monotonic() + timeout_s
        while not self.page.error:
            if time.monotonic() > deadline:
                raise TimeoutError("the context lives")
            time.sleep(0.0005)
        return self.page

    def close(self) -> None:
        self.socket.close()
        self.gpud.connection.close()


def _parse_table(handle: int, status: int, table: bytes) -> LoadedModule:
    if not table:
        return LoadedModule(handle, status, "", {}, [], {}, {})
    header = messages.TableHeader.from_buffer_copy(table)

    def text(offset: int) -> str:
        return table[offset : table.index(b"\0", offset)].decode()

    def records(kind: Any, count: int, offset: int) -> Iterator[Any]:
        for index in range(count):
            yield kind.from_buffer_copy(table, offset + index * ctypes.sizeof(kind))

    return LoadedModule(
        handle=handle,
        status=status,
        log=text(header.log_offset),
        functions={
            text(record.name_offset): record
            for record in records(
                messages.FunctionRecord, header.function_count, header.function_offset
            )
        },
        parameters=[
            (record.offset, record.size)
            for record in records(
                messages.ParameterRecord, header.parameter_count, header.parameter_offset
            )
        ],
        variables={
            text(record.name_offset): (record.address, record.bytes)
            for record in records(
                messages.VariableRecord, header.variable_count, header.variable_offset
            )
        },
        refused={
            text(record.name_offset): text(record.log_offset)
            for record in records(
                messages.RefusedRecord, header.refused_count, header.refused_offset
            )
        },
    )


def _futex_wake(address: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(202, ctypes.c_void_p(address), 1, 1, None, None, 0)


def worker_config(**changes: Any) -> spawn.WorkerConfig:
    """Return a worker's configuration for tests."""
    config = spawn.WorkerConfig(
        request=1,
        instance_uuid="MIG-00000000-0000-0000-0000-000000000001",
        profile="1g.10gb",
        capability=(9, 0),
        backend="interp",
        aperture_base=address_map.APERTURE_BASES[0],
        gpu_index=0,
        context_index=0,
        memory_limit_bytes=1 << 30,
        threads=2,
    )
    return replace(config, **changes)


@contextmanager
def running_zygote(*start: str) -> Iterator[Zygote]:
    """Run a zygote for a test module."""
    zygote = Zygote(*([(start[0], start[1])] if start else []))
    try:
        yield zygote
    finally:
        zygote.close()


@contextmanager
def running_client(
    zygote: Zygote, budget_bytes: int = 256 * MIB, **changes: Any
) -> Iterator[Client]:
    """Open a context on a fresh worker."""
    client = Client(zygote, worker_config(**changes), budget_bytes)
    try:
        yield client
    finally:
        client.close()
        with suppress(ProcessLookupError):
            os.kill(client.pid, 9)
