"""``tessera run --hca``: Debian's unmodified RDMA programs on the virtual HCA, without a cluster."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.processes.gpud_process import wait_until
from support.processes.tessera_run import environment, tessera
from support.programs.verbs_tools import (
    INSTALL,
    alone,
    find_hcad,
    free_port,
    hcad_of,
    listens,
    run_hca,
    skip_without,
    two_runs,
)
from vgpu_sim import config

FOLDERS = f"tessera-fabrics-{os.geteuid()}"


def fabrics(temporary: Path) -> list[Path]:
    """Return the folders of the existing fabrics."""
    folder = temporary / FOLDERS
    return sorted(folder.iterdir()) if folder.exists() else []


def test_what_the_tests_need_is_named():
    assert INSTALL.startswith("apt-get install ")


@skip_without("ibv_devices")
def test_ibv_devices_lists_one_and_nothing_stays(tmp_path):
    done = alone(tmp_path, "ibv_devices")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\s+tessera_0\s+007e55fffe120001$", done.stdout, re.MULTILINE)
    assert done.stderr == ""
    assert wait_until(lambda: not fabrics(tmp_path), 60)


@skip_without("ibv_devinfo")
def test_ibv_devinfo_knows_port_and_addresses(tmp_path):
    done = alone(tmp_path, "ibv_devinfo", "-v")
    assert done.returncode == 0, done.stderr
    for text in (
        *("hca_id:\ttessera_0", "board_id:\t\t\tTESSERA_VHCA", "PORT_ACTIVE (4)"),
        *("link_layer:\t\tEthernet", "GID[  1]:\t\t::ffff:198.18.0.1, RoCE v2"),
        *("max_qp:\t\t\t\t1024", "atomic_cap:\t\t\tATOMIC_GLOB (2)"),
    ):
        assert text in done.stdout
    assert done.stderr == ""


@skip_without("ibv_devices")
def test_without_an_hca_there_is_none(tmp_path):
    """The same library outside of a run, and with a socket that has no server."""
    bare = environment(tmp_path) | {"LD_LIBRARY_PATH": str(config.RDMA_LIBRARIES_DIR)}
    for extra in ({}, {"TESSERA_HCA": str(tmp_path / "none")}):
        done = subprocess.run(
            ["ibv_devices"], env=bare | extra, capture_output=True, text=True, check=False
        )
        assert "tessera_0" not in done.stdout
        assert done.returncode == 0
    assert "no HCA" in done.stderr


@skip_without("ibv_rc_pingpong")
@pytest.mark.parametrize("how", [(), ("-e",)], ids=["polled", "events"])
def test_ibv_rc_pingpong(tmp_path, how):
    client, server = two_runs(tmp_path, "ibv_rc_pingpong", "-g", "1", "-n", "200", "-c", *how)
    for said in (client, server):
        assert "200 iters in" in said
        assert "invalid data" not in said
    assert "GID ::ffff:198.18.0.1" in client
    assert "GID ::ffff:198.18.0.2" in client
    assert wait_until(lambda: not fabrics(tmp_path), 60)


@skip_without("ib_write_bw")
@pytest.mark.parametrize(
    "command",
    [
        ("ib_write_bw",),
        ("ib_send_bw",),
        ("ib_read_bw",),
        ("ib_write_lat", "-n", "50"),
        ("ib_send_bw", "-e", "-b", "-q", "4", "-n", "100", "--use_old_post_send"),
    ],
    ids=" ".join,
)
def test_perftest(tmp_path, command):
    """The first three run with the default flags, except for the check of the clock."""
    client, server = two_runs(tmp_path, *command, "-F")
    for said in (client, server):
        assert "tessera_0" in said
        assert "not supported" not in said
    assert re.search(r"^ (65536|2) ", client, re.MULTILINE)


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(tool, marks=skip_without(tool))
        for tool in ("ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
    ],
)
def test_the_other_pingpongs(tmp_path, tool):
    for said in two_runs(tmp_path, tool, "-g", "1", "-n", "200"):
        assert "200 iters in" in said


@skip_without("ib_atomic_bw")
@pytest.mark.parametrize(
    "command",
    [
        ("ib_atomic_bw",),
        ("ib_atomic_bw", "-A", "CMP_AND_SWAP"),
        ("ib_atomic_lat",),
        ("ib_read_lat",),
        ("ib_send_lat",),
        ("ib_send_bw", "-c", "UD"),
        ("ib_send_bw", "-c", "UC"),
        ("ib_send_lat", "-c", "UD"),
        ("ib_write_bw", "-c", "UC"),
        ("ib_write_lat", "-c", "UC"),
        ("ib_send_bw", "--use-srq", "-q", "2"),
    ],
    ids=" ".join,
)
def test_perftest_of_the_other_kinds(tmp_path, command):
    for said in two_runs(tmp_path, *command, "-F", "-n", "100"):
        assert "tessera_0" in said
        assert "not supported" not in said


@skip_without("ibstat")
def test_ibstat(tmp_path):
    done = alone(tmp_path, "ibstat")
    if "no /sys/class/infiniband" in done.stderr:
        pytest.skip(f"NOT RUN: this kernel permits no namespaces: {done.stderr}")
    assert done.returncode == 0, done.stderr
    for text in ("CA 'tessera_0'", "CA type: TESSERA_VHCA", "State: Active", "Rate: 100"):
        assert text in done.stdout


@skip_without("ibv_xsrq_pingpong")
def test_what_is_not_supported_says_so(tmp_path):
    """The program loads the library, finds the device, and then fails."""
    done = alone(tmp_path, "timeout", "20", "ibv_xsrq_pingpong", "-g", "1")
    assert done.returncode == 1, done.stdout
    assert "failed" in done.stderr.lower() or "couldn't" in done.stderr.lower()


@pytest.mark.parametrize(
    "tool",
    [pytest.param(tool, marks=skip_without(tool)) for tool in ("ib_atomic_bw", "ib_send_lat")],
)
def test_programs_with_drivers_linked_in_are_loaded(tmp_path, tool):
    done = alone(tmp_path, tool, "--version")
    assert "Version: " in done.stdout
    assert done.stderr == ""


@skip_without("ib_write_bw")
def test_a_killed_peer_is_an_error_and_not_a_hang(tmp_path):
    """The peer's program is killed while data flows: the other program gets an error completion."""
    port = free_port()
    full = ("stdbuf", "-oL", "ib_write_bw", "-F", "-D", "3600", "-p", str(port))
    server = subprocess.Popen(
        run_hca(tmp_path, *full, fabric="k"),
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    client = None
    try:
        assert wait_until(lambda: listens(port), 60)
        client = subprocess.Popen(
            run_hca(tmp_path, *full, "127.0.0.1", fabric="k"),
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert client.stdout is not None
        while not client.stdout.readline().startswith(" #bytes"):
            assert client.poll() is None
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        said, _ = client.communicate(timeout=60)
    finally:
        for process in (server, *([client] if client else [])):
            process.kill()
            process.wait()
    assert client.returncode != 0
    assert "status 12" in said or "transport retry counter exceeded" in said, said


@skip_without("ibv_asyncwatch")
def test_no_program_hangs_when_hcad_is_killed(tmp_path):
    program = subprocess.Popen(
        run_hca(tmp_path, "ibv_asyncwatch", fabric="dead"),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert "tessera_0" in program.stdout.readline()
        os.kill(hcad_of(tmp_path), signal.SIGKILL)
        program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()
    assert program.returncode not in (0, -signal.SIGKILL)


def test_an_idle_hcad_uses_no_cpu_and_little_memory(tmp_path):
    program = subprocess.Popen(run_hca(tmp_path, "sleep", "600"), env=environment(tmp_path))
    try:
        assert wait_until(lambda: find_hcad(tmp_path) and len(fabrics(tmp_path)) == 1, 60)
        process = Path("/proc") / str(hcad_of(tmp_path))

        def ticks() -> int:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            return sum(map(int, fields[11:13]))

        def is_idle() -> bool:
            """hcad may still be starting, on a busy machine."""
            before = ticks()
            time.sleep(2)
            return ticks() - before <= 2

        assert wait_until(is_idle, 60)
        pss = re.search(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE)
        assert pss is not None
        assert int(pss[1]) <= 50 << 10
    finally:
        program.send_signal(signal.SIGTERM)
        program.wait(60)
    assert wait_until(lambda: not fabrics(tmp_path), 60)


def test_tools_find_the_device_in_sysfs_and_the_rest_of_it(tmp_path):
    script = "cat /sys/class/infiniband/*/ports/1/gids/1 && cat /sys/class/net/lo/address && id -u"
    done = alone(tmp_path, "sh", "-c", script)
    if "no /sys/class/infiniband" in done.stderr:
        pytest.skip(f"NOT RUN: this kernel permits no namespaces: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "0000:0000:0000:0000:0000:ffff:c612:0001",
        "00:00:00:00:00:00",
        str(os.geteuid()),
    ]
    assert not Path("/sys/class/infiniband/tessera_0").exists(), "for the program alone"


@skip_without("ibv_devices")
def test_where_namespaces_are_refused_it_says_so_and_runs(tmp_path):
    none = "echo 0 > /proc/sys/user/max_user_namespaces; echo 0 > /proc/sys/user/max_mnt_namespaces"
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", f'{none}; exec "$@"', "", *run_hca(tmp_path, "ibv_devices")],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip(f"NOT RUN: this kernel permits no user namespace: {done.stderr}")
    assert "tessera_0" in done.stdout
    assert re.fullmatch(r"tessera run: no /sys/class/infiniband: .*\n", done.stderr)


def test_a_private_fabric_reaches_no_other_and_names_are_checked(tmp_path):
    done = alone(tmp_path, "sh", "-c", "echo $TESSERA_HCA")
    assert f"/{FOLDERS}/run-" in done.stdout
    for name in ("../x", "", "a" * 33, ".x", "x/y"):
        refused = subprocess.run(
            tessera("run", "--hca", "--fabric", name, "--", "true"),
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 2, name
