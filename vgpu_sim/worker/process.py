"""The life of a context worker: join control groups, reserve, import, enter the sandbox, serve.

The order matters. The worker joins control groups before it allocates anything. It imports and
opens everything before it enters the sandbox, because the container image may vanish later. It
forks the compile helper while it enters the sandbox, starts threads inside the sandbox, and only
then answers the client. A spare worker (``be_spare``) does everything except the answer before
its client exists, and then warms up until it is claimed.
"""

import ctypes
import errno
import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import abi, spawn
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.hal.observe.modelled_report import MODELLED
from vgpu_sim.records import dataclass
from vgpu_sim.system import tiles
from vgpu_sim.worker import address_randomization, sandbox, spare, spare_warm_up, wire
from vgpu_sim.worker.channel import Channel
from vgpu_sim.worker.chunks import Chunks
from vgpu_sim.worker.compiling.compile_helper import CompileHelper
from vgpu_sim.worker.control import Control
from vgpu_sim.worker.hot_kernels import HotKernels
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
    """A worker's state inside its sandbox, before it has a client."""

    runtime: NativeRuntime
    backend: NativeBackend | InterpretedBackend
    level: sandbox.Level
    cache_dir: Path | None
    helper: CompileHelper | None


class _ApertureTakenError(Exception):
    """The client's choice for the aperture is not available in this process."""


class _GroupRemovedError(Exception):
    """gpud has removed the context's control group."""


def be_spare(config: WorkerConfig, zygote: socket.socket, make_backend: BackendFactory) -> NoReturn:
    """Prepare a spare worker, then serve the context that claims the worker. Never returns.

    A context can claim the worker only if the context's configuration equals ``config``, except
    for what the client chooses.
    """
    address_randomization.fill_holes()
    waiting = spare.Waiting(zygote)
    prepared = _prepare(config, NativeRuntime(), make_backend)
    cache = _cache(config, prepared)
    programs = _programs(config, prepared, cache, None, Usage())
    waiting.report_ready(prepared.helper.prepare() if prepared.helper is not None else ())
    for pause_ms in spare_warm_up.steps(programs, prepared.backend, cache, *waiting.pair):
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
    """Serve one context on the client's connected socket. Never returns, because the process ends.

    A context that cannot be set up is refused with a status. The status is 205 if the aperture's
    address range is taken; the client then tries another range. It is 304 for any other reason.

    If gpud has ended meanwhile, or is ending, the worker closes the connection without an answer,
    and the client repeats its request to the next gpud. A failure may be a consequence of that end.
    """
    try:
        serve = _set_up(config, client, gpud, make_backend, prepared)
    except _ApertureTakenError:
        _refuse(client, config.request, CudaError.MAP_FAILED)
    except Exception as err:  # noqa: BLE001 - client and gpud must get the reason of any error
        _tell_failure(gpud, "a worker cannot start", err)
        if isinstance(err, _GroupRemovedError) or _has_ended(gpud):
            os._exit(spawn.REFUSED_STATUS)
        _refuse(client, config.request, CudaError.OPERATING_SYSTEM)
    if _has_ended(gpud):
        # It may have ended before it recorded the context. Its successor then ends this worker.
        os._exit(spawn.REFUSED_STATUS)
    try:
        serve()
    except Exception as err:
        _tell_failure(gpud, "the worker failed", err)  # its standard error is detached
        raise


