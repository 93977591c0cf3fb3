"""``python -m benchmarks.exec.ptx [NAME]...`` makes ``kernels/*.ptx`` from the CUDA source.

It needs no CUDA SDK; a test compares the committed files with clang's current output.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.exec.contest import KERNELS

CLANG = "clang-14"
FLAGS = (
    "-S",
    "-O3",
    "-x",
    "cuda",
    "--cuda-device-only",
    "-nocudainc",
    "-nocudalib",
    "--cuda-gpu-arch=sm_80",
    "-Xclang",
    "-target-feature",
    "-Xclang",
    "+ptx70",
)


def compile_cuda(source: Path, output: Path) -> None:
    """Compile one kernel. Raises FileNotFoundError without clang, CalledProcessError."""
    subprocess.run([CLANG, *FLAGS, source.name, "-o", output], cwd=source.parent, check=True)


def main() -> None:
    """Compile the named sources, or all."""
    names = sys.argv[1:] or sorted(path.stem for path in KERNELS.glob("*.cu"))
    for name in names:
        compile_cuda(KERNELS / f"{name}.cu", KERNELS / f"{name}.ptx")


if __name__ == "__main__":
    main()
