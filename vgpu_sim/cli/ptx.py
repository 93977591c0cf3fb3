"""``tessera ptx``: does this PTX load, and what does it become."""

import enum
import os
import re
from collections.abc import Sequence
from typing import Any

import click

from vgpu_sim import compiler
from vgpu_sim.cli import inputs, outputs
from vgpu_sim.isa import Function, Module, container
from vgpu_sim.isa.disasm import disassemble
from vgpu_sim.isa.errors import IsaError

_CC = re.compile(r"([0-9]{1,3})\.([0-9])")
_BLOCK = re.compile(r"([0-9]{1,4})(?:,([0-9]{1,4})(?:,([0-9]{1,4}))?)?")
_DEFAULT_BLOCK = (256, 1, 1)


class _Verdict(enum.IntEnum):
    """Exit codes; what a driver would refuse for good is worse than what we lack."""

    LOADS = 0
    NOT_PTX = 1
    NOT_SUPPORTED = 2


_FROM_BEST_TO_WORST = (_Verdict.LOADS, _Verdict.NOT_SUPPORTED, _Verdict.NOT_PTX)


def _parse_cc(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    found = _CC.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a compute capability such as 9.0")
    return int(found[1]), int(found[2])


_cc_option = click.option(
    "--cc",
    metavar="MAJOR.MINOR",
    callback=_parse_cc,
    help="Compute capability to load for, such as 9.0; the file's own .target unless given.",
)


class _WrongUsage(click.UsageError):
    """Not to be taken for a verdict, as click's own status 2 would be."""

    exit_code = os.EX_USAGE


class _Verbs(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(os.EX_USAGE)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from error


@click.group(name="ptx", cls=_Verbs)
def command() -> None:
    """Check and compile PTX."""


@command.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=inputs.FILE)
@_cc_option
@click.pass_context
def check(context: click.Context, files: Sequence[str], cc: tuple[int, int] | None) -> None:
    """Say whether each FILE (- for standard input) loads, and if not, why not.

    Exit status: 0 all load; 2 valid PTX as far as we know that is not supported yet, each reason
    with its line; 1 not PTX, or not readable. Of several files the worst counts.
    """
    verdicts = {_check(file, cc) for file in files}
    context.exit(max(verdicts, key=_FROM_BEST_TO_WORST.index))


def _check(file: str, cc: tuple[int, int] | None) -> _Verdict:
    try:
        module = _compile(file, cc)
    except inputs.UnreadableFile as error:
        click.echo(error.message, err=True)
        return _Verdict.NOT_PTX
    except compiler.PtxError as error:
        click.echo(error.log(), nl=False)
        verdict = _verdict(error)
        click.echo(f"{file}: {_summary(error)}")
        return verdict
    click.echo(f"{file}: loads ({_count(len(module.functions), 'kernel')})")
    return _Verdict.LOADS


def _verdict(error: compiler.PtxError) -> _Verdict:
    if isinstance(error, compiler.InvalidPtxError):
        return _Verdict.NOT_PTX
    return _Verdict.NOT_SUPPORTED


def _summary(error: compiler.PtxError) -> str:
    if isinstance(error, compiler.InvalidPtxError):
        return "not PTX"
    if isinstance(error, compiler.TargetError):
        return "made for another device"
    reasons = _count(len(error.diagnostics), "reason")
    return f"valid as far as we know, not supported yet ({reasons})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _compile(file: str, cc: tuple[int, int] | None) -> Module:
    source = inputs.read(file)
    capability = compiler.capability_of(source, name=file) if cc is None else cc
    return compiler.compile_ptx(source, capability=capability, name=file)


def _parse_block(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int, int] | None:
    if value is None:
        return None
    found = _BLOCK.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a block such as 256 or 16,16,1")
    x, y, z = (int(extent or 1) for extent in found.groups())
    return x, y, z


@command.command(name="compile")
@click.argument("file", type=inputs.FILE)
@click.option(
    "--emit",
    type=click.Choice(["isa", "container", "llvm", "object"]),
    default="isa",
    show_default=True,
    help="What to write: instructions as text; the binary that a device loads; what the JIT makes"
    " of one kernel for one block shape, as LLVM IR or as an object file for this machine.",
)
@click.option(
    "-o",
    "--output",
    type=outputs.FILE,
    default="-",
    help="File to write; standard output unless given.",
)
@click.option("--kernel", help="Kernel for llvm and object; needed where FILE has several.")
@click.option(
    "--block",
    metavar="X[,Y[,Z]]",
    callback=_parse_block,
    help="Threads of a block for llvm and object; the kernel's .reqntid, or 256,1,1.",
)
@_cc_option
@click.pass_context
def compile_command(
    context: click.Context,
    file: str,
    emit: str,
    output: str,
    kernel: str | None,
    block: tuple[int, int, int] | None,
    cc: tuple[int, int] | None,
) -> None:
    """Compile FILE (- for standard input).

    Exit status as of `check`; nothing is written unless it is 0.
    """
    native = emit in ("llvm", "object")
    if not native and (kernel is not None or block is not None):
        raise click.UsageError(f"--kernel and --block mean nothing to --emit {emit}")
    try:
        module = _compile(file, cc)
        if native:
            data = _emit_native(file, module, _kernel(file, module, kernel), block, emit)
        else:
            data = _emit_portable(module, emit)
    except compiler.PtxError as error:
        click.echo(error.log(), nl=False, err=True)
        context.exit(_verdict(error))
    except IsaError as error:
        raise click.ClickException(f"{file}: {error}") from error
    if emit in ("isa", "llvm"):
        outputs.write_text(output, data)
    else:
        outputs.write_binary(output, data, f"{'an' if emit == 'object' else 'a'} {emit}")


def _emit_portable(module: Module, emit: str) -> bytes:
    if emit == "container":
        return container.encode(module)
    return disassemble(module).encode()


def _kernel(file: str, module: Module, name: str | None) -> Function:
    """Return the kernel to compile: the named one, or the only one."""
    names = [function.name for function in module.functions]
    if name is None and len(names) == 1:
        return module.functions[0]
    if name in names:
        return module.function(name)
    wanted = "--kernel is needed" if name is None else f"no kernel {name!r}"
    raise click.ClickException(f"{file}: {wanted}; it has {', '.join(names) or 'none'}")


def _emit_native(
    file: str,
    module: Module,
    function: Function,
    block: tuple[int, int, int] | None,
    emit: str,
) -> bytes:
    from vgpu_sim.exec import jit  # loads LLVM, which the other forms need not

    shape = block or function.required_block or _DEFAULT_BLOCK
    if function.required_block not in (None, shape):
        raise click.ClickException(f"{file}: {function.name} requires {function.required_block}")
    native = jit.Compiler()
    try:
        if emit == "llvm":
            return native.emit_llvm(module, function, shape).encode()
        return native.compile(module, function, shape).object_code
    except jit.UnsupportedError as error:
        click.echo(f"{file}: {error}", err=True)
        raise click.exceptions.Exit(_Verdict.NOT_SUPPORTED) from error
    except jit.ExecutionError as error:
        raise click.ClickException(f"{file}: {error}") from error
