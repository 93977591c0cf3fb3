"""``tessera isa``: the assembler and the disassembler."""

from typing import BinaryIO

import click

from vgpu_sim.cli import inputs
from vgpu_sim.isa import container
from vgpu_sim.isa.asm import assemble
from vgpu_sim.isa.disasm import disassemble
from vgpu_sim.isa.errors import AssemblyError, ContainerError, IsaError


@click.group(name="isa")
def command() -> None:
    """Assemble and disassemble the simulated GPUs' instruction set."""


@command.command()
@click.argument("file", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.File("wb", lazy=True),
    required=True,
    help="Container to write; - for standard output.",
)
def asm(file: str, output: BinaryIO) -> None:
    """Assemble the text FILE (- for standard input) into a container."""
    try:
        data = container.encode(assemble(inputs.read(file).decode()))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except AssemblyError as error:
        place = f"{file}:{error.line}:{error.column}"
        raise click.ClickException(f"{place}: {error.reason}") from error
    except (IsaError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from error
    output.write(data)


@command.command()
@click.argument("file", type=click.Path())
def disasm(file: str) -> None:
    """Print the container FILE (- for standard input) as text that asm reads back."""
    try:
        text = disassemble(container.decode(inputs.read(file)))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except ContainerError as error:
        raise click.ClickException(f"{file}: {error}") from error
    click.echo(text, nl=False)
