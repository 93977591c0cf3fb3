"""Puts a machine together: the one place that knows both the worker and its backends."""

import os
import socket
from typing import NoReturn

from vgpu_sim.hal.ports import InterpretedBackend, NativeBackend
from vgpu_sim.hal.spawn import WorkerConfig
from vgpu_sim.hw import worker
from vgpu_sim.hw.runtime import NativeRuntime
from vgpu_sim.hw.warm_up import warm_up_module


def prepare() -> None:
    """In a zygote: do once what every worker would do again; starts no thread."""
    warm_up_module()


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
    if config.backend == "interp":
        # numpy brings a linear algebra library that starts threads of its own unless told not to.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        from vgpu_sim.hw.backends.interp import InterpBackend

        return InterpBackend(runtime.regions)
    raise ValueError(f"no backend is called {config.backend!r}")
