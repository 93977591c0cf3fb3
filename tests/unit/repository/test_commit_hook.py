"""The commit-msg hook accepts the form of a subject that CONTRIBUTING describes, and nothing else."""

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[3] / "hooks" / "commit-msg"


def _run(message: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "COMMIT_EDITMSG"
    file.write_text(message)
    return subprocess.run([HOOK, file], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "message",
    [
        "rdma: fuzz schema-valid objects against the oracle\n",
        "exec/jit: unroll loops of a tile\n\nMeasured on two cores.\n",
        'Revert "rdma: fuzz schema-valid objects against the oracle"\n',
        "fixup! rdma: fuzz schema-valid objects\n",
        "docs: name the scheduler\n# Please enter the commit message\n",
    ],
)
def test_a_subject_with_a_room_is_accepted(message: str, tmp_path: Path) -> None:
    done = _run(message, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Merge branch 'rows8'\n", "rebase"),
        ("wip\n", "room: imperative"),
        ("Odd objects of all that the schemas let pass\n", "room: imperative"),
        ("rdma: Fuzz objects\n", "lower case"),
        ("rdma: fuzz objects.\n", "full stop"),
        ("rdma: fuzzed objects\n", "imperative"),
        (f"rdma: fuzz {'x' * 62}\n", "72"),
        ("rdma: fuzz objects\nat once\n", "blank"),
        ("\n", "room: imperative"),
    ],
)
def test_other_subjects_are_refused_with_the_reason(
    message: str, reason: str, tmp_path: Path
) -> None:
    done = _run(message, tmp_path)
    assert done.returncode == 1
    assert reason in done.stderr
