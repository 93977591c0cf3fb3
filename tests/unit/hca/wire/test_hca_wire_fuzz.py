"""A short run of the fuzzer: nothing that policy denies is written."""

import os

import pytest

from rdma.verbs import Verb
from support.wire import wire_fuzz
from support.wire.wire_fuzz import RECEIVES, SEND_TAG, UD_TAG, WRITE_TAG, Fuzz, Violation

SEEDS = int(os.environ.get("HCA_WIRE_SEEDS", "3"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_packets_write_nothing_that_policy_denies(engines, seed):
    done = wire_fuzz.run(engines, seed, 600)
    assert done["send"] > 200
    assert done["evaluate_one"] > 10


@pytest.mark.parametrize(
    ("place", "byte"),
    [(5, WRITE_TAG + 6), (RECEIVES, SEND_TAG + 4), (5, UD_TAG), (wire_fuzz.ADDS, 1)],
)
def test_the_oracle_detects_forbidden_data(engines, place, byte):
    fuzz = Fuzz(engines, 1)
    target = fuzz.targets[0]
    fuzz.engine.set_policies([fuzz.change(target, Verb.WRITE_IMM)])
    target.mask = Verb.WRITE_IMM
    target.region.view[place] = byte
    with pytest.raises(Violation, match=hex(byte)):
        fuzz.check(target)
    fuzz.close()
