"""``tessera doctor`` and ``tessera support-bundle``: each state of each check, and their outputs."""

import json
import os
import resource
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from diagnosis.findings import FAIL, OK, WARN, Finding, to_lines
from vgpu_sim import config
from vgpu_sim.cli.doctor import bundle, cluster, command, host, node
from vgpu_sim.cli.main import main
from vgpu_sim.worker.sandbox import Level

GOOD = Finding("host", "kernel", OK, "fine")
BAD = Finding("host", "memory", FAIL, "none", "buy some")


def doctor(monkeypatch: pytest.MonkeyPatch, found: list[Finding], *arguments: str) -> Result:
    monkeypatch.setattr(host, "check_all", lambda compute=True: found)
    monkeypatch.setattr(node, "is_node", lambda: False)
    monkeypatch.setattr(cluster, "check_all", lambda *_: [])
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_the_status_follows_the_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor(monkeypatch, [GOOD]).exit_code == 0
    assert doctor(monkeypatch, [Finding("host", "x", WARN, "slow", "y")]).exit_code == 0
    result = doctor(monkeypatch, [GOOD, BAD])
    assert result.exit_code == 1
    assert "-> buy some" in result.output


def test_documents_have_every_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(doctor(monkeypatch, [GOOD, BAD], "-o", "json").output)
    assert document["ok"] is False
    assert document["findings"][1]["remedy"] == "buy some"
    assert yaml.safe_load(doctor(monkeypatch, [GOOD, BAD], "-o", "yaml").output) == document
    assert next(iter(to_lines([GOOD]))) == "host:"


def test_control_sequences_of_the_cluster_do_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = Finding("cluster", "kernels", WARN, "n1 5.4\x1b]0;x\x07", "g\u202e0\x1b[2J")
    for form in ("text", "json", "yaml"):
        output = doctor(monkeypatch, [hostile], "-o", form).output
        assert "n1 5.4" in output
        assert not {"\x1b", "\x07", "\u202e"} & set(output), form


def test_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def state(system: str, release: str, machine: str) -> str:
        fake = SimpleNamespace(
            system=lambda: system, release=lambda: release, machine=lambda: machine
        )
        monkeypatch.setattr(host, "platform", fake)
        return host.check_kernel().state

    assert state("Linux", "6.1.0-18-amd64", "x86_64") == OK
    assert state("Linux", "5.4.0", "x86_64") == WARN
    assert state("Darwin", "23.1.0", "arm64") == FAIL


