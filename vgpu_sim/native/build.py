"""Compile the native parts into ``lib``: ``python -m vgpu_sim.native.build [--sanitize KIND]``.

Standard library only: the wheel's build hook imports it before anything is installed. Generated
C is written first, into ``generated``. A part is compiled again when its sources, the headers,
the command or the compiler have changed.
"""

import argparse
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from vgpu_sim.clients.codegen.library import majors
from vgpu_sim.native import generate as generator

NATIVE = Path(__file__).parent
# Source names in debug information and in the tests are relative to this folder.
ROOT = generator.ROOT
LIBRARIES = NATIVE / "lib"
# Generated C: a folder for each client library, and the ABI headers.
GENERATED = generator.GENERATED
# Not in LIBRARIES, because the content of that folder goes into wheels.
SANITIZED = ROOT / "out"
INCLUDE = generator.INCLUDE
CLIENTS = generator.CLIENTS
RDMA_CLIENTS = generator.RDMA_CLIENTS
# Linked into every client library: transport, slices, variables, log and trace.
COMMON = CLIENTS / "common"
# Linked into every program for containers: its entry point.
PROGRAM = CLIENTS / "program"
# Loaded by workers, and by hcad (the HCA's engine).
RUNTIME = ROOT / "vgpu_sim" / "worker" / "runtime"
ENGINE = ROOT / "hca" / "engine"
# Folder of libibverbs.so.1. It is not the folder of libcuda.so.1, so that programs that only use a
# GPU keep the system's verbs.
RDMA = "rdma"
# Folder of the mathematical libraries, which `tessera run` can leave out of the search path.
MATH = "math"
MATH_SHARED = CLIENTS / "math" / "shared"
# Folder of the sources of those libraries that compute matrix products, and their folders.
MATH_PRODUCTS = CLIENTS / "math" / "products"
_MULTIPLYING = frozenset(("cublas", "cublaslt"))
# Names of the libraries into which NVIDIA's cuDNN is divided.
_PARTS_OF_CUDNN = (
    *("adv", "cnn", "engines_precompiled", "engines_runtime_compiled", "engines_tensor_ir"),
    *("ext", "graph", "heuristic", "ops"),
)
_EITHER = (
    *("libcudnn.so.9", "libcurand.so.10", "libcusparse.so.12", "libcusparseLt.so.0"),
    *("libcufile.so.0", "libnccl.so.2", "libnvshmem_host.so.3"),
)
# The libraries that programs of a major version of CUDA link with.
LINKED = {
    12: (
        *("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12"),
        *("libcufft.so.11", "libcusolver.so.11", *_EITHER),
    ),
    13: (
        *("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcupti.so.13"),
        *("libcufft.so.12", "libcusolver.so.12", *_EITHER),
    ),
}
_LOADING = frozenset(("cublaslt",))  # look for other libraries of the process
# Folder of providers that the system's libibverbs may load.
PROVIDER = "provider"
# Folder of programs, for PATH.
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
# A program with its own entry point.
_OLD_START = {("x86_64", "glibc"): ("-nostartfiles",)}
# libdl.so.2 has dlopen in glibc before 2.34.
_OLD_DLOPEN = {("x86_64", "glibc"): ("-Wl,--no-as-needed", "-l:libdl.so.2")}
_OLD_GLIBC = {system: ("-nostartfiles", *flags) for system, flags in _OLD_DLOPEN.items()}
# musl and old glibc have no fortified functions; TLS descriptors keep ld-linux out of DT_NEEDED
# (clang supports them only on x86-64 and only after version 18; earlier versions reject the flag).
_PORTABLE = ("-U_FORTIFY_SOURCE", "-fno-stack-protector")
_SYSTEM = (platform.machine(), platform.libc_ver()[0])
_TLS_DESCRIPTORS = {"x86_64": ("-mtls-dialect=gnu2",)}


@dataclass(frozen=True, slots=True)
class Part:
    """A library or program to build, described by its C sources, file name, links and flags.

    ``shared`` are folders of sources that other libraries use, too. ``subfolder`` is a folder below
    the output folder. A part in such a folder is found only by programs that are given the part's
    path. ``needs`` are libraries that are built before this part and linked with it. ``generated``
    is the folder of the part's generated sources, if it has any, and ``include`` is the folder of
    the ABI headers.
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
        """Return the folders of the part's sources: its own, the shared ones, the generated one."""
        return (self.folder, *self.shared, *((self.generated,) if self.generated else ()))

    def sources(self) -> list[Path]:
        """Return the part's C files, including generated ones. Files that the field ``without``
        lists are left out.
        """
        return [
            path
            for folder in self.folders()
            for path in sorted(folder.rglob("*.c"))
            if path not in self.without
        ]


