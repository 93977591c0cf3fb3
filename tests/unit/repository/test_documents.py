"""What the documents say can be done: links lead somewhere, commands of the README work."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim import config
from vgpu_sim.cli.main import main

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "deploy" / "README.md"]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []
    paths = re.findall(r"`((?:docs|examples|tests|hca|vgpu_sim|deploy|charts)/[\w./-]+)`", text)
    built = ("vgpu_sim/native/lib", "vgpu_sim/native/generated")
    assert [
        path for path in paths if not path.startswith(built) and not (ROOT / path).exists()
    ] == []


def test_kinds_that_are_waited_for_are_one_argument() -> None:
    """With ``--all`` kubectl takes a second word for a name: ``kubectl wait --all a,b``."""
    notes = ROOT / "charts" / "tessera" / "templates" / "NOTES.txt"
    found = [
        line.strip()
        for document in (*DOCUMENTS, notes)
        for line in document.read_text(encoding="utf-8").splitlines()
        if re.search(r"kubectl.* wait.* --all [a-z,]+ +[a-z]", line)
    ]
    assert found == []


def test_the_command_that_removes_the_definitions_names_each_of_them() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    found = re.search(r"`kubectl delete crd ([^`]*)`", page)
    assert found
    files = (ROOT / "charts" / "tessera" / "files" / "crds").glob("*.yaml")
    names = {re.search(r"^  name: (.*)$", one.read_text(), re.MULTILINE)[1] for one in files}
    assert set(found[1].split()) == names


# In place of this process, or with its streams.
_RUNS = ("tessera run", "tessera smi", "tessera ptx run", "tessera perf run")
_OF_A_CLUSTER = ("tessera rdma explain",)


def commands() -> list[str]:
    """Every `tessera` command of the README on a line of its own, but for runs and clusters."""
    lines = re.findall(
        r"^    (tessera .*?)(?:  +#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    return [line for line in lines if not line.startswith(_RUNS + _OF_A_CLUSTER)]


def test_the_readme_shows_commands_of_every_kind() -> None:
    assert {command.split()[1] for command in commands()} == {
        "mig",
        "ptx",
        "isa",
        "libdir",
        "perf",
        "rdma",
    }


def test_the_commands_of_the_readme_work_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, as somebody types them who has only the checkout."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for command in commands():
        done = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="tessera")
        assert done.exit_code == 0, (command, done.output)


GENERATORS = re.findall(
    r"`(?:python -m) ([\w.]+)[^`]*`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", [*GENERATORS, "vgpu_sim.compiler.binding"])
def test_a_generator_that_is_asked_for_help_writes_nothing(module: str, tmp_path: Path) -> None:
    paths = [str(ROOT), str(ROOT / "operator"), *filter(None, sys.path)]
    before = {path: path.stat().st_mtime_ns for path in ROOT.glob("docs/*.md")}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m {module}")
    assert not list(tmp_path.iterdir())
    assert before == {path: path.stat().st_mtime_ns for path in ROOT.glob("docs/*.md")}


def test_the_first_page_for_authors_has_every_variable() -> None:
    text = (ROOT / "docs" / "first-kernel.md").read_text(encoding="utf-8")
    first = "".join(re.findall(r"^\| `[^|]* \|", text, re.MULTILINE))
    rows = set(re.findall(r"`([A-Z_]{3,})`", first))
    generated = (ROOT / "docs" / "cuda-support.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `([A-Z_]{3,})` \|", generated, re.MULTILINE))
    known |= {value for name, value in vars(config).items() if name.endswith("_VARIABLE")}
    assert known
    assert rows == known | {"XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"}  # not ours
