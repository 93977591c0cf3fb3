"""`kubectl tessera fault`, `doctor` and `bundle`: the requests sent, statuses and errors."""

import contextlib
import json
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from console.kubectl import access, entry
from console.support import checks, entry as support
from diagnosis.findings import FAIL, OK, Finding
from gpu_operator import errors
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec
from gpu_operator.kube.actions import Delete
from vgpu_sim.cli.doctor import bundle as support_bundle, command as doctor, host

Run = Callable[..., tuple[int, str, str]]


class Cluster:
    """Records what is written."""

    def __init__(self) -> None:
        self.faults: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.refusal: Exception | None = None
        self.verdicts: list[dict[str, Any]] = []

    async def list(self, kind: str, namespace: str | None = None) -> list[dict[str, Any]]:
        assert (kind, namespace) == ("GPUFault", None)
        return self.faults

    async def create(self, document: dict[str, Any]) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.faults.append(document)
        return document

    async def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        (found,) = (one for one in self.faults if one["metadata"]["name"] == name)
        return found | {"status": self.verdicts.pop(0)}

    async def perform(self, action: Delete) -> None:
        assert action.kind == "GPUFault"
        self.deleted.append(action.name)


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster without faults."""
    return Cluster()


@pytest.fixture
def run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs the plugin, and returns its status, output and errors."""

    @contextlib.asynccontextmanager
    async def connect(_: Any) -> AsyncIterator[Cluster]:
        yield cluster

    monkeypatch.setattr(access, "connect", connect)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            entry.main(arguments)
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, printed.err

    return call


def test_a_fault_is_created_as_the_custom_resource_demands(run: Run, cluster: Cluster) -> None:
    options = ("--node", "n1", "--index", "0", "--profile", "1g.10gb", "--start", "2", "--hang")
    status, text, _ = run("fault", "inject", *options, "--for", "30", "--name", "h", "--wait", "0")
    assert (status, text) == (0, "gpufault/h\n")
    (made,) = cluster.faults
    spec = GPUFaultSpec.model_validate(made["spec"])
    assert (spec.node_name, spec.index, spec.hang, spec.duration_seconds) == ("n1", 0, True, 30)
    assert spec.slice is not None
    assert (spec.slice.profile, spec.slice.start) == ("1g.10gb", 2)
    status, text, _ = run("fault", "inject", "--gpu", "g", "--ecc-uncorrected", "2", "--dry-run")
    assert len(cluster.faults) == 1, "--dry-run sends nothing"
    document = yaml.safe_load(text)
    assert document["spec"] == {"gpuName": "g", "ecc": {"uncorrected": 2}}
    assert (document["kind"], document["apiVersion"]) == ("GPUFault", "gpu.tessera.dev/v1alpha1")


@pytest.mark.parametrize(
    "options",
    [
        ("--gpu", "g"),
        ("--xid", "79"),
        ("--gpu", "g", "--node", "n", "--index", "0", "--xid", "79"),
        ("--gpu", "g", "--node", "n", "--xid", "79"),
        ("--gpu", "g", "--index", "0", "--xid", "79"),
        ("--node", "n", "--xid", "79"),
        ("--gpu", "g", "--xid", "79", "--hang"),
        ("--gpu", "g", "--ecc-corrected", "1", "--ecc-uncorrected", "1"),
        ("--gpu", "g", "--xid", "79", "--for", "3"),
        ("--gpu", "g", "--hang", "--start", "3"),
    ],
)
def test_a_contradiction_is_an_error_and_sends_nothing(
    run: Run, cluster: Cluster, options: tuple[str, ...]
) -> None:
    status, _, text = run("fault", "inject", *options)
    assert status == 1
    assert text.startswith("error: give") or " needs " in text
    assert not cluster.faults


def test_the_verdict_about_a_fault_decides_the_status(run: Run, cluster: Cluster) -> None:
    condition = {"type": "Accepted", "status": "False", "reason": "FaultRefused"}
    refused = {"phase": "Refused", "conditions": [condition | {"message": "unknown Xid 7"}]}
    cluster.verdicts = [{"phase": "Pending"}, refused]
    options = ("fault", "inject", "--gpu", "g", "--xid", "7", "--name", "a", "--wait", "5")
    assert run(*options) == (1, "", "error: gpufault/a is refused: FaultRefused: unknown Xid 7\n")
    cluster.faults[0]["status"] = refused
    assert "FaultRefused: unknown Xid 7" in run("fault", "list")[1]
    cluster.faults.clear()
    cluster.verdicts = [{"phase": "Injected"}]
    assert run(*options) == (0, "gpufault/a\n", "")
    cluster.faults.clear()
    cluster.verdicts = [{"phase": "Pending"}] * 9
    status, _, problem = run(*options[:-1], "1")
    assert status == 0
    assert "no verdict after 1 s" in problem


