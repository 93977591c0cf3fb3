"""``tessera ptx run``: launch one kernel without a host program."""

import json
import os
import re
import sys
from collections.abc import Sequence

import click

from facts.wording import count_of
from vgpu_sim import compiler
from vgpu_sim.cli import inputs
from vgpu_sim.cli.clients.launch import TYPES
from vgpu_sim.cli.errors import InvalidInput
from vgpu_sim.cli.ptx import commands
from vgpu_sim.isa import container
from vgpu_sim.isa.errors import IsaError
from vgpu_sim.system.python_process import module_command

_ARGUMENT = re.compile(r"([us](?:8|16|32|64)|f32|f64)(?:\[([0-9]{1,9})\])?(?::(.+))?")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})")
_BOARD, _SLICE = "h100-80gb", "1g.10gb"

Argument = tuple[str, int, str]  # type, number of elements (0: no buffer), value


def _argument(text: str) -> Argument:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise click.BadParameter(
            f"{text!r} is not an argument such as u32:5, f32[1024]:1.5, s32[64]:iota or f64[8];"
            f" types are {', '.join(TYPES)}"
        )
    type_, count, value = match[1], int(match[2] or 0), match[3] or ""
    if not value and not count:
        raise click.BadParameter(f"{text!r} has no value")
    if value and not (value == "iota" and count):
        _check_value(text, type_, value)
    return type_, count, value


def _check_value(text: str, type_: str, value: str) -> None:
    try:
        if type_.startswith("f"):
            float(value)
            return
        if not _NUMBER.fullmatch(value):
            raise ValueError
        number, bits = int(value, 0), int(type_[1:])
    except ValueError:
        raise click.BadParameter(f"{text!r}: {value!r} is not a number of type {type_}") from None
    low = -(1 << bits - 1) if type_.startswith("s") else 0
    if not low <= number < low + (1 << bits):
        raise click.BadParameter(f"{text!r}: {value} does not fit {type_}")


def _parse_arguments(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> list[Argument]:
    return [_argument(value) for value in values]


def _parse_grid(
    context: click.Context, parameter: click.Parameter, value: str
) -> tuple[int, int, int]:
    parts = value.split(",")
    if not 0 < len(parts) <= 3 or not all(p.isascii() and p.isdigit() and int(p) for p in parts):
        raise click.BadParameter(f"{value!r} is not a grid such as 4 or 16,16,1")
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


@click.command(name="run", context_settings={"ignore_unknown_options": True})
@click.argument("file", type=inputs.FILE)
@click.argument("arguments", nargs=-1, callback=_parse_arguments, metavar="[ARGUMENT]...")
@click.option("--kernel", help="Kernel to launch; required if FILE has several.")
@click.option(
    "--grid", default="1", show_default=True, metavar="X[,Y[,Z]]", callback=_parse_grid,
    help="Blocks.",
)  # fmt: skip
@click.option(
    "--block",
    metavar="X[,Y[,Z]]",
    callback=commands.parse_block,
    help="Threads of a block; default: the kernel's .reqntid, or 256,1,1.",
)
@click.option(
    "--shared", type=click.IntRange(0, 227 << 10), default=0, help="Bytes of dynamic shared memory."
)
@commands.backend_option
@click.pass_context
def run(
    context: click.Context,
    file: str,
    arguments: list[Argument],
    kernel: str | None,
    grid: tuple[int, int, int],
    block: tuple[int, int, int] | None,
    shared: int,
    backend: str,
) -> None:
    """Launch a kernel of FILE (PTX, or a container from `compile --emit container`) and print its
    buffers.

    An ARGUMENT is TYPE:VALUE (u32:5), or a buffer: TYPE[COUNT] filled with zeros, with one value
    (f32[1024]:1.5), or with 0, 1, 2, ... (s32[64]:iota). Buffers are passed by address.

    The kernel runs on a new slice, as in `tessera run`. Exit status: that of the launch, 0 or 1; 2
    if FILE cannot be read or is invalid; 125 if the slice cannot be created.
    """
    if file.startswith("-") and file != "-":  # arguments may begin with a hyphen, FILE may not
        raise click.NoSuchOption(file, ctx=context)
    if file == "-":  # the launch reads the file again
        raise click.UsageError("a launch needs a FILE: standard input is read once")
    data = inputs.read(file)
    try:
        is_container = container.is_container(data)
        module = container.decode(data) if is_container else commands.compile_file(file, None)
    except compiler.PtxError as error:
        click.echo(error.log(), nl=False, err=True)
        context.exit(commands.verdict_of(error))
    except IsaError as error:
        raise InvalidInput(f"{file}: {error}") from error
    function = commands.kernel_of(file, module, kernel)
    if len(arguments) != len(function.parameters):
        expected_count, given_count = len(function.parameters), len(arguments)
        raise click.UsageError(
            f"{function.name} takes {count_of(expected_count, 'argument')}, not {given_count}"
        )
    launch = {
        "file": os.path.abspath(file),
        "kernel": function.name,
        "grid": grid,
        "block": block or function.required_block or commands.DEFAULT_BLOCK,
        "shared": shared,
        "arguments": arguments,
    }
    program = module_command("vgpu_sim.cli.clients.launch", json.dumps(launch))
    options = ["--board", _BOARD, "--slice", _SLICE, "--backend", backend]
    command = module_command("vgpu_sim.cli.main", "run", *options, "--", *program)
    sys.stdout.flush()
    os.execv(command[0], command)
