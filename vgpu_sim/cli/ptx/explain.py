"""``tessera ptx explain`` shows how each kernel is compiled, decision by decision or stage by
stage.
"""

import pprint
from collections.abc import Iterator
from pathlib import Path

import click

from drawing import terminal
from vgpu_sim import compiler
from vgpu_sim.cli import inputs, pictures
from vgpu_sim.cli.errors import InvalidInput, report
from vgpu_sim.cli.ptx import commands, listing
from vgpu_sim.cli.ptx.sources import Sources
from vgpu_sim.compiler import pipeline
from vgpu_sim.isa import Function, Module
from vgpu_sim.isa.disasm import disassemble

_STAGES = ("parse", "lower", "allocate", "ir", "passes", "asm")
_Shape = tuple[int, int, int]


@click.command()
@click.argument("file", type=inputs.FILE)
@click.option("--kernel", help="Kernel to explain; default: all kernels of FILE.")
@click.option(
    "--block",
    metavar="X[,Y[,Z]]",
    callback=commands.parse_block,
    help="Threads of a block; default: the kernel's .reqntid, or 256,1,1.",
)
@click.option(
    "--stage",
    type=click.Choice(_STAGES),
    help="Print the output of one stage instead: the syntax tree; the instructions before or"
    " after register"
    " allocation; each kernel's LLVM IR before or after the passes; or assembly.",
)
@click.option(
    "--source",
    "sources",
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="A source file, or a folder with source files: drawings show the text of the lines that"
    " .loc names. Can be repeated.",
)
@commands.cc_option
@commands.backend_option
@pictures.with_pictures
@click.pass_context
def explain(
    context: click.Context,
    file: str,
    kernel: str | None,
    block: _Shape | None,
    stage: str | None,
    sources: tuple[Path, ...],
    cc: tuple[int, int] | None,
    backend: str,
) -> None:
    """Show the compiler's decisions about the kernels of FILE (- for standard input).

    The exit status is that of `tessera ptx check`.
    """
    try:
        if stage in _STAGES[:3]:
            click.echo(_portable(file, cc, stage), nl=False)
            return
        module = commands.compile_file(file, cc)
    except inputs.UnreadableFile as error:
        report(error.message)
        context.exit(commands.Verdict.NOT_PTX)
    except compiler.PtxError as error:
        click.echo(error.log(), nl=False, err=True)
        context.exit(commands.verdict_of(error))
    refused = {
        refusal.name: refusal
        for refusal in (*module.refused, *commands.refused_by(backend, module))
    }
    drawn = [
        function
        for function in module.functions
        if function.name not in refused and kernel in (None, function.name)
    ]
    names = [function.name for function in module.functions] + list(refused)
    if kernel is not None and kernel not in names:
        kernel_names = ", ".join(names) or "none"
        raise InvalidInput(f"{file}: no kernel {kernel!r}; kernels in it: {kernel_names}")
    source = compiler.decode(inputs.read(file)) if file != "-" else ""
    request = pictures.current()
    if file == "-" and (request.wants_files or request.draw):
        raise click.UsageError("drawings need a FILE: standard input is read once")
    title = f"kernels of {file}"
    lines = Sources(sources)
    pictures.write_files(title, lambda: listing.figures_of(source, drawn, lines), (listing.NOTE,))
    for function in () if request.takes_stdout else drawn:
        click.echo(_kernel(module, function, block, stage, backend), nl=False)
        if request.wants_text and source and stage is None:
            pictures.print_lines(listing.lines_of(source, function, terminal.width(), lines))
    chosen = [refusal for name, refusal in refused.items() if kernel in (None, name)]
    for refusal in chosen:
        click.echo(f"{commands.title(refusal)}: refused")
        click.echo(compiler.render(refusal.reasons, file), nl=False)
    context.exit(commands.Verdict.REFUSED if chosen else commands.Verdict.LOADS)


def _portable(file: str, cc: tuple[int, int] | None, stage: str | None) -> str:
    """Return the output of one stage of the compiler for a file."""
    source = inputs.read(file)
    capability = compiler.capability_of(source, name=file) if cc is None else cc
    start = pipeline.Compilation(compiler.decode(source), capability, file)
    names = [compiler_stage.name for compiler_stage in pipeline.STAGES]
    compilation = pipeline.run(start, pipeline.STAGES[: names.index(stage or "") + 1])
    if compilation.module is None:
        return pprint.pformat(compilation.syntax, width=100) + "\n"
    return disassemble(compilation.module)


def _kernel(
    module: Module, function: Function, block: _Shape | None, stage: str | None, backend: str
) -> str:
    from vgpu_sim.exec import jit  # imports modules that the other stages do not need

    shape = block or function.required_block or commands.DEFAULT_BLOCK
    native = jit.Compiler()
    try:
        match stage:
            case "ir" | "passes":
                passes = stage == "passes"
                return native.emit_llvm(module, function, shape, optimised=passes)
            case "asm":
                return native.emit_assembly(module, function, shape)
            case _:
                rows = [*_facts(function), *_decisions(function, shape, backend)]
    except jit.ExecutionError as error:
        raise click.ClickException(f"{function.name}: {error}") from error
    width = max(len(name) for name, _ in rows)
    table = "".join(f"  {name:<{width}}  {value}\n" for name, value in rows)
    return f"kernel {function.name!r}\n{table}"


def _facts(function: Function) -> Iterator[tuple[str, str]]:
    physical = function.physical
    yield "instructions", str(len(function.code))
    yield "parameters", f"{len(function.parameters)}, {function.parameter_bytes} bytes"
    if function.parameter_image:
        yield "their addresses", "are taken: launches copy them to a variable"
    yield "registers", f"{physical.peak_registers} a thread, {physical.spill_bytes} bytes spilled"
    yield "shared memory", f"{function.shared_bytes} bytes"
    if function.local_bytes:
        yield "local memory", f"{function.local_bytes} bytes a thread"


def _decisions(function: Function, shape: _Shape, backend: str) -> Iterator[tuple[str, str]]:
    yield "backend", f"{backend}, for blocks of {','.join(map(str, shape))}"
    if backend == "jit":
        from vgpu_sim.exec.jit import explain as decisions

        yield from decisions(function, shape)
