"""``tessera ptx`` checks whether PTX loads, and shows what it compiles to."""

import enum
import re
from collections.abc import Iterator, Sequence

import click

from facts.wording import count_of
from vgpu_sim import compiler
from vgpu_sim.cli import inputs, outputs
from vgpu_sim.cli.errors import FAILED, INVALID, InvalidInput, report
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.isa import Diagnostic, Function, Module, Refused, container
from vgpu_sim.isa.disasm import disassemble
from vgpu_sim.isa.errors import IsaError

_MOST_ERRORS = 20  # reasons shown for a file that is not PTX
_CC = re.compile(r"([0-9]{1,3})\.([0-9])")
_BLOCK = re.compile(r"([0-9]{1,4})(?:,([0-9]{1,4})(?:,([0-9]{1,4}))?)?")
DEFAULT_BLOCK = (256, 1, 1)


class Verdict(enum.IntEnum):
    """The exit statuses of a check, from best to worst.

    If there are several problems, ``NOT_PTX`` takes precedence: every driver would refuse that
    text. ``REFUSED`` means only that Tessera lacks a feature.
    """

    LOADS = 0
    REFUSED = FAILED  # at least one kernel or variable
    NOT_PTX = INVALID  # or a file that cannot be read


def _parse_cc(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    match = _CC.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a compute capability such as 9.0")
    return int(match[1]), int(match[2])


cc_option = click.option(
    "--cc",
    metavar="MAJOR.MINOR",
    callback=_parse_cc,
    help="Compute capability to load for, such as 9.0; default: the file's own .target.",
)


backend_option = click.option(
    "--backend",
    type=click.Choice(["jit", "interp"]),
    default="jit",
    show_default=True,
    help="Backend that will run the kernels, as for `tessera run --backend`.",
)


@click.group(name="ptx", cls=VerbGroup)
def command() -> None:
    """Check and compile PTX."""


@command.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=inputs.FILE)
@cc_option
@backend_option
@click.pass_context
def check(
    context: click.Context, files: Sequence[str], cc: tuple[int, int] | None, backend: str
) -> None:
    """Check whether each FILE (- for standard input) loads; print the kernels that do not, and why.

    Exit status: 0 if all kernels load; 1 if some use features that are not supported yet (each
    reason is printed with its line); 2 if a text is not PTX or cannot be read. For several files,
    the status is the greatest.
    """
    context.exit(max([_check(file, cc, backend) for file in files]))


def _check(file: str, cc: tuple[int, int] | None, backend: str) -> Verdict:
    try:
        module = compile_file(file, cc)
    except inputs.UnreadableFile as error:
        report(error.message)
        return Verdict.NOT_PTX
    except compiler.PtxError as error:
        errors = error.diagnostics
        verdict = verdict_of(error)
        listed_count = _MOST_ERRORS if verdict is Verdict.NOT_PTX else len(errors)
        click.echo(compiler.render(errors[:listed_count], error.name), nl=False)
        if len(errors) > listed_count:
            click.echo(f"and {len(errors) - listed_count} more")
        click.echo(f"{file}: {_summary(error)}")
        return verdict
    refused = (*module.refused, *refused_by(backend, module))
    for refusal in refused:
        click.echo(
            f"{file}: {title(refusal)} is refused ({count_of(len(refusal.reasons), 'reason')}):"
        )
        click.echo(compiler.render(refusal.reasons, file), nl=False)
    lost = {refusal.name for refusal in refused}
    loading = [function.name for function in module.functions if function.name not in lost]
    if not refused:
        click.echo(f"{file}: loads ({count_of(len(loading), 'kernel')})")
        return Verdict.LOADS
    for name in loading:
        click.echo(f"{file}: kernel {name!r} loads")
    kernels = len(loading) + sum(refusal.is_kernel for refusal in refused)
    click.echo(f"{file}: loads with {len(loading)} of {count_of(kernels, 'kernel')}")
    return Verdict.REFUSED


def title(refused: Refused) -> str:
    """Describe what is refused, by its kind and name."""
    return f"{'kernel' if refused.is_kernel else 'variable'} {refused.name!r}"


def refused_by(backend: str, module: Module) -> Iterator[Refused]:
    """Yield the kernels that a backend cannot run, as a device reports them when loading the
    module.
    """
    if backend == "jit":
        from vgpu_sim.exec.jit import refusals  # imports modules that the other verbs do not need
    else:
        from vgpu_sim.exec.interp import refusals
    for function in module.functions:
        reasons = tuple(
            Diagnostic(0 if err.word is None else function.lines[err.word], 0, str(err))
            for err in refusals(function)
        )
        if reasons:
            yield Refused(function.name, reasons)


def verdict_of(error: compiler.PtxError) -> Verdict:
    """Return the verdict on a file that raised this error when it was loaded."""
    if isinstance(error, compiler.InvalidPtxError):
        return Verdict.NOT_PTX
    return Verdict.REFUSED