def client_flags(folder: Path, generated: Path, soname: str, *more: str) -> tuple[str, ...]:
    """Return the flags with which a client library is compiled."""
    return (
        *_PORTABLE,
        *_TLS_DESCRIPTORS.get(platform.machine(), ()),
        f"-I{folder}",
        f"-I{generated}",
        f"-I{COMMON}",
        f"-Wl,--version-script={generated / 'exports.map'}",
        f"-Wl,-soname,{soname},-z,nodelete",
        *more,
    )


def client_part(
    folder: Path,
    soname: str,
    subfolder: str = "",
    needs: tuple[Part, ...] = (),
    generated_root: Path = GENERATED,
) -> Part:
    """Return the client library whose sources and functions.toml are in ``folder``."""
    generated = generated_root / folder.name
    return Part(
        folder,
        soname,
        (soname.removesuffix(".1"),),
        client_flags(folder, generated, soname),
        (COMMON,),
        subfolder,
        needs,
        generated=generated,
        include=generated_root / INCLUDE.name,
    )


def runtime_part(major: int, driver: Part, generated_root: Path) -> Part:
    """Return the CUDA runtime of a major version. Both versions have the same sources.

    Programs are linked with the newer one, because it has the name without version.
    """
    folder = CLIENTS / "libcudart"
    generated = generated_root / f"{folder.name}{major}"
    return Part(
        folder,
        f"libcudart.so.{major}",
        ("libcudart.so",) if major == 13 else (),
        client_flags(folder, generated, f"libcudart.so.{major}", f"-DTSR_CUDART={major}"),
        (COMMON,),
        needs=(driver,),
        generated=generated,
        include=generated_root / INCLUDE.name,
    )


def math_part(folder: Path, library: str, major: int, driver: Part, generated_root: Path) -> Part:
    """Return a mathematical library of a major version (ADR 149).

    It has no debug information, because most of it is generated refusals.
    """
    generated = generated_root / f"{folder.name}{major or ''}"
    soname = f"{library}.{major}"
    unused = ("transport.c", "slices.c", "patience.c")
    shared = (MATH_SHARED, MATH_PRODUCTS) if folder.name in _MULTIPLYING else (MATH_SHARED,)
    return Part(
        folder,
        soname,
        flags=client_flags(
            folder,
            generated,
            soname,
            *(f"-I{one}" for one in shared),
            *(f"-DTSR_MAJOR={major}", "-g0"),
            *(_OLD_DLOPEN.get(_SYSTEM, ("-ldl",)) if folder.name in _LOADING else ()),
        ),
        shared=(COMMON, *shared),
        subfolder=MATH,
        needs=(driver,),
        without=tuple(COMMON / name for name in unused),
        generated=generated,
        include=generated_root / INCLUDE.name,
    )


