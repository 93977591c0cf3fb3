"""Assembles workers. This is the only module that depends on both the worker and its backends."""

import os
import socket
from typing import NoReturn

from vgpu_sim import records
from vgpu_sim.hal.compute.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.hal.observe.modelled_report import MODELLED
from vgpu_sim.system import calls
from vgpu_sim.worker import process as worker, sandbox
from vgpu_sim.worker.runtime.binding import NativeRuntime


def prepare() -> None:
    """In a zygote: perform the imports and computations that every worker would otherwise repeat.
    No thread is started.

    numpy is not imported, because importing it starts threads. No LLVM engine stays alive,
    because an engine must not be forked.
    """
    from vgpu_sim.worker.backends import jit

    jit.prepare()
    records.complete_all()


def adopt_orphans() -> None:
    """In a zygote: become the parent of processes whose worker has ended, in order to reap them.

    A compile helper ends together with its worker, so the worker cannot reap the helper. The
    zygote becomes a child subreaper (PR_SET_CHILD_SUBREAPER).
    """
    calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)


def probe_sandbox(uid: int | None) -> dict[str, bool]:
    """Return, for each sandbox mechanism by name, whether a worker with this uid would have it on
    this system.
    """
    return sandbox.probe(uid).to_json()


def run_worker(config: WorkerConfig, client: socket.socket, gpud: socket.socket) -> NoReturn:
    """Run the worker of one context. The process ends with the worker, so this function never
    returns.
    """
    worker.run(config, client, gpud, _make_backend)


def run_spare(config: WorkerConfig, zygote: socket.socket) -> NoReturn:
    """Run a spare worker. A context can claim the worker if the context's configuration agrees with
    ``config`` in everything that the client does not choose. The process ends with the worker, so
    this function never returns.
    """
    worker.be_spare(config, zygote, _make_backend)


def _make_backend(
    config: WorkerConfig, runtime: NativeRuntime
) -> NativeBackend | InterpretedBackend:
    """Import and create the configured backend.

    Raises:
        ValueError: no backend has the configured name.
    """
    if config.backend == "interp" or config.clock == MODELLED:
        # numpy loads a linear algebra library that would otherwise start threads.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if config.backend == "jit":
        from vgpu_sim.worker.backends.jit import JitBackend

        return JitBackend()
    if config.backend == "interp":
        from vgpu_sim.worker.backends.interp import InterpBackend

        return InterpBackend(runtime.regions, config.multiprocessors)
    raise ValueError(f"no backend is called {config.backend!r}")
