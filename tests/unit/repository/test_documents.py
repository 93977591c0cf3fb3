"""What the documents say can be done: links lead somewhere, commands of the README work."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.main import main

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "deploy" / "README.md"]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []
    paths = re.findall(r"`((?:docs|examples|tests|vgpu_sim|deploy|charts)/[\w./-]+)`", text)
    built = "vgpu_sim/native/lib"
    assert [path for path in paths if path != built and not (ROOT / path).exists()] == []


def commands() -> list[str]:
    """Every `tessera` command of the README that stands on a line of its own, but for runs."""
    lines = re.findall(
        r"^    (tessera .*?)(?:  +#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    return [line for line in lines if not line.startswith(("tessera run", "tessera smi"))]


def test_the_readme_shows_commands_of_every_kind() -> None:
    assert {command.split()[1] for command in commands()} == {"mig", "ptx", "isa"}


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "vecadd.ptx", "kernel.ptx")
    runner = CliRunner()
    Path("kernel.isa").write_text(runner.invoke(main, ["ptx", "compile", "kernel.ptx"]).output)
    done = runner.invoke(main, shlex.split(command)[1:], prog_name="tessera")
    assert done.exit_code == 0, done.output
