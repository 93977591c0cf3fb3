"""Golden output of ``nvidia-smi`` on a test double of NVML: each ``*.txt`` is a command and its output.

After an intended change run ``PYTHONPATH=.:tests python -m support.programs.nvidia_smi`` and review the difference.
"""

import pytest

from support.programs import nvidia_smi

CASES = sorted(nvidia_smi.GOLDEN.glob("*.txt"))


def test_there_are_cases():
    assert len(CASES) >= 20


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_output(path):
    recorded = path.read_text(encoding="utf-8")
    line = recorded.partition("\n")[0].removeprefix("$ ")
    assert nvidia_smi.transcript(line) == recorded
