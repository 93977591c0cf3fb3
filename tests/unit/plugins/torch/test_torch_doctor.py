"""The doctor's checks, in environments made for each, without PyTorch."""

import importlib.metadata
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tessera_torch import settings
from tessera_torch.doctor import __main__, finding, packages, process
from tessera_torch.doctor.finding import ERROR, OK, WARNING, Finding

PLUGIN = Path(settings.__file__).parents[1]


def give_versions(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.parametrize(
    ("versions", "state", "remedy"),
    [
        ({}, ERROR, "pip install torch"),
        ({"torch": "2.15.0+cpu"}, ERROR, "PyPI"),
        ({"torch": "2.14.1"}, WARNING, "2.15"),
        ({"torch": "2.15.3"}, OK, ""),
        ({"torch": "2.15.0+cu132"}, OK, ""),
    ],
)
def test_the_wheel(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], state: str, remedy: str
) -> None:
    give_versions(monkeypatch, **versions)
    found = packages.check_wheel()
    assert found.state == state
    assert remedy in found.remedy


def test_the_plug_in_is_found_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (settings.SWITCH_VARIABLE, settings.AUTOLOAD_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(str(PLUGIN))
    assert packages.check_entry_point().state == OK
    for variable in (settings.SWITCH_VARIABLE, settings.AUTOLOAD_VARIABLE):
        with monkeypatch.context() as one:
            one.setenv(variable, "0")
            assert packages.check_entry_point().remedy == f"unset {variable}"
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    assert str(PLUGIN) in packages.check_entry_point().remedy


def test_without_a_compiler_triton_needs_its_cached_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    give_versions(monkeypatch)
    assert packages.check_compiler().remedy == "pip install triton"
    give_versions(monkeypatch, triton="3.9.0")
    found = packages.check_compiler()
    assert (found.state, "no C compiler" in found.found) == (ERROR, True)
    suffix = packages.sysconfig.get_config_var("EXT_SUFFIX")
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / f"cuda_utils{suffix}").touch()
    assert packages.check_compiler().state == OK


def test_a_cache_that_others_can_write_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert packages.check_cache("Triton", folder).state == OK  # will be made
    folder.mkdir(mode=0o700)
    assert packages.check_cache("Triton", folder).state == OK
    folder.chmod(0o777)
    found = packages.check_cache("Triton", folder)
    assert f"others can write {folder} (mode 777)" in found.found
    assert found.remedy.startswith(f"remove {folder}")


def test_triton_is_directed_unless_the_user_directs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ptxas = tmp_path / "ptxas"
    ptxas.touch()
    monkeypatch.setattr(settings, "PTXAS", ptxas)
    monkeypatch.setenv("TRITON_HOME", "/proc/no-home")  # no user can write there
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/own/ptxas")
    for variable in ("TRITON_LIBCUDA_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, "")  # restored after the test
        monkeypatch.delenv(variable)
    monkeypatch.setattr(os, "access", lambda path, mode: "/proc" not in str(path))
    settings.direct_triton("/usr/lib64/libcuda.so.1")
    assert os.environ["TRITON_LIBCUDA_PATH"] == "/usr/lib64"
    assert os.environ["TRITON_PTXAS_PATH"] == "/own/ptxas"
    assert os.environ["TRITON_PTXAS_BLACKWELL_PATH"] == str(ptxas)
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "triton")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_cache_of_another_user_is_an_error(tmp_path: Path) -> None:
    os.chown(tmp_path, 4711, 4711)
    found = packages.check_cache("Inductor", tmp_path)
    assert "uid 4711" in found.found
    assert "TORCHINDUCTOR_CACHE_DIR" in found.remedy


def maps_of(*paths: Path) -> list[str]:
    return [f"7f00-7f10 r-xp 00000000 00:1f 42  {path}\n" for path in paths]


