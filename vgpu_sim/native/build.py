"""Compile the native parts into ``lib``: ``python -m vgpu_sim.native.build [--sanitize KIND]``.

Standard library only: the wheel's build hook imports it before anything is installed. C that is
generated is written first, into ``generated``. A part is compiled again when its sources, the
headers, the command or the compiler have changed.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_sim.native import generate as generator

NATIVE = Path(__file__).parent
# What names of sources begin below: in debug information, and in the tests.
ROOT = generator.ROOT
LIBRARIES = NATIVE / "lib"
# C that is generated: a folder for each client library, and the contracts' headers.
GENERATED = generator.GENERATED
# Not in LIBRARIES: what is there goes into wheels.
SANITIZED = ROOT / "out"
INCLUDE = generator.INCLUDE
CLIENTS = generator.CLIENTS
RDMA_CLIENTS = generator.RDMA_CLIENTS
# Linked into every client library: transport, slices, variables, log and trace.
COMMON = CLIENTS / "common"
# What the worker's processes load, and the HCA's engine, which hcad loads.
RUNTIME = ROOT / "vgpu_sim" / "worker" / "runtime"
ENGINE = ROOT / "hca" / "engine"
# Where libibverbs.so.1 is, away from libcuda.so.1: who wants a GPU keeps the system's verbs.
RDMA = "rdma"
# Where what the system's libibverbs may load is.
PROVIDER = "provider"
# Where programs are, for PATH.
PROGRAMS = "bin"
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
# A program of its own entry point, and of libdl.so.2 where glibc older than 2.34 has dlopen.
_OLD_GLIBC = {("x86_64", "glibc"): ("-nostartfiles", "-Wl,--no-as-needed", "-l:libdl.so.2")}
# musl and old glibc have no fortified functions; descriptors keep ld-linux out of DT_NEEDED
# (clang has them on x86-64 only in versions later than 18, and refuses the flag before).
_PORTABLE = ("-U_FORTIFY_SOURCE", "-fno-stack-protector")
_SYSTEM = (platform.machine(), platform.libc_ver()[0])
_TLS_DESCRIPTORS = {"x86_64": ("-mtls-dialect=gnu2",)}


@dataclass(frozen=True, slots=True)
class Part:
    """One library or program: its folder of C sources, its file name, its links, its flags.

    ``shared`` are folders whose sources it has in common with other libraries. ``subfolder`` is
    where it goes below the others, if only those programs may find it that are led there. ``needs``
    are libraries in the same place that were built before, which it is linked with. ``generated``
    is the folder of its generated sources, if it has any, ``include`` that of the ABI's headers.
    """

    folder: Path
    library: str
    links: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    shared: tuple[Path, ...] = ()
    subfolder: str = ""
    needs: tuple["Part", ...] = ()
    program: bool = False
    without: tuple[Path, ...] = ()
    generated: Path | None = None
    include: Path = INCLUDE

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of its sources: its own, those it shares, the generated one."""
        return (self.folder, *self.shared, *((self.generated,) if self.generated else ()))

    def sources(self) -> list[Path]:
        """Return the C files, generated ones included, but those that it does ``without``."""
        return sorted(
            path
            for folder in self.folders()
            for path in folder.rglob("*.c")
            if path not in self.without
        )


def client_part(
    folder: Path,
    soname: str,
    subfolder: str = "",
    needs: tuple[Part, ...] = (),
    generated_root: Path = GENERATED,
) -> Part:
    """Return the client library whose sources, functions.toml among them, lie in ``folder``."""
    generated = generated_root / folder.name
    return Part(
        folder,
        soname,
        (soname.removesuffix(".1"),),
        (
            *_PORTABLE,
            *_TLS_DESCRIPTORS.get(platform.machine(), ()),
            f"-I{folder}",
            f"-I{generated}",
            f"-I{COMMON}",
            f"-Wl,--version-script={generated / 'exports.map'}",
            f"-Wl,-soname,{soname},-z,nodelete",
        ),
        (COMMON,),
        subfolder,
        needs,
        generated=generated,
        include=generated_root / INCLUDE.name,
    )


def provider_part(verbs: Part) -> Part:
    """Return our verbs as a provider: the library's objects, without the symbols that it exports.

    Whoever loads it has ``verbs_register_driver_34`` and what else is undefined.
    """
    folder = RDMA_CLIENTS / "provider"
    assert verbs.generated
    return Part(
        folder,
        "libtessera-rdmav34.so",
        flags=(
            *_PORTABLE,
            *_TLS_DESCRIPTORS.get(platform.machine(), ()),
            *(f"-I{one}" for one in (folder, verbs.folder, verbs.generated, COMMON)),
            f"-Wl,--version-script={folder / 'exports.map'}",
            "-Wl,-z,undefs,-z,nodelete",
        ),
        shared=(verbs.folder, COMMON),
        subfolder=PROVIDER,
        without=(verbs.generated / "entry.c", verbs.folder / "device" / "drivers.c"),
        generated=verbs.generated,
        include=verbs.include,
    )


