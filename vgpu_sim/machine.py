"""Puts a machine together: the one place that knows both the worker and its backends."""

import os
import socket
from typing import NoReturn

from vgpu_sim.hal.compute.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.hal.observe.modelled import MODELLED
from vgpu_sim.system import calls
from vgpu_sim.worker import process as worker, sandbox
from vgpu_sim.worker.runtime.binding import NativeRuntime


def prepare() -> None:
    """In a zygote: import and do once what every worker would do again; starts no thread.

    Not here: numpy, which starts threads, and a live LLVM engine, which must not be forked.
    """
    from vgpu_sim.worker.backends import jit

    jit.prepare()


def adopt_orphans() -> None:
    """In a zygote: become the parent of what workers leave behind, so that it is waited for.

    A compile helper ends with its worker, and somebody must take note (PR_SET_CHILD_SUBREAPER).
    """
    calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)


def walls(uid: int | None) -> dict[str, bool]:
    """Return which walls a worker with this user would stand behind here, by name."""
    return sandbox.probe(uid).to_json()


def run_worker(config: WorkerConfig, client: socket.socket, gpud: socket.socket) -> NoReturn:
    """Be the worker of one context; ends the process."""
    worker.run(config, client, gpud, _make_backend)


def run_spare(config: WorkerConfig, zygote: socket.socket) -> NoReturn:
    """Be a spare worker for contexts like this one; ends the process."""
    worker.be_spare(config, zygote, _make_backend)


def _make_backend(
    config: WorkerConfig, runtime: NativeRuntime
) -> NativeBackend | InterpretedBackend:
    """Import and make the configured backend.

    Raises:
        ValueError: for a backend that does not exist.
    """
    if config.backend == "interp" or config.clock == MODELLED:
        # numpy brings a linear algebra library that starts threads of its own unless told not to.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if config.backend == "jit":
        from vgpu_sim.worker.backends.jit import JitBackend

        return JitBackend()
    if config.backend == "interp":
        from vgpu_sim.worker.backends.interp import InterpBackend

        return InterpBackend(runtime.regions, config.multiprocessors)
    raise ValueError(f"no backend is called {config.backend!r}")
