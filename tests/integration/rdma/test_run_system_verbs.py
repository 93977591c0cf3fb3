"""Debian's programs with Debian's own libibverbs.so.1, which loads the simulated HCA as a
provider.
"""

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.processes.tessera_run import environment, tessera
from support.programs.verbs_tools import free_port, skip_without
from vgpu_sim.native import build, catalogue

VERBS_CLASS = Path("/sys/class/infiniband_verbs")
CANNOT_MOUNT = "tessera run: no /sys/class/infiniband"
pytestmark = pytest.mark.skipif(
    VERBS_CLASS.exists(),
    reason="NOT RUN: the kernel has RDMA drivers, and libibverbs queries those",
)


def run(temporary: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Execute a script in a run, with the system's libibverbs."""
    done = subprocess.run(
        tessera("run", "--hca", "--system-verbs", "--", "sh", "-c", script),
        env=environment(temporary),
        cwd=temporary,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    if CANNOT_MOUNT in done.stderr:
        assert (done.returncode, done.stdout) == (125, ""), "it runs without what it needs"
        pytest.skip("NOT RUN: no mounts are permitted here")
    return done


def between_two(program: str) -> str:
    """Return a script that runs a pingpong's server, and its client once the server listens."""
    port = free_port()
    program = f"timeout 60 {program} -g 1 -p {port}"
    listens = f"grep -qi ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6"
    return (
        f"{program} > server.txt & until {listens}; do sleep 0.05; done; "
        f"{program} localhost; status=$?; wait $!; exit $((status + $?))"
    )


@skip_without("ibv_devinfo")
def test_the_device_is_found_and_queried(tmp_path: Path) -> None:
    done = run(tmp_path, "ldd $(command -v ibv_devinfo); ibv_devinfo -v")
    assert done.returncode == 0, done.stderr
    library = re.search(r"libibverbs\.so\.1 => (\S+)", done.stdout)
    assert library is not None
    assert str(build.LIBRARIES) not in library[1]
    assert "hca_id:\ttessera_0" in done.stdout
    assert re.search(r"GID\[  1\]:\s+::ffff:198\.18\.\d+\.\d+, RoCE v2", done.stdout)
    assert done.stderr == ""


@skip_without("ibv_rc_pingpong")
@pytest.mark.parametrize("transport", ["rc", "ud", "srq"])
def test_pingpongs(tmp_path: Path, transport: str) -> None:
    done = run(tmp_path, between_two(f"ibv_{transport}_pingpong"))
    assert done.returncode == 0, done.stderr + (tmp_path / "server.txt").read_text()
    assert "1000 iters" in done.stdout
    assert "1000 iters" in (tmp_path / "server.txt").read_text()


@skip_without("ibv_rc_pingpong")
def test_channels_are_refused_and_do_not_seem_to_be_made(tmp_path: Path) -> None:
    """libibverbs would query the kernel for them, by a device file that does not exist."""
    done = run(tmp_path, "ibv_rc_pingpong -e")
    assert done.returncode != 0
    assert "Couldn't create completion channel" in done.stderr


@skip_without("ibv_devinfo")
def test_a_library_with_another_order_of_calls_is_refused(tmp_path: Path) -> None:
    """As if this libibverbs lacked the first call that the provider knows."""
    part = next(one for one in catalogue.parts() if one.library == "libtessera-rdmav34.so")
    folder = tmp_path / "provider"
    shutil.copytree(part.folder, folder)
    calls = folder / "operations.def"
    calls.write_text("OP(of_another_version)\n" + calls.read_text())
    flags = tuple(one.replace(str(part.folder), str(folder)) for one in part.flags)
    build.build(dataclasses.replace(part, folder=folder, flags=(*flags, "-O0")), tmp_path)
    other = tmp_path / part.subfolder / "libtessera"
    done = run(tmp_path, f"IBV_DRIVERS={other} ibv_devinfo")
    assert done.returncode != 0
    assert "another private interface" in done.stderr
