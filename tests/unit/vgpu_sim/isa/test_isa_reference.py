"""docs/isa.md matches the definitions."""

import subprocess
import sys
from pathlib import Path

from vgpu_sim.isa import Op, reference
from vgpu_sim.isa.asm import assemble

ROOT = Path(__file__).parents[4]
_HINT = "run: python -m vgpu_sim.isa.reference > docs/isa.md"


def test_the_reference_is_fresh() -> None:
    assert (ROOT / "docs" / "isa.md").read_text() == reference.render(), _HINT


def test_the_generator_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "vgpu_sim.isa.reference"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.stdout == reference.render()


def test_every_opcode_has_its_section() -> None:
    text = reference.render()
    for op in Op:
        assert f"\n#### {op.name} — " in text


def test_the_example_assembles() -> None:
    text = reference.render()
    begin = text.index("```\n.isa 1\n") + 4
    module = assemble(text[begin : text.index("```", begin)])
    assert module.function("scale").lines.count(12) == 1
