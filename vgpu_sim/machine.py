"""Puts a machine together: the one place that knows both the worker and its backends."""

import os
import socket
from pathlib import Path
from typing import NoReturn

from vgpu_sim.hal.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.spawn import WorkerConfig
from vgpu_sim.hw import worker
from vgpu_sim.hw.runtime import NativeRuntime


def prepare() -> None:
    """In a zygote: import and do once what every worker would do again; starts no thread.

    Not here: numpy, which starts threads, and a live LLVM engine, which must not be forked.
    """
    from vgpu_sim.hw.backends import jit

    jit.prepare()


def run_worker(config: WorkerConfig, client: socket.socket, gpud: socket.socket) -> NoReturn:
    """Be the worker of one context; ends the process."""
    worker.run(config, client, gpud, _make_backend)


def _make_backend(
    config: WorkerConfig, runtime: NativeRuntime
) -> NativeBackend | InterpretedBackend:
    """Import and make the configured backend.

    Raises:
        ValueError: for a backend that does not exist.
    """
    if config.backend == "jit":
        from vgpu_sim.hw.backends.jit import JitBackend

        return JitBackend(Path(config.cache_dir) if config.cache_dir is not None else None)
    if config.backend == "interp":
        # numpy brings a linear algebra library that starts threads of its own unless told not to.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        from vgpu_sim.hw.backends.interp import InterpBackend

        return InterpBackend(runtime.regions)
    raise ValueError(f"no backend is called {config.backend!r}")
