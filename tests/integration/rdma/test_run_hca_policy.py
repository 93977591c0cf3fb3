"""Policy without a cluster: it denies Debian's unmodified programs, and revokes running ones."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hca.contract.verbs import VerbsStatus
from support.processes.gpud_process import wait_until
from support.processes.tessera_run import environment, tessera
from support.programs.verbs_tools import (
    WITH_ITS_RUN,
    compile_with_librdmacm,
    free_port,
    listens,
    skip_without,
)

EXAMPLES = Path(__file__).parents[3] / "examples" / "rdma"
CLOSED = """
apiVersion: rdma.tessera.dev/v1alpha1
kind: RDMANetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {app: weights}}, policyTypes: [Ingress, Egress]}
"""

BY_SERVICE = """
apiVersion: rdma.tessera.dev/v1alpha1
kind: RDMANetworkPolicy
metadata: {name: by-service}
spec:
  podSelector: {matchLabels: {app: weights}}
  ingress:
  - {verbs: [CM, Read]}
  - {verbs: [Write], ports: [{serviceID: 7000, space: TCP}]}
"""


def labelled_run(fabric: str, *options: str | Path) -> list[str]:
    """Return the command of a run on a fabric, to which its program is appended."""
    return [*tessera("run", "--hca", "--fabric", fabric, *map(str, options)), "--", *WITH_ITS_RUN]


def said_to(fabric: str, verb: str, temporary: Path, *more: str | Path) -> tuple[int, str]:
    """Run ``tessera rdma policy``; return its status and what it printed."""
    done = subprocess.run(
        tessera("rdma", "policy", verb, "--fabric", fabric, *map(str, more)),
        env=environment(temporary),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@contextmanager
def serving(
    temporary: Path, fabric: str, *command: str, options: tuple[str | Path, ...] = ()
) -> Iterator[int]:
    """Start a program that waits for its peer, in a run with the label app=weights; yield its
    port.
    """
    port = free_port()
    server = subprocess.Popen(
        [
            *labelled_run(fabric, "--rdma-labels", "app=weights", *options),
            *command,
            "-p",
            str(port),
        ],
        env=environment(temporary),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_until(lambda: listens(port), 60)
        yield port
    finally:
        server.terminate()
        server.wait(60)


@contextmanager
def staying(temporary: Path, fabric: str, *options: str | Path) -> Iterator[None]:
    """Keep a fabric alive by a run that does nothing."""
    run = subprocess.Popen(
        [*labelled_run(fabric, *options), "sh", "-c", "echo there; exec sleep 300"],
        env=environment(temporary),
        stdout=subprocess.PIPE,
    )
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == b"there\n"
        yield
    finally:
        run.terminate()
        run.communicate(timeout=60)


@skip_without("ib_write_bw")
def test_a_denied_write_is_an_access_error_and_a_read_passes(tmp_path):
    """The demonstration in the README: the example's policy, and two unmodified programs."""
    ends = {}
    with staying(tmp_path, "d", "--rdma-policy", EXAMPLES / "deny-writes.yaml"):
        for program in ("ib_read_bw", "ib_write_bw"):
            with serving(tmp_path, "d", program, "-F") as port:
                ends[program] = subprocess.run(
                    [*labelled_run("d"), program, "-F", "-p", str(port), "127.0.0.1"],
                    env=environment(tmp_path),
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
        status, said = said_to("d", "status", tmp_path)
    assert status == 0, said
    (rule,) = json.loads(said)["rules"]
    assert (rule["policy"], rule["denied"]) == ("default/deny-writes", 1)
    assert rule["operations"] == 1000, "reads"
    assert wait_until(lambda: not list(tmp_path.glob("tessera-fabrics-*/*")), 60)
    assert ends["ib_read_bw"].returncode == 0, ends["ib_read_bw"].stdout
    assert ends["ib_write_bw"].returncode != 0
    assert "Failed status 10" in ends["ib_write_bw"].stdout + ends["ib_write_bw"].stderr


@skip_without("ib_write_bw")
def test_a_policy_that_comes_while_data_flows_revokes_and_one_that_goes_admits(tmp_path):
    manifest = tmp_path / "closed.yaml"
    manifest.write_text(CLOSED)
    command = ("stdbuf", "-oL", "ib_write_bw", "-F", "-D", "60")
    with staying(tmp_path, "r"), serving(tmp_path, "r", *command) as port:
        client = subprocess.Popen(
            [*labelled_run("r"), *command, "-p", str(port), "127.0.0.1"],
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert client.stdout is not None
            while not client.stdout.readline().startswith(" #bytes"):
                assert client.poll() is None
            time.sleep(0.2)
            status, said = said_to("r", "apply", tmp_path, "-f", manifest)
            assert (status, said) == (0, "generation 1: 2 queue pairs revoked, 0 may do less\n")
            printed, _ = client.communicate(timeout=60)
        finally:
            client.kill()
            client.wait()
        assert client.returncode != 0
        assert "Failed status 5" in printed, "flushed"
        status, said = said_to("r", "delete", tmp_path, "-f", manifest)
        assert (status, said) == (0, "generation 2: 0 queue pairs revoked, 0 may do less\n")
    with serving(tmp_path, "r", "ib_write_bw", "-F") as port:
        again = subprocess.run(
            [*labelled_run("r"), "ib_write_bw", "-F", "-p", str(port), "127.0.0.1"],
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    assert again.returncode == 0


@skip_without("ib_write_bw")
def test_who_is_wholly_denied_cannot_connect(tmp_path):
    manifest = tmp_path / "closed.yaml"
    manifest.write_text(CLOSED)
    with serving(tmp_path, "c", "ib_write_bw", "-F", options=("--rdma-policy", manifest)) as port:
        done = subprocess.run(
            [*labelled_run("c"), "ib_write_bw", "-F", "-p", str(port), "127.0.0.1"],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode != 0
    assert "Failed to modify QP" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("client", "server", "status", "memory"),
    [
        ("honest", "accepts", VerbsStatus.SUCCESS, "WRITTEN!"),
        ("plain", "ignores", VerbsStatus.REM_ACCESS_ERR, ""),
        ("evil", "ignores", VerbsStatus.REM_ACCESS_ERR, ""),
        ("evil", "accepts", VerbsStatus.REM_ACCESS_ERR, ""),
    ],
)
def test_a_connection_that_did_not_come_by_a_service_does_not_use_its_rule(
    tmp_path, client, server, status, memory
):
    """Two unprivileged programs, which use only librdmacm and libibverbs."""
    manifest = tmp_path / "by-service.yaml"
    manifest.write_text(BY_SERVICE)
    program = str(compile_with_librdmacm(tmp_path, "rdmacm_service"))
    options = ("--rdma-labels", "app=weights", "--rdma-policy", manifest)
    serving = subprocess.Popen(
        [*labelled_run("s", *options), program, server],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert wait_until(lambda: (tmp_path / "victim").exists(), 60)
        query = subprocess.run(
            [*labelled_run("s"), program, client],
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert query.stdout.splitlines()[-1] == f"status {status}", query.stdout + query.stderr
        said, _ = serving.communicate(timeout=60)
    finally:
        serving.kill()
        serving.wait()
    assert said == f"memory '{memory}'\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Pod\nmetadata: {name: x}", "'Pod' is neither"),
        (CLOSED.replace("podSelector", "podSelectors"), "podSelector"),
        (CLOSED.replace("Ingress, Egress", "Sideways"), "Sideways"),
        ("- 1", "not a Kubernetes object"),
        ("a: [", "expected"),
    ],
)
def test_a_manifest_that_says_nothing_to_enforce_is_named_and_nothing_starts(tmp_path, text, why):
    manifest = tmp_path / "wrong.yaml"
    manifest.write_text(text)
    done = subprocess.run(
        [*labelled_run("w", "--rdma-policy", manifest), "true"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert why in done.stderr
    assert str(manifest) in done.stderr
    assert not list(tmp_path.glob("tessera-fabrics-*/*"))


@pytest.mark.parametrize("labels", ["app", "a b=c", "=x", "app=" + "x" * 64, "/a=b"])
def test_labels_are_those_of_kubernetes(tmp_path, labels):
    done = subprocess.run(
        [*labelled_run("w", "--rdma-labels", labels), "true"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "expected a label KEY=VALUE" in done.stderr


def test_options_for_policy_need_an_hca_and_a_fabric_with_members(tmp_path):
    done = subprocess.run(
        tessera("run", "--rdma-labels", "a=b", "--board", "a30", "--slice", "1g.6gb", "--", "true"),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "need --hca" in done.stderr
    status, said = said_to("absent", "status", tmp_path)
    assert status == 1
    assert "fabric 'absent' has no members: `tessera run --hca --fabric absent` puts" in said
    assert not os.path.exists(tmp_path / f"tessera-fabrics-{os.geteuid()}" / "absent")
