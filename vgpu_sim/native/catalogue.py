"""The native libraries and programs: their sources, flags, and the folders that they go to.

Standard library only, like the build itself.
"""

import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from vgpu_sim.clients.codegen.library import majors
from vgpu_sim.native import generate as generator
from vgpu_sim.records import dataclass

# Source names in debug information and in the tests are relative to this folder.
ROOT = generator.ROOT
# Generated C: a folder for each client library, and the ABI headers.
GENERATED = generator.GENERATED
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
    "adv",
    "cnn",
    "engines_precompiled",
    "engines_runtime_compiled",
    "engines_tensor_ir",
    "ext",
    "graph",
    "heuristic",
    "ops",
)
_EITHER = (
    "libcudnn.so.9",
    "libcurand.so.10",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libcufile.so.0",
    "libnccl.so.2",
    "libnvshmem_host.so.3",
)
# The libraries that programs of a major version of CUDA link with.
LINKED = {
    12: (
        "libcudart.so.12",
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcufft.so.11",
        "libcusolver.so.11",
        *_EITHER,
    ),
    13: (
        "libcudart.so.13",
        "libcublas.so.13",
        "libcublasLt.so.13",
        "libcupti.so.13",
        "libcufft.so.12",
        "libcusolver.so.12",
        *_EITHER,
    ),
}
_LOADING = frozenset(("cublaslt",))  # look for other libraries of the process
# Folder of providers that the system's libibverbs may load.
PROVIDER = "provider"
# Folder of programs, for PATH.
PROGRAMS = "bin"
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

    Programs are linked with the one for which the headers of ``tessera cc`` are: it has the name
    without version (ADR 212).
    """
    folder = CLIENTS / "libcudart"
    generated = generated_root / f"{folder.name}{major}"
    return Part(
        folder,
        f"libcudart.so.{major}",
        ("libcudart.so",) if major == 12 else (),
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
            *(f"-I{shared_folder}" for shared_folder in shared),
            f"-DTSR_MAJOR={major}",
            "-g0",
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
    (whole,) = (part for part in libraries if part.library.startswith("libcudnn.so"))
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
    needs = tuple(part for part in libraries if part.library in LINKED[major])
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
            *(
                f"-I{include_folder}"
                for include_folder in (folder, verbs.folder, verbs.generated, COMMON)
            ),
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

    def own(folder: Path, library: str, *more: str) -> Part:
        return Part(folder, library, flags=(f"-I{folder}", *more), include=include)

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
        own(RUNTIME, "libtessera_worker.so", "-lm"),
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
