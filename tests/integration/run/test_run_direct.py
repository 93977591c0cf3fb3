"""GPUDirect RDMA under ``tessera run``: libcuda's memory, registered with libibverbs, over the HCA."""

import subprocess
from pathlib import Path

import pytest

from support.kept import native_parts
from support.processes.tessera_run import EXAMPLES, environment, tessera
from support.programs import c_programs
from vgpu_sim.native import build, catalogue

HEADERS = Path("/usr/include/infiniband/verbs.h")
COUNT = 1 << 20
EFAULT = 14
SEEN = f"""\
write success
write success
another's pointer {EFAULT}
kernel saw {COUNT}
pinned memory has {COUNT}
beyond its end {EFAULT}
read success
read back {COUNT}
free 0
freed {EFAULT}
write remote access error
write success
reset 0
write remote access error
free 0
own local protection error
dereg 0
dereg 0 0 0 0
close 0 0 0
"""


SHARED = f"""\
supported 1 export 0
write success
right 1
rereg -1
export 1 1 1 1 1 1 1
flags 801
no descriptor 9 pipe 22 directory 22 file 22 forged {EFAULT}
beyond {EFAULT} {EFAULT} empty 22 place 22 access 22
map 1 read 1 write 1 size {4 << 20}
another's {EFAULT} own 0
free 0
write remote access error
freed {EFAULT} again 0 {EFAULT}
dereg 0 reset 0
"""


def build_program(tmp_path: Path, name: str) -> Path:
    if not HEADERS.exists():
        pytest.skip("NOT RUN: no infiniband/verbs.h: apt-get install libibverbs-dev")
    native_parts.build_once()
    folders = (f"-L{build.LIBRARIES}", f"-L{build.LIBRARIES / catalogue.RDMA}")
    return c_programs.compile_program(tmp_path, name, *folders, "-lcuda", "-libverbs")


def run(temporary: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a slice and an HCA."""
    kind = ("--board", "a30", "--slice", "1g.6gb", "--hca")
    return subprocess.run(
        tessera("run", *kind, "--", *command),
        env=environment(temporary),
        cwd=temporary,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_two_processes_write_and_read_each_other_s_device_memory(
    tmp_path: Path,
) -> None:
    """Live memory is transferred and visible to kernels; freed memory, memory of a reset device,
    and memory of others is not accessible.
    """
    program = build_program(tmp_path, "hca_direct")
    done = run(tmp_path, str(program), str(EXAMPLES / "saxpy.ptx"))
    assert done.stdout == SEEN, done.stderr
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_memory_is_registered_by_its_descriptor(tmp_path: Path) -> None:
    """Only by the process for which it was created, and only while the memory exists."""
    done = run(tmp_path, str(build_program(tmp_path, "hca_dmabuf")))
    assert done.stdout == SHARED, done.stderr
    assert done.returncode == 0
    for why in ("is none of cuMemGetHandleForAddressRange", "is of another process"):
        assert why in done.stderr
    assert "Traceback" not in done.stderr
