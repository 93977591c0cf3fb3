"""Legality of PTX, compared with NVIDIA's own assembler: a sample of ``legality``."""

import random

import pytest

from support.tools.legality import assembler, compare, features, reasons
from support.tools.legality.residue import RESIDUE, key

_SAMPLE = 1500
_FEATURES = 300

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
    assert reasons.agreement(found) >= 0.9


def test_the_compiler_and_the_assembler_agree_on_tensor_features_of_each_target() -> None:
    ptxas = assembler.find()
    assert ptxas is not None
    sample = random.Random(assembler.release(ptxas)).sample(list(features.cases()), _FEATURES)
    found = compare.verdicts(sample, assembler.Assembler(ptxas))
    assert len(found) == _FEATURES
    assert 0.2 * _FEATURES < sum(not one.theirs for one in found) < 0.8 * _FEATURES
    assert [one for one in found if not one.agrees] == []