def test_the_library_that_wins_is_tesseras_or_is_named(tmp_path: Path) -> None:
    def library(folder: str, name: str, content: bytes) -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    mark = b"..TESSERA_SLICES_DIR.."
    driver = library("ours", "libcuda.so.1", mark)
    ours = library("ours", "libcublas.so.13", mark)
    theirs = library("theirs", "libcublas.so.13", b"theirs")
    good = process.check_libraries(process.list_libraries(maps_of(driver, ours, theirs)))
    assert [one.state for one in good] == [OK]
    bad = process.check_libraries(process.list_libraries(maps_of(driver, theirs)))
    assert [one.state for one in bad] == [OK, ERROR]
    assert bad[1].found == f"not Tessera's: libcublas, from {theirs.parent}"
    assert "--preload" in bad[1].remedy
    none = process.check_libraries(process.list_libraries(maps_of(ours)))
    assert none[0].found == "no libcuda.so.1 is loaded"


def test_the_output_names_each_remedy_and_the_status_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Finding("cache", ERROR, "is bad", "repair it")
    monkeypatch.setattr(packages, "check_all", lambda: [Finding("torch", OK, "2.15.0"), bad])
    monkeypatch.setattr(__main__, "_check_in_child", lambda environment: [])
    assert __main__.main([]) == 1
    assert "repair it" in capsys.readouterr().out
    assert __main__.main(["-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["findings"][1]["remedy"]) == (False, "repair it")
    monkeypatch.setattr(packages, "check_all", lambda: [Finding("torch", WARNING, "2.14")])
    assert __main__.main(["-o", "json"]) == 0
    assert finding.has_error([bad])


def run_with(torch: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor with a module of PyTorch's name."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(torch)
    metadata = folder / "torch-2.15.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n")
    return subprocess.run(
        [sys.executable, "-m", "tessera_torch.doctor", "-o", "json"],
        env={**os.environ, "PYTHONPATH": f"{PLUGIN}:{folder}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_that_dies_with_pytorch_is_a_finding(tmp_path: Path) -> None:
    done = run_with("import os; os.abort()", tmp_path)
    assert done.returncode == 1, done.stderr
    last = json.loads(done.stdout)["findings"][-1]
    assert (last["check"], last["state"]) == ("import", ERROR)
    assert "status -6" in last["found"]


def test_what_other_modules_print_is_no_finding(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('{hello}')")
    done = run_with("print('hello')", tmp_path)
    findings = json.loads(done.stdout.partition("\n")[2])["findings"]
    assert [one["state"] for one in findings if one["check"] == "import"] == [OK], findings
    assert findings[-1]["check"] == "operators"


@pytest.mark.parametrize("mode", [0o777, 0o700])
def test_nothing_in_a_bad_cache_is_executed(tmp_path: Path, mode: int) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)
    witness = tmp_path / "witness"
    names = "os.environ['TRITON_CACHE_DIR'], os.environ['TORCHINDUCTOR_CACHE_DIR']"
    torch = f"import os; print({names}, file=open({str(witness)!r}, 'w'))"
    done = run_with(
        *(torch, tmp_path), TRITON_CACHE_DIR=str(cache), TORCHINDUCTOR_CACHE_DIR=str(cache)
    )
    assert ("others can write" in done.stdout) == (mode == 0o777)
    used = {Path(path) for path in witness.read_text().split()}
    if mode == 0o777:
        assert cache not in used
        assert not any(path.exists() for path in used)
    else:
        assert used == {cache}


def test_the_command_checks_the_named_python(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@ $LD_PRELOAD"\nexit 1\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    main = "from vgpu_sim.cli.main import main; main()"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", main, "doctor", "--framework", "torch", *arguments]
        own = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
        return subprocess.run(command, env=own, capture_output=True, text=True, check=False)

    done = run("--python", str(python), "--preload", "13", "-o", "json")
    assert done.returncode == 1
    assert done.stdout.startswith("-m tessera_torch.doctor -o json /")
    assert done.stdout.endswith("libtessera-cuda13.so\n")
    missing = run("--python", str(tmp_path / "none"))
    assert (missing.returncode, "name your Python" in missing.stderr) == (1, True)
