"""``tessera isa``: the assembler and the disassembler."""

import click

from vgpu_sim.cli import inputs, outputs
from vgpu_sim.cli.errors import InvalidInput
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.isa import container
from vgpu_sim.isa.asm import assemble
from vgpu_sim.isa.disasm import disassemble
from vgpu_sim.isa.errors import AssemblyError, ContainerError, IsaError


@click.group(name="isa", cls=VerbGroup)
def command() -> None:
    """Assemble and disassemble the simulated GPUs' instruction set."""


@command.command()
@click.argument("file", type=inputs.FILE)
@click.option(
    "-o",
    "--output",
    type=outputs.FILE,
    required=True,
    help="Container to write; - for standard output.",
)
def asm(file: str, output: str) -> None:
    """Assemble the text FILE (- for standard input) into a container."""
    try:
        data = container.encode(assemble(inputs.read_text(file)))
    except AssemblyError as error:
        place = f"{file}:{error.line}:{error.column}"
        raise InvalidInput(f"{place}: {error.reason}") from error
    except IsaError as error:
        raise InvalidInput(f"{file}: {error}") from error
    outputs.write_binary(output, data, "a container")


@command.command()
@click.argument("file", type=inputs.FILE)
def disasm(file: str) -> None:
    """Print the container FILE (- for standard input) as text that `isa asm` accepts."""
    try:
        text = disassemble(container.decode(inputs.read(file)))
    except ContainerError as error:
        raise InvalidInput(f"{file}: {error}") from error
    click.echo(text, nl=False)