def _set_up(
    config: WorkerConfig,
    client: socket.socket,
    gpud: socket.socket,
    make_backend: BackendFactory,
    prepared: Prepared | None,
) -> Callable[[], NoReturn]:
    """Set up the context, except for the answer to the client; return the function that answers and
    serves.
    """
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
        prepared.helper.keep_child_ready()  # not earlier: children must be in the control group
    fault_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    control = Control(config, client, gpud, fault_event, runtime)
    area, page = runtime.create_shared()  # not earlier: a helper would inherit the mappings
    chunks = Chunks(runtime, control.channel, config.gpu_index)
    usage = Usage()
    programs = _programs(config, prepared, _cache(config, prepared), control.channel, usage)
    observer = programs.observer = _observer(config, runtime)
    hot_kernels = HotKernels(runtime, backend, programs, config.hot_kernel_ns)
    runtime.start(
        aperture_base=config.aperture_base,
        threads=config.threads,
        max_threads_per_block=config.max_threads_per_block,
        multiprocessors=config.multiprocessors,
        client_socket=client.fileno(),
        fault_event=fault_event,
        sm_limits=config.sm_limits,
        answer=Launches(backend, programs, usage, runtime.replace_code, hot_kernels.watch).answer,
        observe=Requests(config.aperture_base, observer).report if observer is not None else None,
    )
    control.channel.start(level.to_json())

    def serve() -> NoReturn:
        with suppress(ConnectionError):  # the client has gone meanwhile; serving it handles that
            _welcome(client, config.request, area, page)
        control.serve(backend, programs, chunks, hot_kernels)

    return serve


def _observer(config: WorkerConfig, runtime: NativeRuntime) -> Observer | None:
    """Create the context's observer, a modelled clock; None if the clock is the wall clock."""
    if config.clock != MODELLED:
        return None
    from vgpu_sim.worker.modelling import clock_setup

    return clock_setup.make_clock(config, runtime)


def _cache(config: WorkerConfig, prepared: Prepared) -> ContainerCache:
    return ContainerCache(prepared.cache_dir, config.capability, config.backend)


def _programs(
    config: WorkerConfig,
    prepared: Prepared,
    cache: ContainerCache,
    channel: Channel | None,
    usage: Usage,
) -> Programs:
    """Create the table of modules. Without a channel, the table accepts no module with
    variables.
    """
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
    """Join the context's control groups, before anything is allocated.

    Raises:
        _GroupRemovedError: gpud is ending or destroys the instance.
    """
    address_randomization.fill_holes()
    runtime = NativeRuntime()
    for path in config.cgroup_procs:
        try:
            Path(path).write_text(f"{os.getpid()}\n")
        except OSError as err:
            # ENOENT: the group was removed before the file was opened; ENODEV: after
            if err.errno in (errno.ENOENT, errno.ENODEV):
                raise _GroupRemovedError(str(err)) from err
            raise
    return runtime


def _prepare(
    config: WorkerConfig, runtime: NativeRuntime, make_backend: BackendFactory
) -> Prepared:
    """Create the backend and enter the sandbox; a helper emits a native backend's code."""
    backend = make_backend(config, runtime)
    if config.clock == MODELLED:  # numpy opens files: before the sandbox
        from vgpu_sim.worker.modelling import clock_setup

        clock_setup.warm_up(config)
    helper = None
    if isinstance(backend, NativeBackend):
        tiles.request()  # not later: the sandbox refuses it, and the helper must have the result
        helper = CompileHelper(backend.emit, backend.warm_up_to_emit)
        level = sandbox.enter(config, helper.serve)
        helper.connect()
        backend.use_emitter(helper)
    else:
        level = sandbox.enter(config)
    cache_dir = Path(config.cache_dir) if config.cache_dir and level.cache else None
    if isinstance(backend, NativeBackend):
        backend.use_cache(cache_dir)  # not earlier: other processes choose the cache's content
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


def _tell_failure(gpud: socket.socket, activity: str, err: Exception) -> None:
    """Report to gpud why the process ends, and the place of the error."""
    where = ""
    place = err.__traceback__
    # the traceback module would read the source, which the sandbox forbids
    while place is not None:
        where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}"
        place = place.tb_next
    reason = f"{activity}: {type(err).__name__}: {err} ({where})"
    with suppress(OSError):
        message = spawn.encode({"type": "event", "event": "failed", "message": reason})
        gpud.send(message, socket.MSG_DONTWAIT)


def _has_ended(gpud: socket.socket) -> bool:
    """Return whether gpud has closed its end of the channel. Unread messages may remain."""
    poller = select.poll()
    poller.register(gpud, 0)
    return bool(poller.poll(0))


def _refuse(client: socket.socket, request: int, status: CudaError) -> NoReturn:
    with suppress(ConnectionError):
        wire.reply(client, MessageType.CONTEXT_READY, request, status)
    os._exit(spawn.REFUSED_STATUS)
