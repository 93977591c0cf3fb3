"""`make release` refuses what is not ready, and publishes nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHANGES = "# Changelog\n\n## Unreleased\n\n## 1.2.3\n- a change\n"


def git(checkout: Path, *arguments: str) -> None:
    names = ("-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *arguments], cwd=checkout, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a clean checkout of version 1.2.3, whose programs only record that they ran."""
    made = tmp_path / "checkout"
    for folder in ("deploy/release", "deploy/kind", "deploy/krew"):
        shutil.copytree(ROOT / folder, made / folder)
    (made / "charts" / "tessera").mkdir(parents=True)
    (made / "charts" / "tessera" / "Chart.yaml").write_text("version: 1.2.3\nappVersion: 1.2.3\n")
    (made / "pyproject.toml").write_text(
        '[project]\nname = "tessera"\nversion = "1.2.3"\ndescription = "d"\n'
    )
    (made / "CHANGELOG.md").write_text(CHANGES)
    (made / "LICENSE").write_text("l")
    (made / ".gitignore").write_text("dist/\n")
    git(made, "init", "-q", "-b", "main")
    commit(made)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "helm").write_text(
        '#!/bin/sh\n[ "$1" = lint ] || echo c >"$4/tessera-1.2.3.tgz"\necho helm "$1" >>"$CALLS"\n'
    )
    (programs / "python").write_text(
        '#!/bin/sh\ncase "$*" in *hatchling*) echo s >"$5/tessera-1.2.3.tar.gz";'
        ' [ -n "$NO_WHEEL" ] || echo w >"$5/tessera-1.2.3-py3-none-any.whl" ;;'
        f' *) exec "{shutil.which("python3")}" "$@" ;; esac\necho build >>"$CALLS"\n'
    )
    (programs / "twine").write_text('#!/bin/sh\necho published >>"$CALLS"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    return made


def commit(checkout: Path) -> None:
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "a")


def release(
    checkout: Path, version: str = "1.2.3", *directory: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    programs = checkout.parent / "bin"
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "TESSERA_PYTHON": str(programs / "python"),
        "TESSERA_CACHE": str(checkout.parent / "cache"),
        "CALLS": str(checkout.parent / "calls"),
        **variables,
    }
    return subprocess.run(
        [checkout / "deploy" / "release" / "build", version, *directory],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_packages_are_built_with_their_digests(checkout: Path) -> None:
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    sums = (checkout / "dist" / "SHA256SUMS").read_text()
    for name in (
        "tessera-1.2.3.tar.gz",
        "tessera-1.2.3.tgz",
        "tessera.yaml",
        "kubectl-tessera-1.2.3",
    ):
        assert name in sums
    assert "Nothing was published" in done.stdout
    assert "git tag -s v1.2.3" in done.stdout
    assert f"deploy/packages/check {checkout / 'dist'}" in done.stdout
    assert "make packages" not in done.stdout, "it removes dist"
    assert (checkout.parent / "calls").read_text().splitlines() == [
        "build",
        "helm lint",
        "helm package",
    ]


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("new", "x", "the checkout has changes"),
        ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n- a\n", 'no section "## 1.2.3"'),
        ("CHANGELOG.md", CHANGES.replace("Unreleased\n", "Unreleased\n- b\n"), "under \"Unreleased\""),
        ("pyproject.toml", '[project]\nversion = "1.2.2"\n', "pyproject.toml has version 1.2.2"),
        ("charts/tessera/Chart.yaml", "version: 1.2.3\nappVersion: 9\n", "has appVersion 9"),
    ],
)  # fmt: skip
def test_what_is_not_ready_is_refused(checkout: Path, file: str, text: str, reason: str) -> None:
    (checkout / file).write_text(text)
    if file != "new":
        commit(checkout)
    done = release(checkout)
    assert done.returncode == 1
    assert reason in done.stderr
    assert not (checkout / "dist").exists()
    assert not (checkout.parent / "calls").exists()


def test_a_wrong_version_and_a_used_tag_are_refused(checkout: Path) -> None:
    assert "not MAJOR.MINOR.PATCH" in release(checkout, "v1").stderr
    git(checkout, "tag", "v1.2.3")
    assert "the tag v1.2.3 exists" in release(checkout).stderr


def test_files_of_others_are_kept(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert release(checkout, "1.2.3", other).returncode == 0
    assert release(checkout, "1.2.3", other).returncode == 0, "a directory of a release"
    (other / "a thesis").write_text("t")
    done = release(checkout, "1.2.3", other)
    assert done.returncode == 1
    assert "files that are not of a release" in done.stderr
    assert (other / "a thesis").read_text() == "t"


def test_a_missing_package_is_an_error(checkout: Path) -> None:
    done = release(checkout, NO_WHEEL="1")
    assert done.returncode == 1
    assert ".whl was not built" in done.stderr
    assert "Built" not in done.stdout
