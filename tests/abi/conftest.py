"""A private gpud with slices of an H100, and the client library loaded into this process."""

import contextlib
import ctypes
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mig.geometry import board
from support.execution.raising import Raising
from support.kept import native_parts
from support.programs import c_programs
from support.rigs.engine_fixtures import engine
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions
from vgpu_sim.cli.placing import configure, layout
from vgpu_sim.config import program_environment
from vgpu_sim.native import build

__all__ = ["engine"]


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The folder with the newly built libcuda.so.1."""
    native_parts.build_once()
    return build.LIBRARIES


@pytest.fixture(scope="session")
def run_dirs() -> Iterator[Path]:
    """The parent of the gpuds' run directories: its path is short, because they contain sockets."""
    with tempfile.TemporaryDirectory(prefix="abi-", dir="/tmp") as name:
        yield Path(name)


@contextlib.contextmanager
def running_node(backend: str, directory: Path) -> Iterator[StandaloneNode]:
    """A gpud with three slices on one GPU."""
    with StandaloneNode([directory], StandaloneOptions(backend=backend, threads=2)) as running:
        chosen = board("h100-80gb")
        device = chosen.device_profile("1g.10gb")
        with running.admin() as admin:
            configure(admin, chosen, layout(chosen, device, 3))
        yield running


def environment_of(node: StandaloneNode, libraries: Path) -> dict[str, str]:
    """Return the environment in which a program finds the slices."""
    found = dict(program_environment(node.slices_dir, node.token_hex, libraries))
    for name in ("CUDA_VISIBLE_DEVICES", "TESSERA_TRACE", "TESSERA_LOG", "TESSERA_STRICT"):
        found.pop(name, None)
    return found


@pytest.fixture(scope="session")
def node(libraries, run_dirs) -> Iterator[StandaloneNode]:
    """The gpud that most tests use."""
    with running_node("interp", run_dirs) as running:
        yield running


@pytest.fixture(scope="session")
def environment(node, libraries) -> dict[str, str]:
    """The environment of separate programs that use ``node``."""
    return environment_of(node, libraries)


@pytest.fixture(scope="module", params=["interp", "jit"])
def either_backend(request, libraries, run_dirs) -> Iterator[dict[str, str]]:
    """The environment of separate programs, with a gpud for each backend."""
    with running_node(request.param, run_dirs) as running:
        yield environment_of(running, libraries)


@pytest.fixture(scope="session")
def driver(environment, libraries):
    """cuda.bindings with Tessera's library, initialised in this process."""
    # The library is loaded first, so that later requests for its soname get it.
    ctypes.CDLL(str(libraries / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
    for name in ("TESSERA_SLICES_DIR", "TESSERA_TOKEN"):
        os.environ[name] = environment[name]
    from cuda.bindings import driver as bindings

    assert bindings.cuInit(0) == (bindings.CUresult.CUDA_SUCCESS,)
    return bindings


@pytest.fixture
def cuda(driver):
    """The driver API with exceptions, and a new context, which is alone on the thread's stack."""
    raising = Raising(driver)
    context = raising.cuCtxCreate(None, 0, 0)
    yield raising
    driver.cuCtxDestroy(context)
    left = 0
    while driver.cuCtxPopCurrent()[0] != driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
        left += 1
    assert not left, f"the test left {left} contexts on the stack, and the next would find them"


@pytest.fixture(scope="session")
def compile_c(libraries, tmp_path_factory):
    """Return a function that compiles one of the programs, once, and returns its path."""

    @functools.cache
    def compile_there(name: str, *flags: str) -> Path:
        return c_programs.compile_program(tmp_path_factory.mktemp("program"), name, *flags)

    return compile_there
