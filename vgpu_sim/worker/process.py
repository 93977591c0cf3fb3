"""A context worker's life: join, reserve, import, lock down, serve.

The order matters. Cgroups are joined before anything is allocated, everything is imported and
opened before the sandbox closes (the image may vanish later), a compile helper is forked as it
closes, threads start inside it, and only then is the client answered. A spare worker (``be_spare``)
has done that before it knows its client, and rehearses until it does.
"""

import ctypes
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import abi, spawn
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.hal.observe.modelled import MODELLED
from vgpu_sim.worker import placing, rehearsal, sandbox, spare, wire
from vgpu_sim.worker.channel import Channel
from vgpu_sim.worker.chunks import Chunks
from vgpu_sim.worker.compiling.compile_helper import CompileHelper
from vgpu_sim.worker.control import Control
from vgpu_sim.worker.launches import Launches
from vgpu_sim.worker.modules.container_cache import ContainerCache
from vgpu_sim.worker.modules.images import Images
from vgpu_sim.worker.observing.observer import Observer
from vgpu_sim.worker.observing.requests import Requests
from vgpu_sim.worker.programs import Programs
from vgpu_sim.worker.runtime.binding import NativeRuntime
from vgpu_sim.worker.segments import Segments
from vgpu_sim.worker.usage import Usage

BackendFactory = Callable[[WorkerConfig, NativeRuntime], NativeBackend | InterpretedBackend]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a worker has behind its walls before it knows its client."""

    runtime: NativeRuntime
    backend: NativeBackend | InterpretedBackend
    level: sandbox.Level
    cache_dir: Path | None
    helper: CompileHelper | None


class _ApertureTakenError(Exception):
    """The client's place for the aperture cannot be had in this process."""


def be_spare(config: WorkerConfig, zygote: socket.socket, make_backend: BackendFactory) -> NoReturn:
    """Do all that can be done for any context like this one, then serve the one that comes."""
    placing.stop_up_holes()
    waiting = spare.Waiting(zygote)
    prepared = _prepare(config, NativeRuntime(), make_backend)
    cache = _cache(config, prepared)
    programs = _programs(config, prepared, cache, None, Usage())
    waiting.be_ready(prepared.helper.prepare() if prepared.helper is not None else ())
    for pause_ms in rehearsal.steps(programs, prepared.backend, cache, *waiting.pair):
        if waiting.is_over(pause_ms):
            break
    run(*waiting.wait(), make_backend, prepared)


def run(
    config: WorkerConfig,
    client: socket.socket,
    gpud: socket.socket,
    make_backend: BackendFactory,
    prepared: Prepared | None = None,
) -> NoReturn:
    """Serve one context on the client's connected socket; ends the process.

    A context that cannot be set up is refused with a status: 205 when the aperture's place is
    taken, which makes the client try another, 304 for anything else.
    """
    try:
        serve = _set_up(config, client, gpud, make_backend, prepared)
    except _ApertureTakenError:
        _refuse(client, config.request, CudaError.MAP_FAILED)
    except Exception as err:  # noqa: BLE001 - whatever it is, client and gpud must hear of it
        _tell_failure(gpud, "a worker cannot start", err)
        _refuse(client, config.request, CudaError.OPERATING_SYSTEM)
    try:
        serve()
    except Exception as err:
        _tell_failure(gpud, "the worker failed", err)  # its standard error leads nowhere
        raise


def _set_up(
    config: WorkerConfig,
    client: socket.socket,
    gpud: socket.socket,
    make_backend: BackendFactory,
    prepared: Prepared | None,
) -> Callable[[], NoReturn]:
    """Make everything, up to but not including the answer; return what answers and serves."""
    runtime = prepared.runtime if prepared is not None else _join(config)
    try:
        runtime.reserve(config.aperture_base)
    except OSError as err:
        raise _ApertureTakenError from err
    if prepared is None:
        wire.accept_descriptors(client)
        prepared = _prepare(config, runtime, make_backend)
    backend, level = prepared.backend, prepared.level
    if prepared.helper is not None:
        prepared.helper.get_ready()  # not earlier: what it forks is in its control group
    fault_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    control = Control(config, client, gpud, fault_event, runtime)
    area, page = runtime.create_shared()  # not earlier: a helper inherits what is mapped
    chunks = Chunks(runtime, control.channel, config.gpu_index)
    usage = Usage()
    programs = _programs(config, prepared, _cache(config, prepared), control.channel, usage)
    observer = programs.observer = _observer(config, runtime)
    runtime.start(
        aperture_base=config.aperture_base,
        threads=config.threads,
        max_threads_per_block=config.max_threads_per_block,
        multiprocessors=config.multiprocessors,
        client_socket=client.fileno(),
        fault_event=fault_event,
        sm_limits=config.sm_limits,
        answer=Launches(backend, programs, usage, runtime.replace_code).answer,
        observe=Requests(config.aperture_base, observer).report if observer is not None else None,
    )
    control.channel.start(level.to_json())

    def serve() -> NoReturn:
        with suppress(ConnectionError):  # it has gone meanwhile, which is the first thing to serve
            _welcome(client, config.request, area, page)
        control.serve(backend, programs, chunks)

    return serve