def cudnn_parts(libraries: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts of cuDNN, which need the whole library and contain nothing."""
    (whole,) = (one for one in libraries if one.library.startswith("libcudnn.so"))
    for name in _PARTS_OF_CUDNN:
        soname = whole.library.replace("libcudnn", f"libcudnn_{name}")
        flags = (f"-Wl,-soname,{soname}", "-Wl,--no-as-needed")
        yield Part(
            CLIENTS / "math" / "cudnn_part",
            soname,
            flags=flags,
            subfolder=MATH,
            needs=(whole,),
            include=whole.include,
        )


def preload_part(major: int, libraries: Sequence[Part]) -> Part:
    """Return the library that programs preload to load all others of a major version of CUDA.

    It contains nothing. Its RPATH precedes LD_LIBRARY_PATH. In containers the runtime is two
    folders up (ADR 168).
    """
    needs = tuple(one for one in libraries if one.library in LINKED[major])
    soname = f"libtessera-cuda{major}.so"
    return Part(
        CLIENTS / "math" / "preload",
        soname,
        flags=(
            f"-Wl,-soname,{soname}",
            "-Wl,--no-as-needed",
            "-Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../..",
        ),
        subfolder=MATH,
        needs=needs,
        include=libraries[0].include,
    )


def provider_part(verbs: Part) -> Part:
    """Return the verbs provider. It contains the sources of libibverbs, but does not export the
    symbols of libibverbs.

    The library that loads the provider must define ``verbs_register_driver_34`` and all other
    symbols that the provider leaves undefined.
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
    """Return all parts, with generated sources below ``generated``."""

    def client(folder: Path, soname: str, subfolder: str = "", *needs: Part) -> Part:
        return client_part(folder, soname, subfolder, needs, generated)

    def own(folder: Path, library: str) -> Part:
        return Part(folder, library, flags=(f"-I{folder}",), include=include)

    def preloaded(folder: Path, name: str, major: int) -> Part:
        """Return the library that libcuda loads for a major version of the toolkit."""
        soname = f"{name}.so.{major}"
        flags = (
            *_PORTABLE,
            f"-I{folder}",
            f"-I{CLIENTS / 'libcuda'}",  # the driver's types
            f"-I{COMMON}",
            f"-DTSR_MAJOR={major}",
            f"-Wl,--version-script={folder / f'exports_{major}.map'}",
            f"-Wl,-soname,{soname}",
            *_OLD_DLOPEN.get(_SYSTEM, ("-ldl",)),
        )
        return Part(folder, soname, flags=flags, include=include)

    include = generated / INCLUDE.name
    verbs = client(RDMA_CLIENTS / "libibverbs", "libibverbs.so.1", RDMA)
    cuda = client(CLIENTS / "libcuda", "libcuda.so.1")
    mathematical = [
        math_part(folder, library, major, cuda, generated)
        for folder, library in generator.MATH.items()
        for major in majors(folder)
    ]
    runtimes = [runtime_part(major, cuda, generated) for major in (12, 13)]
    return (
        cuda,
        *runtimes,
        client(CLIENTS / "libnvml", "libnvidia-ml.so.1"),
        *mathematical,
        *cudnn_parts(mathematical),
        *(preload_part(major, (*runtimes, *mathematical)) for major in (12, 13)),
        *(preloaded(CLIENTS / "libnvjitlink", "libnvJitLink", major) for major in (12, 13)),
        *(preloaded(CLIENTS / "libnvrtc", "libnvrtc", major) for major in (12, 13)),
        verbs,
        client(RDMA_CLIENTS / "librdmacm", "librdmacm.so.1", RDMA, verbs),
        provider_part(verbs),
        own(RUNTIME, "libtessera_worker.so"),
        own(ENGINE, "libtessera_hca.so"),
        Part(
            CLIENTS / "nvidia_smi",
            "nvidia-smi",
            # It finds NVML in its own folder, unless the loader is directed to another one, as in
            # containers.
            flags=(
                f"-I{CLIENTS / 'nvidia_smi'}",
                f"-I{COMMON}",
                *_OLD_GLIBC.get(_SYSTEM, ("-ldl",)),
                "-Wl,-rpath,$ORIGIN/..",
            ),
            shared=(PROGRAM,),
            subfolder=PROGRAMS,
            program=True,
            include=include,
        ),
        Part(
            CLIENTS / "ptxas",
            "ptxas",
            flags=(f"-I{CLIENTS / 'ptxas'}", *_OLD_START.get(_SYSTEM, ())),
            shared=(PROGRAM,),
            subfolder=PROGRAMS,
            program=True,
            include=include,
        ),
    )


class BuildError(Exception):
    """The compiler is missing or failed; the message is one line for the user."""


def compiler() -> str:
    """Return the path of the C compiler (``CC`` or ``cc``).

    Raises:
        BuildError: no compiler was found.
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
    """Return the wheel platform tag of this machine (``linux_x86_64``)."""
    return f"{platform.system().lower()}_{platform.machine()}"


def command(part: Part, cc: str, sanitize: str | None, output: Path, libraries: Path) -> list[str]:
    """Return the command that compiles all sources of a part and links them with its libraries."""
    extra = [*SANITIZERS[sanitize], "-fno-omit-frame-pointer"] if sanitize else []
    kind = _PROGRAM if part.program else _LIBRARY
    flags = [*kind, *(flag for flag in _FLAGS if not (sanitize and "z,defs" in flag))]
    sources = map(str, part.sources())
    # Debug information contains paths in the project, not those of the machine that compiles.
    flags.append(f"-ffile-prefix-map={ROOT}=.")
    # A wheel's sources are generated outside the project.
    place = GENERATED.relative_to(generator.ROOT)
    flags.append(f"-ffile-prefix-map={part.include.parent}=./{place}")
    # Found beside this library, or in the folder above it, wherever that is.
    nested = [one for one in part.needs if one.subfolder != part.subfolder]
    if part.needs:
        flags.append(f"-Wl,-rpath,$ORIGIN{'/..' if nested else ''}")
    needed = [
        str((libraries.parent if one in nested else libraries) / one.library) for one in part.needs
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


def digest(part: Part, cc: str, sanitize: str | None = None) -> str:
    """Return the hash of all inputs of a part, which shows whether the part is up to date.

    It does not depend on the folder of the generated sources.
    """

    def named(text: str) -> bytes:
        return text.replace(str(part.include.parent), str(GENERATED)).encode()

    folders = (*part.folders(), *(one.folder for one in part.needs), part.include)
    inputs = {
        named(str(path)): path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in {".c", ".def", ".h", ".map"} and path.is_file()
    }
    found = hashlib.sha256()
    found.update(named("\0".join(command(part, cc, sanitize, Path("-"), Path("-")))))
    found.update(_version(cc))
    for name in sorted(inputs):
        found.update(os.path.relpath(name, str(ROOT).encode()) + b"\0" + inputs[name].read_bytes())
    return found.hexdigest()


@functools.cache
def _version(cc: str) -> bytes:
    return subprocess.run([cc, "--version"], capture_output=True, check=False).stdout


def stamp_of(part: Part, directory: Path) -> Path:
    """Return the path of the file that stores the hash of a part built in ``directory``."""
    return directory / f".{part.library}.sha256"


def _link(directory: Path, name: str, target: str) -> None:
    path = directory / name
    if path.is_symlink() and os.readlink(path) == target:
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def build(
    part: Part, directory: Path, sanitize: str | None = None, reuse: Path | None = None
) -> Path:
    """Compile one part into ``directory``, which must exist, unless it is up to date there.

    If it is up to date in the folder ``reuse``, it is copied from there.

    Raises:
        BuildError: the compiler is missing or failed.
    """
    cc = compiler()
    folder = directory / part.subfolder
    folder.mkdir(exist_ok=True)
    output = folder / part.library
    wanted = digest(part, cc, sanitize)
    if not _is_built(part, directory, wanted):
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            fresh = Path(scratch) / part.library
            if reuse and _is_built(part, reuse, wanted):
                shutil.copy(reuse / part.subfolder / part.library, fresh)
            else:
                _compile(command(part, cc, sanitize, fresh, folder), part)
            # Programs may have mapped the old file, so it is replaced and never written into.
            fresh.replace(output)
        stamp_of(part, directory).write_text(wanted)
    for name in part.links:
        _link(folder, name, part.library)
    return output


def _is_built(part: Part, directory: Path, wanted: str) -> bool:
    output, stamp = directory / part.subfolder / part.library, stamp_of(part, directory)
    return output.exists() and stamp.exists() and stamp.read_text() == wanted


def _compile(command_line: Sequence[str], part: Part) -> None:
    run = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        raise BuildError(f"{command_line[0]} failed for {part.folder.name}:\n{run.stderr}")


def build_all(
    directory: Path = LIBRARIES,
    sanitize: str | None = None,
    only: Sequence[str] = (),
    generated: Path = GENERATED,
    reuse: Path | None = None,
) -> list[Path]:
    """Compile every part (or those whose library is in ``only``) into ``directory``, on all cores.

    Generated sources are written below ``generated`` first. Parts that are up to date in the folder
    ``reuse`` are copied from there.

    Raises:
        BuildError: the compiler is missing or failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    generator.write_all(generated)
    wanted = [part for part in parts(generated) if not only or part.library in only]
    wanted = [part for part in wanted if part.sources()]
    begun: dict[Part, Future[Path]] = {}

    def build_after_needs(part: Part) -> Path:
        for need in part.needs:
            if need in begun:
                begun[need].result()
        return build(part, directory, sanitize, reuse)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # Threads start in this order, so that what a part needs was started before it.
        for part in sorted(wanted, key=_depth):
            begun[part] = pool.submit(build_after_needs, part)
        return [begun[part].result() for part in wanted]


def _depth(part: Part) -> int:
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
