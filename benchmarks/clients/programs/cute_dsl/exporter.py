"""Exports kernels of CuTe DSL's examples as PTX, ahead of time, with what launches need.

The DSL's own launcher has NVIDIA's CUDA runtime linked into it, which needs NVIDIA's driver. So
each kernel is compiled in a process of its own, which needs no GPU, and is launched through the
driver. Shapes are static, so that a tensor is a pointer in the kernel's parameters.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(os.environ.get("CUTE_DSL_EXAMPLES", ""))
_COMPILING = Path(__file__).with_name("compiling.py")
_SIZE = r"%c(\d+)_i32"
_SIZES = rf"\({_SIZE}, {_SIZE}, {_SIZE}\)"


@dataclass(frozen=True)
class Exported:
    """A kernel's PTX and its launch: sizes in blocks, threads and blocks of a cluster.

    ``parameters`` are their sizes in bytes. ``boxes`` are the boxes of the kernel's tensor maps,
    the innermost dimension first; each block of a multicast loads its part.
    """

    name: str
    ptx: bytes
    parameters: Sequence[int]
    grid: Sequence[int]
    block: Sequence[int]
    cluster: Sequence[int]
    boxes: Sequence[Sequence[int]]


def _sizes(text, prefix):
    """Return the sizes in three dimensions that follow a text; they must be constants."""
    return tuple(map(int, re.search(prefix + _SIZES, text).groups()))


def export(folder, target, example):
    """Compile an example of ``compiling.py`` for a target, and return its kernel."""
    environment = {
        **os.environ,
        "CUTE_DSL_ARCH": target,
        "CUTE_DSL_KEEP": "ptx,ir",
        "CUTE_DSL_DUMP_DIR": str(folder),
        "CUTE_DSL_NO_CACHE": "1",
    }
    command = [sys.executable, str(_COMPILING), str(EXAMPLES), example]
    process = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (ptx,), (ir,) = (tuple(folder.glob(f"*.{suffix}")) for suffix in ("ptx", "mlir"))
    text, assembly = ir.read_text(), ptx.read_text()
    cluster = r"launch_cfg\.cluster_dim"
    boxes = []
    for tma_operation in re.findall(r"make_non_exec_tiled_tma\w+\(.*", text):
        width, rows = map(
            int, re.search(r"tma_gbasis = <\"\((\d+),(\d+)\):", tma_operation).groups()
        )
        multicast = re.search(r"num_multicast = (\d+)", tma_operation)
        boxes.append((width, rows // int(multicast[1] if multicast else 1)))
    sizes = re.findall(
        r"\.param (?:\.align \d+ )?\.[a-z]+(\d+) \w+_param_\d+(?:\[(\d+)\])?", assembly
    )
    return Exported(
        name=re.findall(r"\.entry (\w+)", assembly)[0],
        ptx=ptx.read_bytes(),
        parameters=[int(bits) // 8 * int(count or 1) for bits, count in sizes],
        grid=_sizes(text, "gridDim = "),
        block=_sizes(text, "blockDim = "),
        cluster=_sizes(text, rf"{cluster}\[%\w+\] ") if re.search(cluster, text) else (1, 1, 1),
        boxes=boxes,
    )
