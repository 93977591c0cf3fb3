"""Warms up a spare worker: performs the requests that clients send first.

In a forked process the first write to each page and the first run of each part of the code are
slow; a spare worker does them before a client waits (docs/benchmarks.md, "First load of a cached
module").
"""

import ctypes
import os
import socket
from collections.abc import Iterator
from typing import Final

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.isa import container
from vgpu_sim.worker import memory, wire
from vgpu_sim.worker.compiling.server import SPARE_PAUSE_MS
from vgpu_sim.worker.modules.container_cache import ContainerCache
from vgpu_sim.worker.modules.module_summary import ModuleSummary, summarise
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.warm_up import SAMPLE, warm_up_module

_ROUNDS: Final = 3  # Python specializes code that runs repeatedly
_NO_TEXT: Final = b"a text that no cache holds"


def steps(
    programs: Programs,
    backend: NativeBackend | InterpretedBackend,
    cache: ContainerCache,
    client: socket.socket,
    worker: socket.socket,
) -> Iterator[int]:
    """Warm up a spare worker in steps of a few milliseconds. After each step, yield for how many
    milliseconds the caller should pause.

    The modules that the warm-up loads are unloaded again. ``client`` and ``worker`` are two
    sockets that are connected to each other.
    """
    for _ in _load_modules(programs, cache, client, worker):
        yield 0
    yield SPARE_PAUSE_MS
    for _ in range(_ROUNDS):
        container.encode(compile_ptx(SAMPLE, capability=(8, 0)))
        yield 0
    if isinstance(backend, NativeBackend):
        for _ in backend.warm_up_in_steps():
            yield 0


def _load_modules(
    programs: Programs, cache: ContainerCache, client: socket.socket, worker: socket.socket
) -> Iterator[None]:
    """Perform the steps of loading a cached module."""
    image = container.encode(warm_up_module())
    load = messages.ModuleLoad(image_bytes=len(image))
    for number in range(_ROUNDS):
        file = memory.create_constant("tessera-warm-up", image)
        _send(client, load, number, file)
        request = wire.receive(worker)
        assert request is not None
        assert request.descriptor is not None
        data = memory.read_exactly(request.descriptor, len(image))
        os.close(request.descriptor)
        cache.load(_NO_TEXT)
        ModuleSummary.from_json(summarise(container.decode(data)).to_json())
        module, table, _ = programs.load(data)
        answer = memory.create_constant("tessera-module-table", table)
        payload = messages.ModuleTable(module, len(table))
        kind = MessageType(request.kind + 1)
        wire.reply(worker, kind, request.id, CudaError.SUCCESS, payload, (answer,))
        os.close(answer)
        _, descriptors, _, _ = socket.recv_fds(client, messages.MAX_MESSAGE_BYTES, 1)
        os.close(descriptors[0])
        programs.unload(module, lambda: None)
        yield


def _send(client: socket.socket, load: messages.ModuleLoad, number: int, file: int) -> None:
    header = messages.Header(
        magic=messages.MAGIC,
        version=messages.PROTOCOL_VERSION,
        type=MessageType.MODULE_LOAD,
        request=number,
        payload_bytes=ctypes.sizeof(load),
    )
    socket.send_fds(client, [bytes(header) + bytes(load)], [file])
    os.close(file)