def parts(generated: Path = GENERATED) -> tuple[Part, ...]:
    """Return everything that is built, its generated sources below ``generated``."""

    def client(folder: Path, soname: str, subfolder: str = "", *needs: Part) -> Part:
        return client_part(folder, soname, subfolder, needs, generated)

    def own(folder: Path, library: str) -> Part:
        return Part(folder, library, flags=(f"-I{folder}",), include=include)

    include = generated / INCLUDE.name
    verbs = client(RDMA_CLIENTS / "libibverbs", "libibverbs.so.1", RDMA)
    return (
        client(CLIENTS / "libcuda", "libcuda.so.1"),
        client(CLIENTS / "libnvml", "libnvidia-ml.so.1"),
        verbs,
        client(RDMA_CLIENTS / "librdmacm", "librdmacm.so.1", RDMA, verbs),
        provider_part(verbs),
        own(RUNTIME, "libtessera_worker.so"),
        own(ENGINE, "libtessera_hca.so"),
        Part(
            CLIENTS / "nvidia_smi",
            "nvidia-smi",
            # NVML beside it, where the loader is not led to another one (and containers have it).
            flags=(
                f"-I{CLIENTS / 'nvidia_smi'}",
                *_OLD_GLIBC.get(_SYSTEM, ("-ldl",)),
                "-Wl,-rpath,$ORIGIN/..",
            ),
            subfolder=PROGRAMS,
            program=True,
            include=include,
        ),
    )


class BuildError(Exception):
    """The compiler is missing or refused a part; the message is one line for the user."""


def compiler() -> str:
    """Return the path of the C compiler (``CC`` or ``cc``).

    Raises:
        BuildError: when there is none.
    """
    wanted = os.environ.get("CC") or "cc"
    found = shutil.which(wanted)
    if found is None:
        raise BuildError(
            f"no C compiler: {wanted!r} is not on PATH; install gcc (Debian: apt-get install gcc"
            " libc6-dev) or name one in CC"
        )
    return found


def platform_tag() -> str:
    """Return the wheel platform tag of what this machine compiles (``linux_x86_64``)."""
    return f"{platform.system().lower()}_{platform.machine()}"


def command(part: Part, cc: str, sanitize: str | None, output: Path, libraries: Path) -> list[str]:
    """Return what compiles all sources of a part and links them, with those that it needs."""
    extra = [*SANITIZERS[sanitize], "-fno-omit-frame-pointer"] if sanitize else []
    kind = _PROGRAM if part.program else _LIBRARY
    flags = [*kind, *(flag for flag in _FLAGS if not (sanitize and "z,defs" in flag))]
    sources = map(str, part.sources())
    # Debug information says where a line is in the project, not on the machine that compiled it.
    flags.append(f"-ffile-prefix-map={ROOT}=.")
    if not part.include.is_relative_to(ROOT):  # generated elsewhere, for a wheel
        place = GENERATED.relative_to(generator.ROOT)
        flags.append(f"-ffile-prefix-map={part.include.parent}=./{place}")
    if part.needs:  # found beside this one, wherever that is
        flags.append("-Wl,-rpath,$ORIGIN")
    needed = [str(libraries / one.library) for one in part.needs]
    # Libraries in a part's flags are searched for what its sources lack, so they come behind these.
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


def digest(part: Part, cc: str, sanitize: str | None = None) -> str:
    """Return the fingerprint of all that a part is compiled from, by which it is up to date."""
    folders = (*part.folders(), *(one.folder for one in part.needs), part.include)
    inputs = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    found = hashlib.sha256()
    found.update("\0".join(command(part, cc, sanitize, Path("-"), Path("-"))).encode())
    version = subprocess.run([cc, "--version"], capture_output=True, check=False)
    found.update(version.stdout)
    for path in sorted(inputs):
        if path.suffix in {".c", ".def", ".h", ".map"}:
            found.update(str(os.path.relpath(path, ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def stamp_of(part: Part, directory: Path) -> Path:
    """Return where the fingerprint of a part that was built in ``directory`` stands."""
    return directory / f".{part.library}.sha256"


def _link(directory: Path, name: str, target: str) -> None:
    path = directory / name
    if path.is_symlink() and os.readlink(path) == target:
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def build(part: Part, directory: Path, sanitize: str | None = None) -> Path:
    """Compile one part into ``directory``, which exists, unless it is up to date there.

    Raises:
        BuildError: when the compiler is missing or refuses it.
    """
    cc = compiler()
    folder = directory / part.subfolder
    folder.mkdir(exist_ok=True)
    output = folder / part.library
    stamp = stamp_of(part, directory)
    wanted = digest(part, cc, sanitize)
    if not (output.exists() and stamp.exists() and stamp.read_text() == wanted):
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            fresh = Path(scratch) / part.library
            run = subprocess.run(
                command(part, cc, sanitize, fresh, folder),
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            if run.returncode:
                raise BuildError(f"{cc} refused {part.folder.name}:\n{run.stderr}")
            # Programs may have the old file mapped: replace it, never write into it.
            fresh.replace(output)
        stamp.write_text(wanted)
    for name in part.links:
        _link(folder, name, part.library)
    return output


def build_all(
    directory: Path = LIBRARIES,
    sanitize: str | None = None,
    only: Sequence[str] = (),
    generated: Path = GENERATED,
) -> list[Path]:
    """Compile every part (or those whose library is in ``only``) into ``directory``.

    What is generated is written below ``generated`` first.

    Raises:
        BuildError: when the compiler is missing or refuses a part.
    """
    directory.mkdir(parents=True, exist_ok=True)
    generator.write_all(generated)
    wanted = [part for part in parts(generated) if not only or part.library in only]
    return [build(part, directory, sanitize) for part in wanted if part.sources()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build from the command line; 1 and one line on stderr when that fails."""
    parser = argparse.ArgumentParser(prog="python -m vgpu_sim.native.build", description=__doc__)
    parser.add_argument("--sanitize", choices=SANITIZERS, help="into out/native-KIND")
    options = parser.parse_args(arguments)
    directory = LIBRARIES
    if options.sanitize:
        directory = SANITIZED / f"native-{options.sanitize}"
    try:
        built = build_all(directory, options.sanitize)
    except BuildError as err:
        print(f"native build: {err}", file=sys.stderr)  # noqa: T201 - a command line
        return 1
    for path in built:
        print(path)  # noqa: T201 - a command line
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
