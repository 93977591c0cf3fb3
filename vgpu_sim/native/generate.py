"""Write all generated files for C: ``python -m vgpu_sim.native.generate``.

C goes into ``vgpu_sim/native/generated``, which git ignores (``python -m vgpu_sim.native.build``
does the same before it compiles): ``include`` for the ABI headers, a folder for each client
library. Documentation pages of client libraries go into ``docs``.
"""

import argparse
from pathlib import Path

from hca.contract import header as hca_header
from vgpu_sim.clients.codegen import library, outputs
from vgpu_sim.hal import header

ROOT = Path(__file__).parents[2]
GENERATED = Path(__file__).parent / "generated"
INCLUDE = GENERATED / "include"
CLIENTS = ROOT / "vgpu_sim" / "clients"
RDMA_CLIENTS = ROOT / "hca" / "clients"
# Folders of the mathematical libraries, with the names of the files that programs load.
MATH = {
    CLIENTS / "math" / name: soname
    for name, soname in {
        "cublas": "libcublas.so",
        "cublaslt": "libcublasLt.so",
        "cudnn": "libcudnn.so",
        "cufft": "libcufft.so",
        "cufile": "libcufile.so",
        "cupti": "libcupti.so",
        "curand": "libcurand.so",
        "cusolver": "libcusolver.so",
        "cusparse": "libcusparse.so",
        "cusparselt": "libcusparseLt.so",
        "nccl": "libnccl.so",
        "nvshmem": "libnvshmem_host.so",
    }.items()
}
LIBRARIES = (
    *(CLIENTS / name for name in ("libcuda", "libcudart", "libnvml")),
    *MATH,
    *(RDMA_CLIENTS / name for name in ("libibverbs", "librdmacm")),
)


def headers() -> dict[str, str]:
    """Return the text of every ABI header, by its path below the include folder."""
    return {**header.render(), **hca_header.render()}


def write_all(generated: Path = GENERATED) -> None:
    """Write all generated C below ``generated``; files that are already up to date are not
    rewritten.
    """
    header.write_files(generated / INCLUDE.name, headers())
    for folder in LIBRARIES:
        for client_library in library.load_each(folder):
            outputs.write(client_library, generated)


def pages(folder: Path) -> dict[Path, str]:
    """Return the path and text of a client library's documentation page, if it has one."""
    return outputs.pages(library.load_each(folder), ROOT, headers())


def main() -> None:
    """Write the C and the documentation pages of all libraries."""
    write_all()
    for folder in LIBRARIES:
        for path, text in pages(folder).items():
            path.write_text(text, encoding="ascii")


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m vgpu_sim.native.generate", description=__doc__
    ).parse_args()
    main()
