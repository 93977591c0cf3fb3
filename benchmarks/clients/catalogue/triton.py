"""Triton: its tutorials and tests, with a stand-in for torch that computes with numpy."""

from dataclasses import replace
from pathlib import PurePosixPath

from benchmarks.clients.client import Client, Known, Repository

TRITON = Client(
    name="triton-tutorials-a100",
    venv="triton",
    version="3.9.0",
    goal="all",
    packages=("triton==3.9.0", "numpy==2.4.6", "ml_dtypes==0.6.0"),
    repository=Repository("https://github.com/triton-lang/triton", "v3.9.0"),
    folder=PurePosixPath("triton"),
    in_programs=True,
    tests=("test_tutorials.py",),
    environment={
        "PYTHONPATH": "{programs}/numpy_torch",
        "TRITON_TUTORIALS": "{repository}/python/tutorials",
        "TRITON_DEFAULT_FP_FUSION": "1",
    },
    board="a100-80gb",
    file_limit_s=7200,
    test_limit_s=1500,  # fused attention takes minutes on a machine that does other work
)
TRITON_H100 = replace(
    TRITON,
    name="triton-tutorials-h100",
    board="h100-80gb",
    tests=("test_tutorials.py", "test_gluon.py"),
)
_EARLIER_TUTORIALS = (
    "The tutorials are those of 9d9a2d7a (April 2026), an earlier commit than Triton's 3.9.0."
)
TRITON_ADA = replace(
    TRITON,
    name="triton-tutorials-ada",
    board="h100-80gb",
    environment={**TRITON.environment, "TORCH_CAPABILITY": "8.9"},
    note=(
        "Compute capability 8.9: no board with it is simulated, so an H100 runs what Triton writes"
        f" for `sm_89`. {_EARLIER_TUTORIALS}"
    ),
)
TRITON_RTX = replace(
    TRITON,
    name="triton-tutorials-rtx",
    board="rtx-pro-6000",
    slice="4g.96gb",
    tests=("test_tutorials.py", "test_blackwell.py"),
    known=(
        Known(
            r"OutOfResources: out of resource: shared memory, .* limit: 101376",
            "backward attention with heads of 128 takes 107 KiB of shared memory: a GPU of compute"
            " capability 12.0 has 99 KiB, and Triton refuses the launch",
        ),
    ),
    note=_EARLIER_TUTORIALS,
)
TRITON_B200 = replace(
    TRITON,
    name="triton-tutorials-b200",
    board="b200",
    slice="7g.180gb",
    tests=("test_tutorials.py", "test_blackwell.py"),
    note=_EARLIER_TUTORIALS,
)
TRITON_GLUON = replace(
    TRITON_B200,
    name="triton-gluon-b200",
    tests=("test_gluon.py",),
    note=(
        "The tutorials are those of an earlier commit, in which the four names that 3.9.0 no longer"
        " has are replaced. The cases ran in several parts, between which causes of failures were"
        " fixed; the last outcome of each case counts."
    ),
)
TRITON_CORE = replace(
    TRITON,
    name="triton-test-core",
    goal="≥ 90 %",
    folder=PurePosixPath("python"),
    in_programs=False,
    tests=("test/unit/language/test_core.py",),
    arguments=("-c", "{programs}/pytest.ini"),
    known=(
        Known(
            r"bin/cuobjdump",
            "reads machine code with NVIDIA's `cuobjdump`, and there is none",
        ),
        Known(
            r"assert \d+ == 1\n.*\n.*\.count|count\(f?.ld\.relaxed",
            "counts instructions in the PTX that Triton wrote: the tests are of a later commit",
        ),
        Known(
            r"assert 'atom\.global\.gpu\.",
            "looks for words in the PTX that Triton wrote, in an order of an earlier commit",
        ),
        Known(
            r"test_scan2d\[cumsum-bfloat16-",
            "Triton 3.9 adds bfloat16 in its own precision; at the tests' commit it added float32",
        ),
        Known(
            r"\bin test_cat\b|def test_cat\(",
            "expects the order of `tl.cat` in a later commit of Triton's compiler",
        ),
    ),
    file_limit_s=7200,
)
