"""Checks a PTX text for the program ``ptxas``, and prints what is wrong in ptxas's form.

``python -m vgpu_sim.cli.ptxas.check ARCHITECTURE NAME verbose|quiet container|ptx``, with the text
on standard input (``clients/ptxas/check.c``). Exit status 65: the text does not compile, or one of
its kernels is not supported; any other than 0: the check itself failed. With ``container`` the
compiled module is written to standard output.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.errors import PtxError
from vgpu_sim.isa import Diagnostic, Module, container

_ARCHITECTURE = re.compile(r"(?:sm|compute)_([0-9]+)([0-9])[af]?")
# In sysexits.h wrong input; Python itself ends with 1, 2, or 120.
_FAILED = 65
_MOST_ERRORS = 100


def main(arguments: Sequence[str]) -> int:
    """Check the text on standard input; return the exit status."""
    architecture, name, verbosity, output = arguments
    match = _ARCHITECTURE.fullmatch(architecture)
    assert match is not None  # ptxas has checked it
    capability = int(match[1]), int(match[2])
    text = sys.stdin.buffer.read()
    try:
        module = compile_ptx(text, capability=capability, name=name, partial=True)
    except PtxError as err:
        _report(name, err.diagnostics)
        return _FAILED
    refused = [reason for refusal in module.refused for reason in refusal.reasons]
    if refused:
        _report(name, refused)
        return _FAILED
    if verbosity == "verbose":
        sys.stderr.writelines(f"{line}\n" for line in _describe(module, architecture))
    if output == "container":
        sys.stdout.buffer.write(container.encode(module))
    return 0


def _report(name: str, diagnostics: Iterable[Diagnostic]) -> None:
    distinct = list(dict.fromkeys(diagnostics))
    for diagnostic in distinct[:_MOST_ERRORS]:
        instruction = f": {diagnostic.text.strip()}" if diagnostic.text else ""
        line = f"ptxas {name}, line {diagnostic.line}; error   : {diagnostic.message}{instruction}"
        sys.stderr.write(f"{line}\n")
    if len(distinct) > _MOST_ERRORS:
        sys.stderr.write(f"ptxas info    : {len(distinct) - _MOST_ERRORS} more errors\n")


def _describe(module: Module, architecture: str) -> Iterator[str]:
    for function in module.functions:
        shared = f", {function.shared_bytes} bytes smem" if function.shared_bytes else ""
        yield f"ptxas info    : Compiling entry function '{function.name}' for '{architecture}'"
        yield f"ptxas info    : Function properties for {function.name}"
        # A stack frame is the thread's local memory; registers are never spilled.
        yield (
            f"    {function.local_bytes} bytes stack frame, 0 bytes spill stores,"
            " 0 bytes spill loads"
        )
        yield f"ptxas info    : Used {function.physical.peak_registers} registers{shared}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
