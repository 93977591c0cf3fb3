"""CUTLASS's unit tests: which files of a checkout a device runs, and the programs made of them."""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TEST = re.compile(r"^\s*TEST\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.MULTILINE)
_ERROR = re.compile(r"(?:fatal )?error *: (.+)|(undefined reference to .+)")
_WHOLE = re.compile(r'^#include "(/.+\.cu)"$', re.MULTILINE)
_OPTIONS = (
    # As a release build, which is CUTLASS's default: without NDEBUG, pipelines execute `brkpt`.
    "-std=c++17",
    "-w",
    "-DNDEBUG",
    "-Xcompiler",
    "-O1",
    "-DCUTLASS_VERSIONS_GENERATED",
    "-DCUTLASS_ENABLE_TENSOR_CORE_MMA=1",
    "-DCUTLASS_TEST_LEVEL=0",
    "-DCUTLASS_TEST_ENABLE_CACHED_RESULTS=0",
)
_DEVICE_OPTIONS = ("--expt-relaxed-constexpr", "--expt-extended-lambda")

# Each program's files, below test/unit. The files of a program are compiled as one: most of the
# time goes into CUTLASS's headers, which each file includes. No two of them have a test of the same
# name.
PROGRAMS: dict[str, dict[str, tuple[str, ...]]] = {
    "80": {
        "cute": (
            "cute/ampere/ldsm.cu",
            "cute/ampere/cp_sync.cu",
            "cute/ampere/tiled_cp_async.cu",
            "cute/turing/movm.cu",
            "cute/layout/layout_operator.cu",
            "cute/volta/vectorization_auto.cu",
        ),
        "epilogue": ("epilogue/thread/linear_combination.cu", "epilogue/thread/activation.cu"),
        "gemm": (
            "gemm/device/gemm_f16n_f16t_f16t_tensor_op_f16_slicedk_sm80.cu",
            "gemm/device/gemm_f16t_f16n_f16t_tensor_op_f16_slicedk_sm80.cu",
        ),
        "conv": (
            "conv/device/conv2d_fprop_implicit_gemm_f32nhwc_f32nhwc_f32nhwc_simt_f32_sm80.cu",
        ),
    },
    "90a": {
        "cute": ("cute/hopper/stsm.cu", "cute/hopper/bulk_load.cu"),
        # Their headers define the same names.
        "cute_load": ("cute/hopper/tma_load.cu",),
        "cute_multicast": ("cute/hopper/tma_mcast_load.cu",),
        "cute_bulk_store": ("cute/hopper/bulk_store.cu",),
        "cute_store": ("cute/hopper/tma_store.cu",),
        "pipeline": (
            "pipeline/pipeline_async.cu",
            "pipeline/pipeline_tma_async.cu",
            "pipeline/sequence_barrier.cu",
        ),
        "specialized": (
            "pipeline/pipeline_tma_async_warp_specialized.cu",
            "pipeline/pipeline_tma_async_warp_specialized_persistent.cu",
        ),
        "launch": ("cluster_launch/cluster_launch.cu",),
        "gemm": ("gemm/device/sm90_gemm_f16_f16_f16_tensor_op_f32_cluster_warpspecialized.cu",),
        "conv": (
            "conv/device_3x/fprop/sm90_conv1d_fprop_implicit_gemm_f16_f16_f32_tensorop_f32.cu",
        ),
    },
    "100a": {
        "pipeline": (
            "pipeline/pipeline_cluster_launch_control_async_warp_specialized_blackwell.cu",
        ),
        "gemm": ("gemm/device/sm100_tensorop_gemm/f16_f16_void_f32.cu",),
    },
    "120a": {
        "gemm": ("gemm/device/sm120_tensorop_gemm/sm120_gemm_f8_f8_f32_tensor_op.cu",),
        "gemm_block_scaled": (
            "gemm/device/sm120_blockscaled_tensorop_gemm/sm120_bs_gemm_nvf4_nvf4_f32_f32.cu",
        ),
    },
}


class NotCompiled(Exception):
    """The compiler refused a program; with its first error."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """What compiles the tests: a checkout of CUTLASS, CUDA's packages, and Tessera's libraries."""

    checkout: Path
    cuda: Path
    libraries: Path

    @property
    def units(self) -> Path:
        """The folder of the unit tests."""
        return self.checkout / "test" / "unit"

    def tests(self, file: str) -> list[str]:
        """Return the names of a file's tests, as googletest's filter takes them."""
        text = (self.units / file).read_text()
        return list(dict.fromkeys(f"{suite}.{test}" for suite, test in _TEST.findall(text)))

    def build(self, target: str, name: str, folder: Path) -> Path:
        """Compile a program of ``PROGRAMS`` into a folder, unless the folder has it already.

        Raises:
            NotCompiled: with the compiler's first error.
        """
        source = folder / f"{name}.cu"
        folder.mkdir(parents=True, exist_ok=True)
        source.write_text(self.unite(PROGRAMS[target][name]))
        main = (self.units / "test_unit.cpp", self.units / "common" / "filter_architecture.cpp")
        objects = [self._make(folder, path, "-c") for path in main]
        options = [
            "-gencode",
            f"arch=compute_{target},code=compute_{target}",
            *_DEVICE_OPTIONS,
            f'-DCUTLASS_TARGET_NAME="{name}"',
            "-cudart",
            "shared",
            "-L",
            str(self._links(folder)),
            "-L",
            str(self.cuda / "lib"),
            "-Xlinker",
            "--allow-shlib-undefined",
        ]
        return self._make(
            folder, source, *options, *map(str, objects), "-lgtest", "-lcuda", "-lpthread"
        )

    def _make(self, folder: Path, source: Path, *options: str) -> Path:
        """Return what the compiler makes of a source: from an earlier call, if nothing changed."""
        command = [str(self.cuda / "bin" / "nvcc"), *_OPTIONS, *self._include()]
        whole = [*command, *options, source.read_text()]
        whole.append((self.checkout / "include" / "cutlass" / "version.h").read_text())
        whole += [Path(included_file).read_text() for included_file in _WHOLE.findall(whole[-2])]
        output_file = (
            folder / f"{source.stem}-{hashlib.sha256(chr(0).join(whole).encode()).hexdigest()[:12]}"
        )
        if "-c" in options:
            output_file = output_file.with_suffix(".o")
        if output_file.exists():
            return output_file
        unfinished = output_file.with_name(f"{output_file.stem}.part{output_file.suffix}")
        process = subprocess.run(
            [*command, "-o", str(unfinished), str(source), *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if process.returncode:
            lines = process.stdout + process.stderr
            error = _ERROR.search(lines)
            raise NotCompiled(error[0] if error else lines[-500:])
        return unfinished.rename(output_file)

    def unite(self, files: tuple[str, ...]) -> str:
        """Return one source of several files, each in a namespace of its own.

        Their headers come first, outside of the namespaces; include guards leave them out later.
        """
        paths = [self.units / file for file in files]
        headers = dict.fromkeys(
            _resolve(include, path.parent)
            for path in paths
            for include in _INCLUDE.findall(path.read_text())
        )
        lines = [f"#include {header}" for header in headers]
        if len(paths) == 1:
            return f'#include "{paths[0]}"\n'
        for index, path in enumerate(paths):
            lines.append(f'namespace file_{index} {{\n#include "{path}"\n}}')
        return "\n".join(lines) + "\n"

    def _include(self) -> list[str]:
        folders = (
            self.units,
            self.units / "common",
            self.checkout / "include",
            self.checkout / "tools" / "util" / "include",
            self.cuda / "include" / "cccl",
        )
        return [f"-I{path}" for path in folders]

    def _links(self, folder: Path) -> Path:
        """Return a folder with the names of libraries by which nvcc and the linker search.

        Tessera's runtime is what the name of `-cudart shared` finds (see kernels/test_kernels.py).
        """
        links = folder / "lib"
        links.mkdir(exist_ok=True)
        for link, library in (("libcudart.so", "libcudart.so.13"), ("libcuda.so", "libcuda.so.1")):
            (links / link).unlink(missing_ok=True)
            (links / link).symlink_to(self.libraries / library)
        return links


def _resolve(header: str, folder: Path) -> str:
    """Return an include's operand that means the same in another folder."""
    beside = folder / header.strip('"')
    return f'"{beside.resolve()}"' if header.startswith('"') and beside.exists() else header


def has_googletest() -> bool:
    """Return whether the compiler finds googletest's headers (Debian's package libgtest-dev)."""
    compiler = shutil.which("g++")
    if compiler is None:
        return False
    process = subprocess.run(
        [compiler, "-x", "c++", "-fsyntax-only", "-include", "gtest/gtest.h", os.devnull],
        capture_output=True, check=False,
    )  # fmt: skip
    return not process.returncode