def test_faults_are_listed_and_cleared(run: Run, cluster: Cluster) -> None:
    assert run("fault", "list") == (0, "", "No faults found.\n")
    run("fault", "inject", "--gpu", "g1", "--xid", "79", "--name", "a", "--wait", "0")
    run("fault", "inject", "--gpu", "g2", "--off-bus", "--name", "b", "--wait", "0")
    cluster.faults[1]["status"] = {"gpu": "g2", "phase": "Active"}
    rows = [line.split() for line in run("fault", "list")[1].splitlines()]
    assert rows[1] == ["a", "g1", "-", "Xid", "79", "Pending", "-", "-"]
    assert rows[2] == ["b", "g2", "-", "offBus", "Active", "-", "-"]
    assert json.loads(run("fault", "list", "-o", "json")[1])["faults"][1]["phase"] == "Active"
    assert run("fault", "clear")[0] == 1
    assert run("fault", "clear", "none")[2] == "error: there is no GPUFault none\n"
    assert cluster.deleted == []
    assert run("fault", "clear", "gpufault/b")[1] == "gpufault/b deleted\n"
    run("fault", "clear", "--all")
    assert cluster.deleted == ["b", "a", "b"]


def test_a_refusal_is_one_line(run: Run, cluster: Cluster) -> None:
    cluster.refusal = errors.Refused("create GPUFault x: forbidden")
    assert run("fault", "inject", "--gpu", "g", "--hang") == (
        *(1, ""),
        "error: create GPUFault x: forbidden\n",
    )


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """Return a kubeconfig of a server that refuses connections."""
    contexts = [{"name": "main", "context": {"cluster": "c", "user": "u"}}]
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "main"}
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    parts = {"contexts": contexts, "clusters": [server], "users": [{"name": "u", "user": {}}]}
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document | parts))
    return str(file)


def test_without_an_answer_doctor_fails_and_states_why(run: Run, kubeconfig: str) -> None:
    status, text, _ = run("--kubeconfig", kubeconfig, "doctor", "-o", "json")
    assert status == 1
    (found,) = json.loads(text)["findings"]
    assert (found["check"], found["state"]) == ("access", FAIL)
    assert "127.0.0.1:1" in found["found"]
    assert run("--kubeconfig", f"{kubeconfig}-none", "doctor")[0] == 1


def test_the_status_of_doctor_follows_the_findings(
    run: Run, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = (
        Finding("cluster", "a", OK, "fine"),
        Finding("cluster", "b", FAIL, "no", "repair it"),
    )
    monkeypatch.setattr(checks, "check_all", lambda _: [good])
    assert run("--kubeconfig", kubeconfig, "doctor")[0] == 0
    monkeypatch.setattr(checks, "check_all", lambda _: [good, bad])
    status, text, _ = run("--kubeconfig", kubeconfig, "doctor")
    assert status == 1
    assert "-> repair it" in text


def test_a_bundle_states_what_could_not_be_read(run: Run, kubeconfig: str, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    status, text, _ = run("--kubeconfig", kubeconfig, "bundle", "-f", str(path))
    assert status == 0
    assert text.startswith(f"{path}: ")
    with tarfile.open(path) as packed:
        (name,) = (one for one in packed.getnames() if one.endswith("errors.txt"))
        content = packed.extractfile(name)
        assert content is not None
        assert "127.0.0.1:1" in content.read().decode()
    status, _, text = run("--kubeconfig", kubeconfig, "bundle", "-f", str(path))
    assert (status, text) == (1, f"error: {path}: File exists\n")


def test_without_a_kubeconfig_tessera_doctor_checks_no_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def connect(*_: Any) -> list[Finding]:
        raise errors.ConfigError("no access to a cluster: no file")

    monkeypatch.setattr(support, "check_cluster", connect)
    monkeypatch.setattr(support.connection, "has_kubeconfig", lambda: False)
    (found,) = support.check(None, None)
    assert found.state == OK
    assert "not checked" in found.found
    (found,) = support.check(tmp_path / "none", None)
    assert (found.state, found.found) == (FAIL, "no access to a cluster: no file")
    monkeypatch.setattr(support.connection, "has_kubeconfig", lambda: True)
    assert support.check(None, None)[0].state == FAIL


@pytest.mark.parametrize(
    "content", [None, b"garbage: [", b"[]", b"\xff\xfe", b"clusters: 7\ncontexts: x\n", b""]
)
def test_a_broken_kubeconfig_is_a_finding_and_a_line_of_the_bundle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr(host, "check_all", lambda **_: [Finding("host", "kernel", OK, "fine")])
    arguments = ["--kubeconfig", str(file)]
    result = CliRunner().invoke(doctor.command, arguments)
    assert result.exit_code == 1, result.output
    assert "ok    kernel" in result.output
    assert "fail  access  no access to a cluster: " in result.output
    path = tmp_path / "b.tar.gz"
    result = CliRunner().invoke(support_bundle.command, ["-f", str(path), *arguments])
    assert result.exit_code == 0, result.output
    assert path.exists()
    assert "the cluster's files are missing: no access to a cluster: " in result.output
