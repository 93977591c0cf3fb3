"""Legality of PTX, compared with NVIDIA's own assembler: a sample of ``legality``."""

import random

import pytest

from support.tools.legality import assembler, compare
from support.tools.legality.residue import RESIDUE, key

_SAMPLE = 1500

pytestmark = pytest.mark.skipif(
    assembler.find() is None, reason=f"NOT RUN: there is no ptxas: {assembler.INSTALL}"
)


def test_the_compiler_and_the_assembler_agree_on_what_is_ptx() -> None:
    ptxas = assembler.find()
    assert ptxas is not None
    cases = list(compare.cases(per_form=2))
    sample = random.Random(assembler.release(ptxas)).sample(cases, _SAMPLE)
    found = compare.verdicts(sample, assembler.Assembler(ptxas))
    assert len(found) > 0.95 * _SAMPLE
    assert sum(not one.theirs for one in found) > 0.3 * _SAMPLE
    different = {key(one) for one in found if not one.agrees}
    assert different <= RESIDUE.keys()
    assert compare.agreement(found) >= 0.99
    assert compare.false_accepts(found) <= 0.005