def mount_noexec(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = SimpleNamespace(f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(host.os, "statvfs", lambda _: flags)


def test_noexec_folders_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert host.check_libraries(tmp_path).remedy.startswith("build it")
    (tmp_path / "libcuda.so.1").touch()
    assert host.check_libraries(tmp_path).state == OK
    assert host.check_temporary_folder(tmp_path).state == OK
    assert node.check_state_folder(tmp_path / "not" / "there").state in (OK, WARN)
    mount_noexec(monkeypatch)
    assert host.check_libraries(tmp_path).state == FAIL
    assert host.check_temporary_folder(tmp_path).state == WARN
    assert node.check_state_folder(tmp_path).state == FAIL


@pytest.mark.parametrize(
    ("level", "state"),
    [
        (Level(own_user=True, seccomp=True, landlock=True, no_new_privileges=True), OK),
        (Level(), FAIL),
    ],
)
def test_the_sandbox(monkeypatch: pytest.MonkeyPatch, level: Level, state: str) -> None:
    monkeypatch.setattr(host.sandbox, "probe", lambda _: level)
    found = host.check_sandbox()
    assert found.state == state, found
    assert ("gpud.allowWeakSandbox" in found.remedy) == (state == FAIL)


@pytest.mark.parametrize(("scope", "state"), [("0", OK), ("1", OK), ("2", WARN), ("3", WARN)])
def test_ptrace(tmp_path: Path, scope: str, state: str) -> None:
    file = tmp_path / "ptrace_scope"
    assert host.check_ptrace(file).state == OK
    file.write_text(f"{scope}\n")
    assert host.check_ptrace(file).state == state


def test_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits = {resource.RLIMIT_AS: (1 << 30, 1 << 30), resource.RLIMIT_NOFILE: (256, 4096)}
    monkeypatch.setattr(host.resource, "getrlimit", lambda which: limits[which])
    assert host.check_address_space().state == FAIL
    assert "ulimit -n 4096" in host.check_files().remedy
    limits[resource.RLIMIT_AS] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    strict = tmp_path / "overcommit_memory"
    strict.write_text("2\n")
    assert host.check_address_space(strict).state == WARN
    strict.write_text("0\n")
    assert host.check_address_space(strict).state == OK


def test_memory(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n")
    assert host.check_memory(file, ()).state == OK
    file.write_text("MemTotal:       16777216 kB\nMemAvailable:     524288 kB\n")
    assert "--budget" in host.check_memory(file, ()).remedy


def test_a_run_folder_needs_a_short_path(tmp_path: Path) -> None:
    assert host.check_run_folder([Path("/tmp")]).state == OK
    long = tmp_path / ("x" * 100)
    long.mkdir()
    assert host.check_run_folder([long, tmp_path / "none"]).state == FAIL
    assert not list(long.iterdir())


def test_programs_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        host.shutil, "which", lambda name: "/bin/kubectl" if name == "kubectl" else None
    )
    assert "gcc" in host.check_c_compiler().remedy
    assert "PATH" in host.check_kubectl_plugin().remedy
    monkeypatch.setattr(host.shutil, "which", lambda name: f"/bin/{name}")
    assert host.check_c_compiler().state == OK
    assert host.check_kubectl_plugin().state == OK


def test_what_a_failing_program_prints_is_the_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(done: Any) -> Finding:
        monkeypatch.setattr(host.subprocess, "run", lambda *_, **__: done)
        return host.check_compute()

    assert run(SimpleNamespace(returncode=0, stdout="verified\n", stderr="")).found == "verified"
    found = run(SimpleNamespace(returncode=125, stdout="", stderr="a\ntessera run: no slice\n"))
    assert (found.state, found.found) == (FAIL, "status 125: tessera run: no slice")


def test_control_groups(tmp_path: Path) -> None:
    assert node.check_cgroups(tmp_path).state == WARN
    (tmp_path / "cgroup.controllers").write_text("cpu io\n")
    assert "memory" in node.check_cgroups(tmp_path).found
    (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
    assert node.check_cgroups(tmp_path).state == OK
    (tmp_path / "cgroup.controllers").unlink()
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "cgroup.procs").touch()
    assert node.check_cgroups(tmp_path).found == "version 1"


@pytest.mark.parametrize(
    ("version", "text", "state"),
    [
        ("containerd github.com/containerd/containerd v2.1.3 abc", "", OK),
        ("containerd github.com/containerd/containerd v1.7.2 abc", "", FAIL),
        (
            "containerd containerd.io 1.7.20 abc",
            '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n',
            OK,
        ),
        (
            "containerd github.com/containerd/containerd/v2 v2.0.1 abc",
            '[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false\n',
            FAIL,
        ),
        ("", "", OK),
    ],
)
def test_containerd(tmp_path: Path, version: str, text: str, state: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    assert node.check_containerd(version, file).state == state


def test_the_bundle_has_names_of_variables_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = "hunter2-planted"
    home = str(Path("~").expanduser())
    variables = {"TESSERA_RUN_DIR": secret, "CUDA_X": secret, "AWS_SECRET_ACCESS_KEY": secret}
    monkeypatch.setattr(config, "own_environment", lambda: variables)
    found = [Finding("host", "cache", OK, f"{home}/.cache, password={secret}")]
    monkeypatch.setattr(host, "check_all", lambda: found)
    monkeypatch.setattr(node, "is_node", lambda: False)
    path = tmp_path / "b.tar.gz"
    result = CliRunner().invoke(bundle.command, ["-f", str(path), "--no-cluster"])
    assert result.exit_code == 0, result.output
    with tarfile.open(path) as packed:
        files = {}
        for name in packed.getnames():
            content = packed.extractfile(name)
            assert content is not None
            files[name.partition("/")[2]] = content.read().decode()
    assert sorted(files) == [
        "README.txt",
        "host/doctor.json",
        "host/variables.txt",
        "host/versions.txt",
    ]
    assert files["host/variables.txt"] == "CUDA_X\nTESSERA_RUN_DIR\n"
    assert "numpy" in files["host/versions.txt"]
    whole = "".join(files.values())
    assert secret not in whole
    assert f"{home}/" not in whole
    assert json.loads(files["host/doctor.json"])["findings"][0]["found"].startswith("~/.cache")


def test_a_user_without_a_home_gets_a_bundle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setattr(node, "is_node", lambda: False)
    path = tmp_path / "b.tar.gz"
    result = CliRunner().invoke(bundle.command, ["-f", str(path), "--no-cluster"])
    assert result.exit_code == 0, result.output
    assert tarfile.is_tarfile(path)


def test_yaml_of_a_framework_is_refused() -> None:
    result = CliRunner().invoke(command.command, ["--framework", "torch", "-o", "yaml"])
    assert result.exit_code == 2
    assert "-o json" in result.output
