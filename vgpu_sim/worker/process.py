"""A context worker's life: join, reserve, import, lock down, serve.

The order matters. Cgroups are joined before anything is allocated, everything is imported and
opened before the sandbox closes (the image may vanish later), a compile helper is forked as it
closes, threads start inside it, and only then is the client answered.
"""

import ctypes
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from vgpu_sim.hal import abi, messages, spawn
from vgpu_sim.hal.cuda import CudaError
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.hal.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.spawn import WorkerConfig
from vgpu_sim.worker import placing, sandbox, wire
from vgpu_sim.worker.chunks import Chunks
from vgpu_sim.worker.compile_helper import CompileHelper
from vgpu_sim.worker.container_cache import ContainerCache
from vgpu_sim.worker.control import Control
from vgpu_sim.worker.images import Images
from vgpu_sim.worker.launches import Launches
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.runtime import NativeRuntime
from vgpu_sim.worker.segments import Segments
from vgpu_sim.worker.usage import Usage

BackendFactory = Callable[[WorkerConfig, NativeRuntime], NativeBackend | InterpretedBackend]


class _ApertureTakenError(Exception):
    """The client's place for the aperture cannot be had in this process."""


def run(
    config: WorkerConfig,
    client: socket.socket,
    gpud: socket.socket,
    make_backend: BackendFactory,
) -> NoReturn:
    """Serve one context on the client's connected socket; ends the process.

    A context that cannot be set up is refused with a status: 205 when the aperture's place is
    taken, which makes the client try another, 304 for anything else.
    """
    try:
        serve = _set_up(config, client, gpud, make_backend)
    except _ApertureTakenError:
        _refuse(client, config.request, CudaError.MAP_FAILED)
    except Exception as err:  # noqa: BLE001 - whatever it is, client and gpud must hear of it
        reason = f"a worker cannot start: {type(err).__name__}: {err}"
        with suppress(OSError):
            gpud.send(spawn.encode({"type": "event", "event": "failed", "message": reason}))
        _refuse(client, config.request, CudaError.OPERATING_SYSTEM)
    serve()


def _set_up(
    config: WorkerConfig, client: socket.socket, gpud: socket.socket, make_backend: BackendFactory
) -> Callable[[], NoReturn]:
    """Make everything, up to but not including the answer; return what answers and serves."""
    placing.stop_up_holes()
    runtime = NativeRuntime()
    for path in config.cgroup_procs:
        Path(path).write_text(f"{os.getpid()}\n")
    try:
        runtime.reserve(config.aperture_base)
    except OSError as err:
        raise _ApertureTakenError from err
    backend = make_backend(config, runtime)
    fault_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    control = Control(config, client, gpud, fault_event, runtime)
    wire.accept_descriptors(client)
    level = _lock_down(config, backend)
    area, page = runtime.create_shared()  # not earlier: a helper inherits what is mapped
    cache_dir = Path(config.cache_dir) if config.cache_dir and level.cache else None
    if isinstance(backend, NativeBackend):
        backend.use_cache(cache_dir)  # not earlier: what lies there is its writers' to choose
    chunks = Chunks(runtime, control.channel, config.gpu_index)
    usage = Usage()
    programs = Programs(
        runtime,
        backend,
        Images(
            config.capability,
            ContainerCache(cache_dir, config.capability, config.backend),
            backend.refusals,
            usage,
        ),
        Segments(runtime, control.channel, config.gpu_index, config.context_index),
        aperture_base=config.aperture_base,
        capability=config.capability,
        max_threads_per_block=config.max_threads_per_block,
        usage=usage,
    )
    runtime.start(
        aperture_base=config.aperture_base,
        threads=config.threads,
        max_threads_per_block=config.max_threads_per_block,
        client_socket=client.fileno(),
        fault_event=fault_event,
        answer=Launches(backend, programs, usage).answer,
    )
    control.channel.event("started", sandbox=level.to_json())

    def serve() -> NoReturn:
        with suppress(ConnectionError):  # it has gone meanwhile, which is the first thing to serve
            _welcome(client, config.request, area, page)
        control.serve(backend, programs, chunks)

    return serve


def _lock_down(config: WorkerConfig, backend: NativeBackend | InterpretedBackend) -> sandbox.Level:
    """Enter the sandbox; a native backend's code is from now on emitted where that may fail."""
    if not isinstance(backend, NativeBackend):
        return sandbox.enter(config)
    helper = CompileHelper(backend.emit, *socket.socketpair())
    level = sandbox.enter(config, helper.serve)
    helper.started()
    backend.emit_by(helper.emit)
    return level


def _welcome(client: socket.socket, request: int, area: int, page: int) -> None:
    ready = messages.ContextReady(
        context=os.getpid(),
        client_area_bytes=ctypes.sizeof(abi.ClientArea),
        worker_page_bytes=ctypes.sizeof(abi.WorkerPage),
    )
    wire.reply(client, MessageType.CONTEXT_READY, request, CudaError.SUCCESS, ready, (area, page))
    os.close(area)
    os.close(page)


def _refuse(client: socket.socket, request: int, status: CudaError) -> NoReturn:
    with suppress(ConnectionError):
        wire.reply(client, MessageType.CONTEXT_READY, request, status)
    os._exit(spawn.REFUSED_STATUS)
