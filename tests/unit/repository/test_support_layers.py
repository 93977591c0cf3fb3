"""The contracts of what the tests share: each is broken by an import planted against it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PLANTED = {
    "What the tests share: top to bottom": (
        "support/rigs/hca_rig.py",
        "import support.wire.wire_rig",
    ),
    "No two modules or rooms import each other, at any depth": (
        "support/rigs/hca_rig.py",
        "import support.rigs.hca_load",
    ),
    "Oracles share no code with the product": ("support/oracles/roce.py", "import rdma"),
    "The proof of the clamp shares no code with the JIT": (
        "support/proofs/ir_text.py",
        "import llvmlite",
    ),
    "The end-to-end tests reach the cluster by kubectl, not by our code": (
        "support/cluster/kubectl.py",
        "import gpu_operator",
    ),
}


def lint_imports(directory: Path) -> str:
    """Run the linter on a copy of the package and return what it prints."""
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed beside this Python")
    done = subprocess.run(
        [command, "--config", TESTS / ".importlinter", "--no-cache"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture
def support(tmp_path: Path) -> Path:
    """A folder that holds a copy of the package."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TESTS / "support", tmp_path / "support", ignore=ignored)
    return tmp_path


def test_all_contracts_are_kept_and_each_one_breaks_when_violated(support: Path) -> None:
    kept = lint_imports(support)
    names = set(re.findall(r"^(.+?) KEPT\b", kept, re.MULTILINE))
    assert names == set(PLANTED), kept
    for path, line in PLANTED.values():
        file = support / path
        file.write_text(f"{file.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    broken = lint_imports(support)
    assert set(re.findall(r"^(.+?) BROKEN\b", broken, re.MULTILINE)) == set(PLANTED), broken


def test_a_folder_that_is_not_in_the_order_is_refused(support: Path) -> None:
    stray = support / "support" / "misplaced"
    stray.mkdir()
    (stray / "__init__.py").touch()
    assert "misplaced" in lint_imports(support)
