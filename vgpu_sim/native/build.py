"""Compile the native parts into ``lib``: ``python -m vgpu_sim.native.build [--sanitize KIND]``.

Standard library only: the wheel's build hook imports it before anything is installed. Generated
C is written first, into ``generated``. A part is compiled again when its sources, the headers that
they include, the command or the compiler have changed.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from vgpu_sim.native import catalogue, freshness, generate as generator

NATIVE = Path(__file__).parent
LIBRARIES = NATIVE / "lib"
# Not in LIBRARIES, because the content of that folder goes into wheels.
SANITIZED = catalogue.ROOT / "out"
SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}

_FLAGS = (
    "-std=c11",
    "-O2",
    "-g",
    "-pthread",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,defs",
)
_LIBRARY = ("-fPIC", "-shared")
_PROGRAM = ("-fPIE", "-pie", "-U_FORTIFY_SOURCE", "-fstack-protector-strong")


class BuildError(Exception):
    """The compiler is missing or failed; the message is one line for the user."""


Report = Callable[[catalogue.Part, float], None]
"""Receives each part that was compiled, and the seconds that this took; several threads call it."""


def compiler() -> str:
    """Return the path of the C compiler (``CC`` or ``cc``).

    Raises:
        BuildError: no compiler was found.
    """
    program = os.environ.get("CC") or "cc"
    path = shutil.which(program)
    if path is None:
        raise BuildError(
            f"no C compiler: {program!r} is not on PATH; install gcc (Debian: apt-get install gcc"
            " libc6-dev) or name one in CC"
        )
    return path


def platform_tag() -> str:
    """Return the wheel platform tag of this machine (``linux_x86_64``)."""
    return f"{platform.system().lower()}_{platform.machine()}"


def command(
    part: catalogue.Part, cc: str, sanitize: str | None, output: Path, libraries: Path
) -> list[str]:
    """Return the command that compiles all sources of a part and links them with its libraries."""
    extra = [*SANITIZERS[sanitize], "-fno-omit-frame-pointer"] if sanitize else []
    kind = _PROGRAM if part.program else _LIBRARY
    flags = [*kind, *(flag for flag in _FLAGS if not (sanitize and "z,defs" in flag))]
    sources = map(str, part.sources())
    # Debug information contains paths in the project, not those of the machine that compiles.
    # A wheel's sources are generated outside the project.
    place = catalogue.GENERATED.relative_to(generator.ROOT)
    flags.append(f"-ffile-prefix-map={part.include.parent}=./{place}")
    flags.append(f"-ffile-prefix-map={catalogue.ROOT}=.")
    # Found beside this library, or in the folder above it, wherever that is.
    nested = [need for need in part.needs if need.subfolder != part.subfolder]
    if part.needs:
        flags.append(f"-Wl,-rpath,$ORIGIN{'/..' if nested else ''}")
    needed = [
        str((libraries.parent if need in nested else libraries) / need.library)
        for need in part.needs
    ]
    # The linker searches a part's libraries for symbols missing in the sources, so the libraries
    # come after the sources.
    return [
        cc,
        *flags,
        *extra,
        f"-I{part.include}",
        *sources,
        *part.flags,
        *needed,
        "-o",
        str(output),
    ]


def identity(part: catalogue.Part, sanitize: str | None = None) -> list[str]:
    """Return the command that compiles a part, without the folder that it is built in."""
    return command(part, compiler(), sanitize, Path("-"), Path("-"))


def _link(directory: Path, name: str, target: str) -> None:
    path = directory / name
    if path.is_symlink() and os.readlink(path) == target:
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def build(
    part: catalogue.Part,
    directory: Path,
    sanitize: str | None = None,
    reuse: Path | None = None,
    report: Report | None = None,
) -> Path:
    """Compile one part into ``directory``, which must exist, unless it is up to date there.

    If it is up to date in the folder ``reuse``, it is copied from there. ``report`` is called if
    it was compiled.

    Raises:
        BuildError: the compiler is missing or failed.
    """
    cc = compiler()
    folder = directory / part.subfolder
    folder.mkdir(exist_ok=True)
    output = folder / part.library
    identifying_command = identity(part, sanitize)
    if not freshness.is_current(part, directory, identifying_command):
        reusable_directory = (
            reuse if reuse and freshness.is_current(part, reuse, identifying_command) else None
        )
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            fresh = Path(scratch) / part.library
            if reusable_directory:
                shutil.copy(reusable_directory / part.subfolder / part.library, fresh)
            else:
                start_s = time.monotonic()
                _compile(command(part, cc, sanitize, fresh, folder), part)
                if report:
                    report(part, time.monotonic() - start_s)
            # Programs may have mapped the old file, so it is replaced and never written into.
            fresh.replace(output)
        if reusable_directory:
            freshness.copy_record(part, reusable_directory, directory)
        else:
            freshness.record(part, directory, identifying_command)
    for name in part.links:
        _link(folder, name, part.library)
    return output


def _compile(command_line: Sequence[str], part: catalogue.Part) -> None:
    run = subprocess.run(
        command_line, cwd=catalogue.ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise BuildError(f"{command_line[0]} failed for {part.folder.name}:\n{run.stderr}")


def build_all(
    directory: Path = LIBRARIES,
    sanitize: str | None = None,
    only: Sequence[str] = (),
    generated: Path = catalogue.GENERATED,
    reuse: Path | None = None,
    report: Report | None = None,
) -> list[Path]:
    """Compile every part (or those whose library is in ``only``) into ``directory``, on all cores.

    Generated sources are written below ``generated`` first. Parts that are up to date in the folder
    ``reuse`` are copied from there. ``report`` is called for each part that was compiled.

    Raises:
        BuildError: the compiler is missing or failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    generator.write_all(generated)
    selected_parts = [
        part for part in catalogue.parts(generated) if not only or part.library in only
    ]
    selected_parts = [part for part in selected_parts if part.sources()]
    begun: dict[catalogue.Part, Future[Path]] = {}

    def build_after_needs(part: catalogue.Part) -> Path:
        for need in part.needs:
            if need in begun:
                begun[need].result()
        return build(part, directory, sanitize, reuse, report)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # Threads start in this order, so that what a part needs was started before it.
        for part in sorted(selected_parts, key=_depth):
            begun[part] = pool.submit(build_after_needs, part)
        return [begun[part].result() for part in selected_parts]


def _depth(part: catalogue.Part) -> int:
    """Return the length of the longest chain of parts that must be built before ``part``."""
    return max((1 + _depth(need) for need in part.needs), default=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build from the command line; on failure return 1 and print one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m vgpu_sim.native.build", description=__doc__)
    parser.add_argument("--sanitize", choices=SANITIZERS, help="build into out/native-KIND")
    options = parser.parse_args(arguments)
    directory = LIBRARIES
    if options.sanitize:
        directory = SANITIZED / f"native-{options.sanitize}"
    names: list[str] = []

    def print_part(part: catalogue.Part, seconds: float) -> None:
        names.append(part.library)
        # One call for each line, as other threads print too; a pipe would delay the lines.
        sys.stdout.write(f"compiled {Path(part.subfolder, part.library)} in {seconds:.1f} s\n")
        sys.stdout.flush()

    try:
        libraries = build_all(directory, options.sanitize, report=print_part)
    except BuildError as err:
        print(f"native build: {err}", file=sys.stderr)  # noqa: T201 - a command line
        return 1
    print(  # noqa: T201 - a command line
        f"{len(libraries)} libraries and programs in {directory}: {len(names)} compiled,"
        f" {len(libraries) - len(names)} up to date"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
