"""rdma_cm between runs: Debian's unmodified programs, and calls that they do not make."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.processes.tessera_run import environment, processes_naming
from support.programs.rdmacm_tools import INSTALL, Serving, both, perftest, skip_without
from support.programs.verbs_tools import alone, run_hca
from vgpu_sim import config
from vgpu_sim.native import build

HEADER = Path("/usr/include/rdma/rdma_cma.h")
# A sitecustomize.py, by which an hcad has no features, like an older version.
WITHOUT_FEATURES = """
import sys
from pathlib import Path

if "hca.daemon" in sys.orig_argv:
    import hca.daemon.programs.opened_function

    hca.daemon.programs.opened_function.FEATURES = 0
    (Path(__file__).parent / "older").touch()
"""
CALLS = Path(__file__).parents[2] / "abi" / "programs" / "verbs" / "rdmacm_calls.c"


def test_what_the_tests_need_is_named():
    assert INSTALL.startswith("apt-get install ")


@skip_without("mckey")
def test_a_group_receives_what_is_sent_to_it(tmp_path):
    command = "exec mckey -m 239.1.1.1 -C 20 -b $TESSERA_HCA_ADDRESS"
    listener = ("sh", "-c", command)
    # mckey's sender destroys its queue pair without waiting for its sends, so hcad sends only what it
    # has seen by then. On a busy machine that may not be all.
    for name in ("groups", "groups-again", "groups-at-last"):
        # its receive requests are posted before it joins the group
        with Serving(tmp_path, name, *listener, awaited="ibv_attach_mcast") as serving:
            sent = serving.client("sh", "-c", f"{command} -s")
            assert sent.status == 0, sent.said
            with contextlib.suppress(subprocess.TimeoutExpired):
                received = serving.end(20)
                break
    else:
        pytest.fail("not all of twenty datagrams arrived, three times")
    assert (received.status, "data transfers complete" in received.said) == (0, True), received.said


@skip_without("rping")
@pytest.mark.parametrize("how", [(), ("-q",)], ids=["library's queue pair", "own queue pair"])
def test_rping(tmp_path, how):
    served, requester = both(
        tmp_path,
        ("rping", "-s", "-C", "3", "-v", *how),
        ("rping", "-c", "-a", "127.0.0.1", "-C", "3", "-v", *how),
    )
    for said in (served, requester):
        assert len(re.findall(r"ping data: rdma-ping-\d: [!-~]{40}", said)) == 3, said


@skip_without("rping")
def test_a_function_s_own_address_reaches_it_and_another_reaches_none(tmp_path):
    with Serving(tmp_path, "cm", "sh", "-c", "rping -s -C 1 -a $TESSERA_HCA_ADDRESS") as serving:
        absent = serving.client("rping", "-c", "-C", "1", "-a", "198.18.0.77")
        assert "ADDR_ERROR, error -113" in absent.said
        assert serving.client("rping", "-c", "-C", "1", "-a", "198.18.0.1").status == 0
        assert serving.end().status == 0


@skip_without("rping")
def test_a_port_without_a_listener_rejects(tmp_path):
    done = alone(tmp_path, "rping", "-c", "-a", "localhost", "-C", "1")
    assert done.returncode != 0
    assert "RDMA_CM_EVENT_REJECTED, error 8" in done.stderr + done.stdout


@skip_without("ib_write_bw")
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_send_bw", "ib_read_bw"])
def test_perftest_connects_by_rdma_cm(tmp_path, program):
    requester = perftest(tmp_path, (program, "-R", "-F", "-n", "200"))
    assert re.search(r"rdma_cm QPs\s+: ON", requester)
    assert re.search(r"^ 65536 ", requester, re.MULTILINE)


@skip_without("ucmatose")
def test_ucmatose_with_many_connections(tmp_path):
    served, requester = both(
        tmp_path, ("ucmatose", "-c", "100"), ("ucmatose", "-s", "localhost", "-c", "100")
    )
    for said in (served, requester):
        assert "return status 0" in said
        assert "error" not in said


@skip_without("ucmatose")
def test_ucmatose_moves_ids_to_another_channel(tmp_path):
    served, requester = both(
        tmp_path, ("ucmatose", "-c", "5", "-m"), ("ucmatose", "-s", "127.0.0.1", "-c", "5", "-m")
    )
    assert "migrating" in served + requester
    assert "return status 0" in requester


@skip_without("rdma_server")
def test_endpoints_that_wait(tmp_path):
    served, requester = both(tmp_path, ("rdma_server",), ("rdma_client", "-s", "127.0.0.1"))
    assert "rdma_server: end 0" in served
    assert "rdma_client: end 0" in requester


@skip_without("udaddy")
def test_udaddy(tmp_path):
    with Serving(tmp_path, "cm", "udaddy", "-c", "3") as serving:
        requester = serving.client("udaddy", "-s", "127.0.0.1", "-c", "3")
        assert "return status 0" in requester.said
        assert "return status 0" in serving.end().said


@skip_without("rping")
def test_a_peer_that_is_killed_disconnects(tmp_path):
    with Serving(tmp_path, "cm", "rping", "-s", "-v", "-C", "1000000") as serving:
        pinger = subprocess.Popen(
            run_hca(
                *(tmp_path, "stdbuf", "-oL"),
                *("rping", "-c", "-v", "-C", "1000000", "-a", "127.0.0.1"),
                fabric="cm",
            ),
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert pinger.stdout is not None
            assert "rdma-ping" in pinger.stdout.readline()
            serving.process.send_signal(signal.SIGKILL)
            rest, _ = pinger.communicate(timeout=60)
        finally:
            pinger.kill()
            pinger.wait()
        assert "client DISCONNECT EVENT..." in rest
        assert pinger.returncode != -signal.SIGKILL


@skip_without("rping")
def test_no_program_that_waits_for_events_hangs_when_hcad_is_killed(tmp_path):
    with Serving(tmp_path, "cm", "rping", "-s", "-C", "1") as serving:
        (hcad,) = (
            pid for pid, command in processes_naming(str(tmp_path)) if "hca.daemon" in command
        )
        os.kill(hcad, signal.SIGKILL)
        ended = serving.end()
    assert ended.status != 0
    assert "rdma_get_cm_event: Input/output error" in ended.said


@pytest.mark.parametrize(
    ("command", "name"),
    [pytest.param(("rstream", "-s", "127.0.0.1"), "rsocket", marks=skip_without("rstream"))],
    ids=["rsockets"],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path, command, name):
    done = alone(tmp_path, "timeout", "20", *command)
    assert re.search(rf"^tessera: .*({name}).* (is not|are) supported", done.stderr, re.MULTILINE)


@pytest.mark.skipif(not HEADER.exists(), reason=f"NOT RUN: no {HEADER}: librdmacm-dev")
@pytest.mark.parametrize("features", ["all", "none"])
def test_calls_that_the_tools_do_not_make(tmp_path, features):
    """Also with an hcad that is older than the library and lacks batches."""
    program = tmp_path / "calls"
    libraries = config.RDMA_LIBRARIES_DIR
    subprocess.run(
        [
            *(build.compiler(), "-Wall", "-Werror", str(CALLS), "-o", str(program)),
            *(f"-L{libraries}", "-l:librdmacm.so.1", "-l:libibverbs.so.1"),
        ],
        check=True,
    )
    more = {}
    if features == "none":
        (tmp_path / "sitecustomize.py").write_text(WITHOUT_FEATURES)
        more["PYTHONPATH"] = str(tmp_path)
    done = subprocess.run(
        run_hca(tmp_path, str(program)),
        env=environment(tmp_path) | more,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "rsocket is not supported" in done.stderr
    assert (tmp_path / "older").exists() == (features == "none")


def test_without_an_hca_calls_fail_and_nothing_hangs(tmp_path):
    code = (
        "import ctypes, os; l = ctypes.CDLL('librdmacm.so.1', use_errno=True);"
        "l.rdma_create_event_channel.restype = ctypes.c_void_p;"
        "print(l.rdma_create_event_channel(), os.strerror(ctypes.get_errno()))"
    )
    bare = {"LD_LIBRARY_PATH": str(config.RDMA_LIBRARIES_DIR), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["python3", "-c", code], env=bare, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None No such device\n"
