"""Simulated GPUs of a test session: each request for other GPUs starts one private gpud."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import click

from mig.errors import MigError
from mig.geometry import WHOLE, Board, DeviceProfile, find_board
from vgpu_sim import config
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions, StartFailed
from vgpu_sim.cli.placing import configure, layout
from vgpu_sim.system.python_process import interpreter

_TIMEOUT_S: Final = 300.0
_PATHS: Final = (
    "PATH",
    config.LIBRARY_PATH_VARIABLE,
    config.LINK_PATH_VARIABLE,
    config.PYTHON_PATH_VARIABLE,
)
_TYPES: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "board": ("a name", (str,)),
    "slice": ("a name", (str, type(None))),
    "count": ("a positive number", (int,)),
    "kernel_timeout": ("a positive number of seconds", (int, float, type(None))),
    "own": ("True or False", (bool,)),
}


class RequestError(Exception):
    """The requested GPUs do not exist, or could not be created."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a test requests; ``own`` shares the GPUs with no other test."""

    board: str
    slice: str | None = None
    count: int = 1
    kernel_timeout: float | None = None
    own: bool = False

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Return a request. Raises RequestError."""
        field_names = {request_field.name for request_field in fields(cls)}
        if unknown := sorted(arguments.keys() - field_names):
            raise RequestError(f"the marker tessera has no argument {unknown[0]!r}")
        for name, value in arguments.items():
            expected, types = _TYPES[name]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            if not fits or (number and not value > 0):
                raise RequestError(f"{name}={value!r} is not {expected}")
        return cls(**arguments)

    def device(self) -> tuple[Board, DeviceProfile]:
        """Return the board and the profile. Raises RequestError."""
        try:
            board = find_board(self.board)
            return board, board.device_profile(self.slice or WHOLE)
        except MigError as err:
            raise RequestError(str(err)) from err


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPUs of one test."""

    board: str
    slice: str | None
    count: int
    variables: Mapping[str, str]
    paths: Mapping[str, tuple[str, str]]  # lists of folders: what precedes and follows others

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that a program needs in addition to this process's others."""
        return self.additions_to(config.own_environment())

    def additions_to(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables to set in an environment; its lists of folders are extended."""
        added = dict(self.variables)
        for name, (first, last) in self.paths.items():
            path_text = environment.get(name) or (os.defpath if name == "PATH" else "")
            folders = path_text.split(os.pathsep) if path_text else []
            first_folders, last_folders = (
                part.split(os.pathsep) if part else [] for part in (first, last)
            )
            if folders[: len(first_folders)] == first_folders:
                first_folders = []
            if last_folders and folders[-len(last_folders) :] == last_folders:
                last_folders = []
            added[name] = os.pathsep.join([*first_folders, *folders, *last_folders])
        return added

    def run(
        self, *command: str, check: bool = True, timeout: float = _TIMEOUT_S, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the GPUs, and return its status and output.

        Raises:
            subprocess.CalledProcessError: ``check`` is set and the status is not 0; its notes have
                the program's errors.
            subprocess.TimeoutExpired: the program did not end in time.
        """
        pipe = subprocess.PIPE if options.pop("capture_output", True) else None
        options = {"stdout": pipe, "stderr": pipe, "text": True, **options}
        environment = options.get("env")
        base = config.own_environment() if environment is None else environment
        options["env"] = {**base, **self.additions_to(base)}
        process = subprocess.run(command, check=False, timeout=timeout, **options)
        if check and process.returncode != 0:
            err = subprocess.CalledProcessError(
                process.returncode, process.args, output=process.stdout, stderr=process.stderr
            )
            if process.stderr:
                err.add_note(str(process.stderr))
            raise err
        return process


@dataclass
class Gpus:
    """The GPUs of a session. They end with it."""

    _stack: ExitStack = field(default_factory=ExitStack)
    _shared: dict[Request, Gpu] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        self._shared.clear()

    @contextmanager
    def provide(self, request: Request) -> Iterator[Gpu]:
        """Return GPUs for a request, those of an equal request where it permits that.

        Raises RequestError.
        """
        if request.own:
            with ExitStack() as stack:
                yield _start(stack, request)
            return
        if request not in self._shared:
            self._shared[request] = _start(self._stack, request)
        yield self._shared[request]


def _start(stack: ExitStack, request: Request) -> Gpu:
    """Start a gpud with the requested GPUs. Raises RequestError."""
    board, device = request.device()
    if not (config.LIBRARIES_DIR / "libcuda.so.1").exists():
        raise RequestError("no libcuda.so.1: build it with `python -m vgpu_sim.native.build`")
    options = StandaloneOptions(
        cache_dir=config.user_cache_dir(), kernel_timeout_s=request.kernel_timeout
    )
    try:
        placed = layout(board, device, request.count)
        node = stack.enter_context(StandaloneNode(config.private_dir_parents(), options))
        with node.admin() as admin:
            configure(admin, board, placed)
    except click.UsageError as err:
        raise RequestError(err.format_message()) from err
    except (StartFailed, AdminRefused, OSError) as err:
        raise RequestError(f"the GPUs could not be created: {err}") from err
    base_environment = config.own_environment()
    program_environment = config.program_environment(
        node.slices_dir, node.token_hex, config.LIBRARIES_DIR
    )
    program_environment = config.with_ptxas_check(program_environment, interpreter())
    # `tessera fault` is found even if the virtual environment is not activated
    programs = str(Path(interpreter()).parent)
    program_environment["PATH"] = os.pathsep.join([program_environment["PATH"], programs])
    variables = {
        name: value
        for name, value in program_environment.items()
        if name not in _PATHS and base_environment.get(name) != value
    }
    paths = {
        name: _split(
            program_environment[name],
            base_environment.get(name) or (os.defpath if name == "PATH" else ""),
        )
        for name in _PATHS
        if name in program_environment and base_environment.get(name) != program_environment[name]
    }
    return Gpu(request.board, request.slice, request.count, variables, paths)


def _split(extended_list: str, former_list: str) -> tuple[str, str]:
    """Return what a list of folders has before and after its former value."""
    first, _, last = (
        extended_list.partition(former_list) if former_list else (extended_list, "", "")
    )
    return first.strip(os.pathsep), last.strip(os.pathsep)