def _summary(error: compiler.PtxError) -> str:
    if isinstance(error, compiler.InvalidPtxError):
        return "not PTX"
    if isinstance(error, compiler.TargetError):
        return "made for another device"
    reasons = count_of(len(error.diagnostics), "reason")
    return f"valid PTX as far as Tessera can tell, not supported yet ({reasons})"


def compile_file(file: str, cc: tuple[int, int] | None) -> Module:
    """Compile a file for a device of compute capability ``cc`` (None: the file's own).

    Raises:
        UnreadableFile, PtxError: the file does not load.
    """
    source = inputs.read(file)
    capability = compiler.capability_of(source, name=file) if cc is None else cc
    return compiler.compile_ptx(source, capability=capability, name=file, partial=True)


def parse_block(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int, int] | None:
    """Parse the value of an option for a block's shape, such as 16,16,1."""
    if value is None:
        return None
    match = _BLOCK.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a block such as 256 or 16,16,1")
    x, y, z = (int(extent or 1) for extent in match.groups())
    return x, y, z


@command.command(name="compile")
@click.argument("file", type=inputs.FILE)
@click.option(
    "--emit",
    type=click.Choice(["isa", "container", "llvm", "object"]),
    default="isa",
    show_default=True,
    help="Output format: instructions as text; the binary that a device loads; or the JIT's code"
    " for one"
    " kernel and one block shape, as LLVM IR or as an object file for this machine.",
)
@click.option(
    "-o",
    "--output",
    type=outputs.FILE,
    default="-",
    help="File to write; default: standard output.",
)
@click.option("--kernel", help="Kernel for llvm and object; required if FILE has several.")
@click.option(
    "--block",
    metavar="X[,Y[,Z]]",
    callback=parse_block,
    help="Threads of a block for llvm and object; default: the kernel's .reqntid, or 256,1,1.",
)
@cc_option
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

    The written module contains the supported kernels, and lists the others as refused.

    Exit status: 0 the output was written; 1 nothing that was requested is supported yet; 2 not
    PTX. Nothing is written unless the status is 0.
    """
    native = emit in ("llvm", "object")
    if not native and (kernel is not None or block is not None):
        raise click.UsageError(f"--kernel and --block have no effect on --emit {emit}")
    try:
        module = compile_file(file, cc)
        if native:
            data = _emit_native(file, module, kernel_of(file, module, kernel), block, emit)
        else:
            data = _emit_portable(file, module, emit)
    except compiler.PtxError as error:
        click.echo(error.log(), nl=False, err=True)
        context.exit(verdict_of(error))
    except IsaError as error:
        raise InvalidInput(f"{file}: {error}") from error
    if emit in ("isa", "llvm"):
        outputs.write_text(output, data)
    else:
        outputs.write_binary(output, data, f"{'an' if emit == 'object' else 'a'} {emit}")


def _emit_portable(file: str, module: Module, emit: str) -> bytes:
    for refusal in module.refused:
        click.echo(compiler.render(refusal.reasons, file), nl=False, err=True)
        click.echo(f"{file}: {title(refusal)} is refused", err=True)
    if not module.functions and any(refusal.is_kernel for refusal in module.refused):
        raise click.exceptions.Exit(Verdict.REFUSED)
    if emit == "container":
        return container.encode(module)
    return disassemble(module).encode()


def kernel_of(file: str, module: Module, name: str | None) -> Function:
    """Return the kernel named ``name``, or the file's only kernel if no name is given."""
    for refusal in module.refused:
        if refusal.is_kernel and name in (None, refusal.name):
            click.echo(compiler.render(refusal.reasons, file), nl=False, err=True)
            if name is not None or not module.functions:
                raise click.exceptions.Exit(Verdict.REFUSED)
    names = [function.name for function in module.functions]
    if name is None and len(names) == 1:
        return module.functions[0]
    if name in names:
        return module.function(name)
    problem = "--kernel is needed" if name is None else f"no kernel {name!r}"
    raise InvalidInput(f"{file}: {problem}; kernels in it: {', '.join(names) or 'none'}")


def _emit_native(
    file: str,
    module: Module,
    function: Function,
    block: tuple[int, int, int] | None,
    emit: str,
) -> bytes:
    from vgpu_sim.exec import jit  # imports LLVM, which the other formats do not need

    shape = block or function.required_block or DEFAULT_BLOCK
    if function.required_block not in (None, shape):
        raise InvalidInput(f"{file}: {function.name} requires block {function.required_block}")
    native = jit.Compiler()
    try:
        if emit == "llvm":
            return native.emit_llvm(module, function, shape).encode()
        return native.compile(module, function, shape).object_code
    except jit.UnsupportedError as error:
        click.echo(f"{file}: {error}", err=True)
        raise click.exceptions.Exit(Verdict.REFUSED) from error
    except jit.ExecutionError as error:
        raise click.ClickException(f"{file}: {error}") from error
