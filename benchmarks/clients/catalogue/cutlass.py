"""CUTLASS's unit tests, one client for each generation of its kernels."""

from dataclasses import replace
from pathlib import PurePosixPath

from benchmarks.clients.catalogue.compilers import KERNELS
from benchmarks.clients.client import Client, Repository

CUTLASS_A100 = Client(
    name="cutlass-a100",
    venv="cutlass",
    version="4.6.2",
    goal="≥ 60 on all boards together",
    packages=(*KERNELS.packages, "nvidia-curand==10.4.5.25"),
    repository=Repository("https://github.com/NVIDIA/cutlass", "v4.6.2"),
    folder=PurePosixPath("cutlass"),
    in_programs=True,
    tests=("test_*.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    environment={
        "CUTLASS": "{repository}",
        "CUTLASS_CUDA": "{site}/nvidia/cu13",
        "CUTLASS_TARGET": "80",
        "TESSERA_COMMAND": "{tessera}",
    },
    board="a100-80gb",
    file_limit_s=14400,
    test_limit_s=7200,  # the first test of a program compiles it
)


def _on(board: str, target: str, instance: str) -> Client:
    environment = {**CUTLASS_A100.environment, "CUTLASS_TARGET": target}
    return replace(
        CUTLASS_A100,
        name=f"cutlass-{board.split('-')[0]}",
        board=board,
        slice=instance,
        environment=environment,
    )


CUTLASS_H100 = _on("h100-80gb", "90a", CUTLASS_A100.slice)
CUTLASS_B200 = _on("b200", "100a", "7g.180gb")
CUTLASS_RTX = _on("rtx-pro-6000", "120a", "4g.96gb")
