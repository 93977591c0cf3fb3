"""The phases of a compilation: device code, host code, archive and link."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path

from vgpu_sim import config
from vgpu_sim.records import dataclass
from vgpu_sim.sdk import (
    annotations,
    architectures,
    clang as clangs,
    device_link,
    dialect,
    fatbin,
    managed_variables,
    repairs,
)
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.sdk.options import PER_THREAD, Options
from vgpu_sim.sdk.steps import Steps

INCLUDE = Path(__file__).parent / "include"
_CUDA = (".cu",)
_C = (".c",)
_SOURCES = (*_C, ".cc", ".cpp", ".cxx", ".C", ".c++")
_OBJECT_STARTS = (b"\x7fELF", b"!<arch>\n")
_OBJECTS = (".o", ".a", ".so", ".obj", ".lo")
# What `<<<>>>` compiles to depends on the SDK's version: cudaLaunchKernel, and the registration
# calls of CUDA 10.1 and newer. Every supported clang knows this one.
_SDK_VERSION = "11.8"
# The most instructions, as LLVM estimates them, of a loop unrolled by `#pragma unroll`. LLVM's own
# limit of 16384 makes kernels with more registers than an ISA function can have.
_UNROLLED = 1024
# An argument without a value is no undefined behavior, as with nvcc: threads whose value no shuffle
# reads commonly pass one, and clang would conclude that only the other threads come there.
_MAY_BE_UNDEFINED = ("-Xclang", "-no-enable-noundef-analysis")
# clang 19 takes wrong types for `Ts...[N]` in an alias template. Without this macro, CCCL 12.9
# does not use it.
_NO_PACK_INDEXING = ("-U__cpp_pack_indexing", "-Wno-builtin-macro-redefined")


@dataclass
class Compilation:
    """One run of ``tessera cc``."""

    options: Options
    clang: clangs.Clang
    targets: list[str]
    steps: Steps
    overlays: dict[str, list[str]] = field(default_factory=dict)
    found: dict[str, dialect.Files] = field(default_factory=dict)

    def common(self) -> list[str]:
        """Return the arguments of device and host compilation of CUDA sources."""
        return [
            "-x", "cuda", f"-std={self.options.standard}", "-nocudainc", "-nocudalib",
            "--no-offload-new-driver",
            "-Wno-unknown-cuda-version", "-Wno-undefined-internal", "-Wno-pass-failed",
            "-Xclang", f"-target-sdk-version={_SDK_VERSION}",
            "-Xclang", "-fcuda-allow-variadic-functions",
            "-isystem", str(INCLUDE),
            "-isystem", str(self.clang.resources / "include" / "cuda_wrappers"),
            "-include", "cuda_runtime.h",
            *(["-Xclang", "-fgpu-default-stream=per-thread"]
              if PER_THREAD in self.options.both else []),
            *(["-D__CUDACC_RDC__"] if self.options.relocatable else []),
            "-D__CUDACC_VER_MAJOR__=12", "-D__CUDACC_VER_MINOR__=9", "-D__CUDACC_VER_BUILD__=0",
            *(_NO_PACK_INDEXING if self.clang.version == 19 else ()),
            *self.options.both,
        ]  # fmt: skip

    def device(self, target: str) -> list[str]:
        """Return the arguments of device compilation for one architecture."""
        options = self.options
        level = "-O0" if options.device_debug else options.optimization
        return [
            *self.common(), "--cuda-device-only", f"--cuda-gpu-arch=sm_{target}",
            f"--cuda-feature=+ptx{self.clang.ptx}",
            "-O1" if level == "-O0" and not options.device_debug else level,
            *(["-g"] if options.device_debug else []),
            *(["-fgpu-rdc"] if options.relocatable else []),
            *([] if any(flag.startswith("-ffp-contract") for flag in options.device)
              else ["-ffp-contract=fast"]),
            "-mllvm", f"-pragma-unroll-threshold={_UNROLLED}",
            *self.clang.expansions, *_MAY_BE_UNDEFINED,
            *options.device,
        ]  # fmt: skip

    def compile_device(self, source: str, target: str, flags: list[str], output: Path) -> Path:
        """Compile the device part of a source to ``output``, as ``flags`` say."""
        command = [str(self.clang.path), *self.device(target), *flags, source]
        return repairs.run_clang(self.steps, command, output, source)

    def write_ptx(self, source: str, target: str, flags: list[str], output: Path) -> Path:
        """Compile the device part of a source to PTX in ``output``."""
        flags = ["-S", *self.identity(source), *flags]
        if not annotations.is_used(self.files(source).own):
            self.compile_device(source, target, flags, output)
            return repairs.correct_file(self.steps, output)
        code = self.steps.file(Path(source).stem, ".ll")
        self.compile_device(source, target, ["-emit-llvm", *flags], code)
        marked = self.rewrite(code, annotations.mark_device)
        device_link.write_ptx(self.clang, self.steps, target, self.options, [marked], output)
        required = annotations.require_clusters(self.read(output), self.read(code))
        self.steps.write(output, required.encode("latin-1"))
        return output

    def has_managed(self, source: str) -> bool:
        """Return whether managed variables of a source are to be made from annotated ones."""
        return not self.options.relocatable and annotations.has_managed(self.files(source).own)

    def files(self, source: str) -> dialect.Files:
        """Return a source and the headers that it includes."""
        if source not in self.found:
            folders = dialect.include_folders(self.options.both)
            self.found[source] = dialect.read_files(Path(source), folders)
        return self.found[source]

    def read(self, path: Path) -> str:
        """Return a file's content as text; a byte is a character."""
        return self.steps.read(path).decode("latin-1")

    def rewrite(self, code: Path, change: Callable[[str], str]) -> Path:
        """Write changed LLVM IR of a file to another one, and return that."""
        output = self.steps.file(code.stem, ".ll")
        self.steps.write(output, change(self.read(code)).encode("latin-1"))
        return output

    def images(self, source: str, first: Sequence[str] = ()) -> dict[str, bytes]:
        """Return the PTX of a source for each architecture; bitcode for separate compilation.

        ``first`` are arguments of the first compilation.
        """
        code_by_target = {}
        for target in self.targets:
            stem = f"{Path(source).stem}.sm_{target}"
            extra_arguments = list(first) if target == self.targets[0] else []
            if not self.options.relocatable:
                output = self.steps.file(stem, ".ptx")
                code_by_target[target] = self.steps.read(
                    self.write_ptx(source, target, extra_arguments, output)
                )
                continue
            flags = ["-S", "-emit-llvm", *self.identity(source), *extra_arguments]
            code = self.compile_device(source, target, flags, self.steps.file(stem, ".ll"))
            if annotations.is_used(self.files(source).own):
                if self.clang.version < annotations.MARKS_CLUSTERS:
                    needed = f"clang {annotations.MARKS_CLUSTERS} or newer"
                    raise CompileError(f"{source}: __cluster_dims__ with -rdc=true needs {needed}")
                code = self.rewrite(code, annotations.mark_device)
            code_by_target[target] = device_link.assemble(
                self.clang, self.steps, self.steps.read(code), target, stem
            )
        return code_by_target

    def identity(self, source: str) -> list[str]:
        """Return the flags that make both sides agree on the names of kernels and variables."""
        text = f"{Path(source).resolve()} {self.options.both}"
        # clang's driver passes its own -cuid to the device's side only.
        cuid = f"-cuid={hashlib.sha256(text.encode()).hexdigest()[:16]}"
        is_used = annotations.is_used(self.files(source).own)
        defined = [annotations.DEFINED] if is_used else []
        return [*self.overlay(source), cuid, *defined, "-Xclang", cuid]

    def overlay(self, source: str) -> list[str]:
        """Return the flags by which clang reads what nvcc accepts and clang does not."""
        if source not in self.overlays:
            copies = {}
            for path, text in self.files(source).rewrite().items():
                copies[path] = self.steps.file(path.stem, path.suffix).absolute()
                self.steps.write(copies[path], text.encode("latin-1"))
            flags = []
            if copies:
                listed = self.steps.file(Path(source).stem, ".overlay.json")
                self.steps.write(listed, dialect.overlay(copies).encode())
                flags = ["-ivfsoverlay", str(listed)]
            self.overlays[source] = flags
        return self.overlays[source]

    def compile(self, source: str, output: Path) -> Path:
        """Compile a source to an object."""
        options = self.options
        if not self.is_cuda(source):
            self.steps.run(
                [
                    self.clang.path, *self.plain(source), *options.host,
                    *self.dependencies(source, output), "-c", source, "-o", output,
                ]
            )  # fmt: skip
            return output
        images = self.images(source)
        container = self.steps.file(Path(source).stem, ".fatbin")
        if options.relocatable:
            content = fatbin.pack_bitcode(images, self.identity(source)[-1][-16:])
        else:
            content = fatbin.pack_ptx(images)
        self.steps.write(container, content)
        is_rewritten = self.has_managed(source)
        code = self.steps.file(Path(source).stem, ".ll") if is_rewritten else output
        first: list[str | Path] = ["-c", source, "-o", code]
        if is_rewritten:
            first = ["-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", source, "-o", code]
        self.steps.run(
            [
                self.clang.path, *self.common(), "--cuda-host-only",
                f"--cuda-gpu-arch=sm_{self.targets[0]}", *self.identity(source),
                *(["-fgpu-rdc"] if options.relocatable else []),
                "-Xclang", "-fcuda-include-gpubinary", "-Xclang", container,
                options.optimization, *options.host, *self.dependencies(source, output), *first,
            ]
        )  # fmt: skip
        if is_rewritten:
            self.steps.run(
                [
                    self.clang.path, "-x", "ir", "-Wno-override-module", "-Qunused-arguments",
                    options.optimization, *options.host,
                    "-c", self.rewrite(code, managed_variables.rewrite_host), "-o", output,
                ]
            )  # fmt: skip
        return output

    def plain(self, source: str) -> list[str]:
        """Return the arguments of compilation of a source in C or C++."""
        options = self.options
        is_c = options.language == "c" or (options.language is None and source.endswith(_C))
        standard = [] if is_c and "++" in options.standard else [f"-std={options.standard}"]
        return [
            "-x", "c" if is_c else "c++", *standard, options.optimization,
            "-isystem", str(INCLUDE), *options.both,
        ]  # fmt: skip

    def dependencies(self, source: str, output: Path) -> list[str]:
        """Return the flags that write a list of the files that a source includes.

        The list is for the file that stays; ``output`` can be temporary.
        """
        flags = self.options.dependencies
        if not {"-MD", "-MMD"} & set(flags):
            return flags
        lasting_output = output
        if self.options.phase in ("link", "archive", "device-link"):
            lasting_output = Path(self.options.output or "a.out")
        dependency_flags = list(flags)
        if not any(flag.startswith("-MF") for flag in flags):
            stem = lasting_output.with_suffix("") if lasting_output == output else Path(source).stem
            dependency_flags.append(f"-MF{stem}.d")
        if not any(flag.startswith(("-MT", "-MQ")) for flag in flags):
            dependency_flags.append(f"-MQ{self.options.output or lasting_output}")
        return dependency_flags

    def is_cuda(self, source: str) -> bool:
        """Return whether an input is compiled as CUDA."""
        if self.options.language is not None:
            return self.options.language in ("cu", "cuda")
        return source.endswith(_CUDA)

    def is_source(self, name: str) -> bool:
        """Return whether an input is compiled, rather than passed to the linker."""
        return name.endswith(_CUDA + _SOURCES) or (
            self.options.language is not None and not name.endswith(_OBJECTS)
        )

    def objects(self) -> dict[str, str]:
        """Compile every source, and return the object of each."""
        return {
            source: str(self.compile(source, self.steps.file(Path(source).stem, ".o")))
            for source in self.options.inputs
            if self.is_source(source)
        }

    def link(self) -> None:
        """Link the inputs to a program or shared library."""
        options = self.options
        objects_by_source = self.objects()
        arguments = [objects_by_source.get(word, word) for word in options.link]
        device = [word for word in arguments if not word.startswith("-")]
        folders = [Path(word[2:]) for word in arguments if word.startswith("-L")]
        libraries = [word[2:] for word in arguments if word.startswith("-l")]
        device += device_link.find_archives(folders, libraries)
        stub = device_link.link(self.clang, self.steps, device, self.targets, options)
        self.steps.run(
            [
                self.clang.path, *(["-shared"] if options.shared else []),
                *options.host, "-o", options.output or "a.out", *arguments, *stub, *self.runtime(),
            ]
        )  # fmt: skip

    def runtime(self) -> list[str]:
        """Return the linker's arguments for the CUDA runtime library."""
        if self.options.cudart == "none":
            return []
        folder = config.LIBRARIES_DIR
        return [f"-L{folder}", "-l:libcudart.so.12", "-Wl,--allow-shlib-undefined", "-ldl", "-lm"]

    def device_link_only(self) -> None:
        """Write the object that ``-dlink`` makes from objects of separate compilation."""
        objects_by_source = self.objects()
        inputs = [objects_by_source.get(word, word) for word in self.options.inputs]
        stub = device_link.link(self.clang, self.steps, inputs, self.targets, self.options)
        output = self.options.output or "a_dlink.o"
        if stub and not self.steps.dry_run:
            shutil.copyfile(stub[0], output)
        elif not stub:
            raise CompileError("no input contains relocatable device code (compile it with -dc)")

    def archive(self) -> None:
        """Put the objects of all inputs into a static library."""
        for name in self.options.inputs:
            if not self.is_source(name) and not _is_object(name):
                raise CompileError(f"{name}: neither a source nor an object")
        objects_by_source = self.objects()
        inputs = [objects_by_source.get(word, word) for word in self.options.inputs]
        self.steps.run(["ar", "rcs", self.options.output or "a.a", *inputs])

    def sources(self) -> list[str]:
        """Return the inputs of a phase that compiles all of them."""
        for name in self.options.inputs:
            if not self.is_source(name):
                raise CompileError(
                    f"{name}: not a source file, so nothing can be compiled; if it is one, name its"
                    " language with -x cu, -x c++ or -x c"
                )
        return self.options.inputs

    def each(self, suffix: str) -> None:
        """Do a phase that ends before linking: one output for each source."""
        options = self.options
        sources = self.sources()
        if options.output is not None and len(sources) > 1:
            raise CompileError("-o with several sources needs a phase that links them")
        for source in sources:
            output = Path(options.output or Path(source).stem + suffix)
            if options.phase == "compile":
                self.compile(source, output)
            elif options.phase == "ptx":
                if len(self.targets) > 1:
                    raise CompileError("-ptx makes PTX of one architecture; -arch names several")
                self.write_ptx(source, self.targets[0], self.dependencies(source, output), output)
            else:
                images = self.images(source, self.dependencies(source, output))
                self.steps.write(output, fatbin.pack_ptx(images))

    def preprocess(self) -> None:
        """Print or write the preprocessed sources, or the files that they include."""
        flag = "-E" if self.options.phase == "preprocess" else "-M"
        output = ["-o", self.options.output] if self.options.output else []
        for source in self.sources():
            language = self.plain(source)
            if self.is_cuda(source):
                language = [*self.common(), "--cuda-host-only"]
            dependencies = self.options.dependencies
            self.steps.run([self.clang.path, *language, flag, *dependencies, source, *output])

    def run(self) -> None:
        """Do the phase that the options name."""
        phase = self.options.phase
        if phase == "link":
            self.link()
        elif phase == "device-link":
            self.device_link_only()
        elif phase == "archive":
            self.archive()
        elif phase in ("preprocess", "dependencies"):
            self.preprocess()
        else:
            self.each({"compile": ".o", "ptx": ".ptx", "fatbin": ".fatbin"}[phase])


def _is_object(name: str) -> bool:
    with Path(name).open("rb") as file:
        return file.read(len(_OBJECT_STARTS[1])).startswith(_OBJECT_STARTS)


def compile_all(options: Options) -> None:
    """Carry out a command line.

    Raises:
        CompileError: there is no input or no clang, a file is missing, or a tool failed.
    """
    if not options.inputs:
        raise CompileError("no input files given; use option --help for more information")
    for name in options.inputs:
        if not os.path.exists(name):
            raise CompileError(f"{name}: no such file")
        if Path(name).name.startswith("@") and not name.endswith(_OBJECTS):
            # The driver passes the name without its folder on, to a step that reads such files.
            raise CompileError(f"{name}: clang takes a name with @ for a response file; rename it")
    clang = clangs.find(options.ccbin)
    targets = architectures.select(options.architecture, options.generate)
    with ExitStack() as stack:
        if options.keep or options.dry_run:
            folder = Path(options.keep_dir).absolute()
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tessera-cc-")))
        steps = Steps(folder, options.verbose, options.dry_run)
        Compilation(options, clang, targets, steps).run()