def _observer(config: WorkerConfig, runtime: NativeRuntime) -> Observer | None:
    """Make what observes the context, a modelled clock; None where the clock is the wall's."""
    if config.clock != MODELLED:
        return None
    from vgpu_sim.worker.modelling import rehearsal as modelling

    return modelling.clock(config, runtime)


def _cache(config: WorkerConfig, prepared: Prepared) -> ContainerCache:
    return ContainerCache(prepared.cache_dir, config.capability, config.backend)


def _programs(
    config: WorkerConfig,
    prepared: Prepared,
    cache: ContainerCache,
    channel: Channel | None,
    usage: Usage,
) -> Programs:
    """Make the table of modules; without a channel it takes none that has variables."""
    runtime, backend = prepared.runtime, prepared.backend
    return Programs(
        runtime,
        backend,
        Images(config.capability, cache, backend.refusals, usage),
        Segments(
            runtime,
            channel,
            aperture_base=config.aperture_base,
            gpu_index=config.gpu_index,
            context_index=config.context_index,
        ),
        aperture_base=config.aperture_base,
        capability=config.capability,
        max_threads_per_block=config.max_threads_per_block,
        usage=usage,
    )


def _join(config: WorkerConfig) -> NativeRuntime:
    """Join the context's control groups, before anything is allocated."""
    placing.stop_up_holes()
    runtime = NativeRuntime()
    for path in config.cgroup_procs:
        Path(path).write_text(f"{os.getpid()}\n")
    return runtime


def _prepare(
    config: WorkerConfig, runtime: NativeRuntime, make_backend: BackendFactory
) -> Prepared:
    """Make the backend and enter the sandbox; a native backend's code is emitted by a helper."""
    backend = make_backend(config, runtime)
    if config.clock == MODELLED:  # numpy opens files: before the walls
        from vgpu_sim.worker.modelling import rehearsal as modelling

        modelling.rehearse(config)
    helper = None
    if isinstance(backend, NativeBackend):
        helper = CompileHelper(backend.emit, backend.warm_up_to_emit)
        level = sandbox.enter(config, helper.serve)
        helper.started()
        backend.emit_by(helper)
    else:
        level = sandbox.enter(config)
    cache_dir = Path(config.cache_dir) if config.cache_dir and level.cache else None
    if isinstance(backend, NativeBackend):
        backend.use_cache(cache_dir)  # not earlier: what lies there is its writers' to choose
    return Prepared(runtime, backend, level, cache_dir, helper)


def _welcome(client: socket.socket, request: int, area: int, page: int) -> None:
    ready = messages.ContextReady(
        context=os.getpid(),
        client_area_bytes=ctypes.sizeof(abi.ClientArea),
        worker_page_bytes=ctypes.sizeof(abi.WorkerPage),
    )
    wire.reply(client, MessageType.CONTEXT_READY, request, CudaError.SUCCESS, ready, (area, page))
    os.close(area)
    os.close(page)


def _tell_failure(gpud: socket.socket, what: str, err: Exception) -> None:
    """Tell gpud why the process ends, and where that came from."""
    where = ""
    place = err.__traceback__
    while place is not None:  # the traceback module would read the source: out of reach
        where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}"
        place = place.tb_next
    reason = f"{what}: {type(err).__name__}: {err} ({where})"
    with suppress(OSError):
        message = spawn.encode({"type": "event", "event": "failed", "message": reason})
        gpud.send(message, socket.MSG_DONTWAIT)


def _refuse(client: socket.socket, request: int, status: CudaError) -> NoReturn:
    with suppress(ConnectionError):
        wire.reply(client, MessageType.CONTEXT_READY, request, status)
    os._exit(spawn.REFUSED_STATUS)
