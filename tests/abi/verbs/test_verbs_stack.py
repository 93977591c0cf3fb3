"""Variables of running functions can be registered like any other memory."""

import errno
import subprocess

import pytest

from support.kept import native_parts
from support.processes.tessera_run import environment
from support.programs import c_programs
from support.programs.verbs_tools import run_hca, run_verbs_program
from vgpu_sim.native import build, catalogue

# This test does not check what the program leaks at its end.
OPTIONS = {"TSAN_OPTIONS": "exitcode=66", "ASAN_OPTIONS": "detect_leaks=0"}
EXPECTED = [
    "lowest registered 1 failed 0 wrong 0",
    "main registered 27 failed 0 wrong 0",
    "growing registered 135 failed 0 wrong 0",
    "interrupted registered 0 failed 0 wrong 0",
    f"control block {errno.EOPNOTSUPP}",
    "thread registered 27 failed 0 wrong 0",
    "close 0 0",
]


def test_variables_at_every_depth_of_a_thread_can_be_registered(tmp_path):
    done = run_verbs_program(tmp_path, "hca_stack")
    assert done.stdout.splitlines() == EXPECTED
    assert done.returncode == 0
    assert "the control block of the thread that registers it cannot be registered" in done.stderr


@pytest.mark.parametrize("sanitizer", build.SANITIZERS)
def test_sanitizers_find_nothing_in_that(sanitizer, tmp_path):
    library = native_parts.build_kept("libibverbs.so.1", tmp_path / "lib", sanitizer)
    folder = catalogue.RDMA_CLIENTS / "libibverbs"
    program = c_programs.compile_program(
        *(tmp_path, "hca_stack", *build.SANITIZERS[sanitizer], str(library)),
        *(f"-I{folder}", f"-I{catalogue.GENERATED / folder.name}", f"-I{catalogue.INCLUDE}"),
    )
    done = subprocess.run(
        run_hca(tmp_path, "env", f"LD_LIBRARY_PATH={library.parent}", "setarch", "-R", program),
        env=environment(tmp_path) | OPTIONS,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, EXPECTED), done.stderr[-3000:]
