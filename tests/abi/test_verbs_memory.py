"""libibverbs registers a program's own memory: what it keeps, and what it refuses."""

import errno
import subprocess

import c_programs
from tessera_run import environment
from verbs_tools import run_hca

from vgpu_sim.native import build


def test_registered_memory_keeps_its_content_and_comes_back(tmp_path):
    build.build_all(only=("libibverbs.so.1", "libtessera_hca.so"))
    folder = build.NATIVE / "libibverbs"
    program = c_programs.compile_program(
        *(tmp_path, "hca_memory", f"-L{build.LIBRARIES / build.RDMA}", "-libverbs"),
        *(f"-I{folder}", f"-I{folder / 'generated'}", f"-I{build.INCLUDE}"),
    )
    done = subprocess.run(
        run_hca(tmp_path, str(program)),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    no, bad, gone = errno.EOPNOTSUPP, errno.EINVAL, errno.EFAULT
    assert done.stdout.splitlines() == [
        "heap 1 1 1 same 1 distinct 1",
        "dereg 0 0 same 1 shared 0",
        "overlap 1 1 middle",
        "dereg 0 shared 0",
        "remapped 1 fresh dereg 0 fresh",
        f"shared {no} hole {gone} stack {no} code {no} nothing {bad} odp {no}",
        f"fork {bad} shared 0",
        "close 0 0",
    ]
    assert done.returncode == 0
    for text in ("shared memory cannot be registered", "access flags 0x41 are not supported"):
        assert text in done.stderr
