"""The documentation holds: links and paths exist, and the README's commands work."""

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
DOCUMENTS += [ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = sorted((ROOT / "docs").glob("*.md"))
GENERATED = {f"{name}.md" for name in ("isa", "binding", "cuda-support", "nvml-support")}
GENERATED |= {"cudart-support.md", "rdma-support.md", "rdmacm-support.md"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []
    paths = re.findall(r"`((?:docs|examples|tests|hca|vgpu_sim|deploy|charts)/[\w./-]+)`", text)
    built = ("vgpu_sim/native/lib", "vgpu_sim/native/generated")
    assert [
        path for path in paths if not path.startswith(built) and not (ROOT / path).exists()
    ] == []


def find_anchors(document: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub derives them."""
    text = document.read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    titles = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_name_existing_headings(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text)
    missing = [
        f"{link}#{anchor}"
        for link, anchor in links
        if anchor not in find_anchors(document.parent / link if link else document)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_begins_with_its_readers_and_is_in_the_index(page: Path) -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    if page.name != "README.md":
        assert f"]({page.name})" in index
    if page.name not in GENERATED | {"README.md"}:
        _, _, first, *_ = page.read_text(encoding="utf-8").splitlines()
        assert first.startswith("For "), first


def test_the_readme_answers_on_its_first_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 160
    screen = "\n".join(lines[:40])
    for answer in ("does my program run", "tessera run", "make demo", "I want to"):
        assert answer in screen


def test_kubectl_wait_gets_all_kinds_as_one_argument() -> None:
    """With ``--all`` kubectl parses a second word as a name: ``kubectl wait --all a,b``."""
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


# They replace this process, or use its streams.
_RUNS = ("tessera run", "tessera smi", "tessera ptx run", "tessera perf run")
_NEED_A_CLUSTER = ("tessera rdma explain",)


def read_commands() -> list[str]:
    """Return the README's `tessera` commands, except those for runs and clusters."""
    lines = re.findall(
        r"^    (tessera .*?)(?:  +#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    return [line for line in lines if not line.startswith(_RUNS + _NEED_A_CLUSTER)]


def test_the_readme_shows_each_group_of_commands() -> None:
    assert {command.split()[1] for command in read_commands()} == {
        "mig",
        "ptx",
        "isa",
        "libdir",
        "perf",
        "rdma",
    }


def test_the_readmes_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run them in order, as a user with only the checkout does."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for command in read_commands():
        done = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="tessera")
        assert done.exit_code == 0, (command, done.output)


GENERATORS = re.findall(
    r"`(?:python -m) ([\w.]+)[^`]*`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", [*GENERATORS, "vgpu_sim.compiler.binding"])
def test_a_generator_writes_nothing_for_help(module: str, tmp_path: Path) -> None:
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


def test_the_first_kernel_page_lists_every_variable() -> None:
    text = (ROOT / "docs" / "first-kernel.md").read_text(encoding="utf-8")
    first = "".join(re.findall(r"^\| `[^|]* \|", text, re.MULTILINE))
    rows = set(re.findall(r"`([A-Z_]{3,})`", first))
    generated = (ROOT / "docs" / "cuda-support.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `([A-Z_]{3,})` \|", generated, re.MULTILINE))
    known |= {value for name, value in vars(config).items() if name.endswith("_VARIABLE")}
    assert known
    assert rows == known | {"XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"}  # not ours
