"""Corrections of PTX that clang writes, and explanations of what it cannot write."""

import re
from collections.abc import Sequence
from pathlib import Path

from vgpu_sim.sdk.errors import CompileError, KnownFailureError
from vgpu_sim.sdk.steps import Steps

# LLVM 19 writes the alignment 0 where the stack's own alignment of 8 bytes is enough. ptxas
# refuses 0: "Alignment must be a power of two".
_NO_ALIGNMENT = re.compile(rb"(?m)^(\s*alloca\.u(?:32|64)\s[^,;\n]*,[^,;\n]*),\s*0;")
# LLVM writes a variable behind those that its initializer names, and fails if there is no such
# order.
_CIRCULAR = "Circular dependency found in global variable set"
# LLVM calls functions for divisions and conversions of 128-bit integers that it does not expand,
# and its NVPTX target has none. The second text is that of LLVM 19.
_NO_FUNCTION = ("unsupported library call operation", 'Undefined external symbol ""')
_VARIABLE = re.compile(rb'(?m)^@("[^"\n]+"|[\w.$]+) = (?!external|available_externally)(.*)$')
_NAMED = re.compile(rb'@("[^"\n]+"|[\w.$]+)')
_PART = re.compile(r"[NL]*([1-9]\d*)")


def run_clang(steps: Steps, command: Sequence[str | Path], output: Path, source: str) -> Path:
    """Run a command of clang that compiles device code of ``source``; return the output's path.

    Raises:
        CompileError: clang failed; if initializers of variables name each other, the text names
            these variables, and if LLVM has no function for an operation, the types to avoid.
    """
    try:
        steps.run([*command, "-o", output], [_CIRCULAR, *_NO_FUNCTION])
    except KnownFailureError as err:
        if any(text in str(err) for text in _NO_FUNCTION):
            raise CompileError(
                f"{source}: this clang cannot compile divisions of 128-bit integers, or conversions"
                " between them and floating-point types, in this device code; avoid them, or"
                " select clang 19 or 22 with -ccbin DIRECTORY",
                err.status,
            ) from err
        code = steps.file("circular", ".ll")
        steps.run([*command, "-emit-llvm", "-o", code])
        names = ", ".join(find_circular(steps.read(code)))
        raise CompileError(
            f"{source}: the initializers of these device variables contain addresses of each other,"
            f" or the variable's own, which clang cannot write: {names}; assign the addresses in a"
            " kernel, or copy them with cudaMemcpyToSymbol",
            err.status,
        ) from err
    return output


def find_circular(code: bytes) -> list[str]:
    """Return the names of the variables of LLVM IR whose initializers lead back to themselves."""
    uses = {match[1]: set(_NAMED.findall(match[2])) for match in _VARIABLE.finditer(code)}
    circular = []
    for name, named in uses.items():
        reached: set[bytes] = set()
        waiting = list(named)
        while waiting:
            if (variable := waiting.pop()) not in reached:
                reached.add(variable)
                waiting += uses.get(variable, ())
        if name in reached:
            circular.append(_read_name(name.decode("latin-1")))
    return sorted(circular)


def _read_name(name: str) -> str:
    """Return the C++ name of a variable; that of an unnamed namespace is left out."""
    name = name.strip('"')
    parts, at = [], 2
    if not name.startswith("_Z"):
        return name
    while match := _PART.match(name, at):
        at = match.end() + int(match[1])
        parts.append(name[match.end() : at])
    return "::".join(part for part in parts if part != "_GLOBAL__N_1") or name


def correct_ptx(text: bytes) -> bytes:
    """Return PTX of clang with valid alignments of ``alloca``."""
    return _NO_ALIGNMENT.sub(rb"\1, 8;", text)


def correct_file(steps: Steps, path: Path) -> Path:
    """Correct a file with PTX, which is written again only if that changes it; return its path."""
    text = steps.read(path)
    if (corrected := correct_ptx(text)) != text:
        steps.write(path, corrected)
    return path
