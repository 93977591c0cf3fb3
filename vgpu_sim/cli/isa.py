"""``tessera isa``: the assembler and the disassembler."""

from typing import BinaryIO, TextIO

import click

from vgpu_sim.isa import container
from vgpu_sim.isa.asm import assemble
from vgpu_sim.isa.disasm import disassemble
from vgpu_sim.isa.errors import AssemblyError, ContainerError, IsaError


@click.group(name="isa")
def command() -> None:
    """Assemble and disassemble the simulated GPUs' instruction set."""


@command.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option(
    "-o",
    "--output",
    type=click.File("wb", lazy=True),
    required=True,
    help="Container to write; - for standard output.",
)
def asm(file: TextIO, output: BinaryIO) -> None:
    """Assemble the text FILE (- for standard input) into a container."""
    try:
        data = container.encode(assemble(file.read()))
    except AssemblyError as error:
        place = f"{file.name}:{error.line}:{error.column}"
        raise click.ClickException(f"{place}: {error.reason}") from error
    except (IsaError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from error
    output.write(data)


@command.command()
@click.argument("file", type=click.File("rb"))
def disasm(file: BinaryIO) -> None:
    """Print the container FILE (- for standard input) as text that asm reads back."""
    try:
        text = disassemble(container.decode(file.read()))
    except ContainerError as error:
        raise click.ClickException(f"{file.name}: {error}") from error
    click.echo(text, nl=False)
